//! From the bytes to what md must be told nothing is allocated: what the initramfs does with metadata takes the same room
//! whatever the metadata says.

// An allocator cannot be had without.
#![allow(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[allow(dead_code, unreachable_pub)]
#[path = "imsm/sample.rs"]
mod sample;

use quell::imsm::{Found, Member, Serial, read};
use sample::{Image, SETS, set};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// What this thread has allocated.
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: all it does is the system's allocator's work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends has no count any more.
        let _ = COUNT.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as above; what is freed was allocated there.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[test]
fn reading_and_deciding_allocates_nothing() {
    for (name, ..) in SETS {
        let images = set(name);
        let mut tails: Vec<Vec<u8>> = images.iter().map(Image::tail).collect();
        let mut members = Vec::with_capacity(images.len());
        let before = COUNT.get();
        for (tail, image) in tails.iter_mut().zip(&images) {
            let serial = Serial::of_device(image.serial.as_bytes()).unwrap();
            let metadata = read(tail, image.sector, Some(image.sectors * 512)).unwrap();
            let member = Member::new(&image.name, serial, metadata, Some(image.sectors));
            members.push(member.unwrap());
        }
        let found = Found::new(&mut members);
        let mut slots = 0;
        for container in found.containers() {
            slots += container
                .plans()
                .map(|plan| plan.slots.len())
                .sum::<usize>();
            slots += container.bound().count() + container.missing().count();
        }
        assert_eq!(COUNT.get(), before, "{name}");
        assert!(slots > 0, "{name}");
    }
    // It does count.
    let before = COUNT.get();
    drop(std::hint::black_box(vec![0_u8; 100]));
    assert_eq!(COUNT.get(), before + 1);
}

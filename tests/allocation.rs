//! From the plan's first read to its end a run allocates nothing, in the main process and in its workers: the disk that
//! swap lies on may be the next one to go, and memory that cannot be had is a shutdown that hangs.
//!
//! Each run is a child of its own. Rust's allocator is counted from the moment [`quell::quiesce::run`] starts, in all
//! processes that come of it, and from that moment the kernel ends each process that asks it for memory (brk, mmap).

// The allocator, the filter and the page that processes share cannot be had without.
#![allow(unsafe_code)]
// A test that cannot go on has failed.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use core::ops::ControlFlow;

use common::case::machine_of;
use common::folder;
use common::tree::{Pipes, look};
use common::trials::{Trial, run_at_once};
use nix::libc;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use quell::context::{Context, Exit};
use quell::deadline::Deadline;
use quell::kmsg;
use quell::options::{Options, Stage};
use quell::quiesce::{self, Which};
use quell::sys::Root;
use quell::teardown;
use std::alloc::{GlobalAlloc, Layout, System};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// Counts while it is told to.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static ARMED: AtomicBool = AtomicBool::new(false);

/// What all processes of a run have in common.
#[derive(Default)]
struct Shared {
    allocations: AtomicUsize,
    /// The size of the last.
    size: AtomicUsize,
}

static SHARED: AtomicPtr<Shared> = AtomicPtr::new(core::ptr::null_mut());

fn shared() -> Option<&'static Shared> {
    // SAFETY: it is null, or a page that is mapped as long as the process lives, zeroed, and holds only atomics.
    unsafe { SHARED.load(Ordering::Relaxed).as_ref() }
}

impl Counting {
    fn note(layout: Layout) {
        if ARMED.load(Ordering::Relaxed)
            && let Some(shared) = shared()
        {
            shared.allocations.fetch_add(1, Ordering::Relaxed);
            shared.size.store(layout.size(), Ordering::Relaxed);
        }
    }
}

// SAFETY: everything is the system's allocator's affair; what is counted is counted without allocating.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::note(layout);
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is handed on.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::note(layout);
        // SAFETY: the caller's promise is handed on.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

/// Makes the page.
fn share() {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    // SAFETY: a new mapping, which is never taken away.
    let page = unsafe {
        mmap_anonymous(
            core::ptr::null_mut(),
            size_of::<Shared>(),
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
        )
    };
    SHARED.store(page.unwrap().cast(), Ordering::Relaxed);
}

/// From here on the kernel ends this process, and every one it makes, at once where it asks for memory.
fn forbid_memory() -> Result<(), String> {
    let forbidden = [libc::SYS_brk, libc::SYS_mmap, libc::SYS_mremap];
    let op = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter {
        code: u16::try_from(code).unwrap(),
        jt,
        jf,
        k,
    };
    // The number of the system call is the first word of struct seccomp_data.
    let mut filter = vec![op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for (at, number) in forbidden.into_iter().enumerate() {
        let to_end = u8::try_from(forbidden.len() - at).unwrap();
        let number = u32::try_from(number).unwrap();
        filter.push(op(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            number,
            to_end,
            0,
        ));
    }
    let ret = libc::BPF_RET | libc::BPF_K;
    filter.push(op(ret, libc::SECCOMP_RET_ALLOW, 0, 0));
    filter.push(op(ret, libc::SECCOMP_RET_KILL_PROCESS, 0, 0));
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).unwrap(),
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: prctl(2) reads the program, which is there for the whole call, and changes nothing of ours.
    let set = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ) == 0
    };
    if set {
        Ok(())
    } else {
        Err(format!("no seccomp: {}", std::io::Error::last_os_error()))
    }
}

/// How a watched process ended.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// With this status and so many allocations.
    Exit(i32, usize),
    /// It asked the kernel for memory.
    AskedForMemory,
    Otherwise(String),
}

/// Forks a process that makes ready by `prepare` and then, watched, does `life`; its number is its exit status.
fn watched<T>(prepare: impl FnOnce() -> T, life: impl FnOnce(&T) -> u8) -> Ended {
    let shared = shared().unwrap();
    shared.allocations.store(0, Ordering::Relaxed);
    shared.size.store(0, Ordering::Relaxed);
    // SAFETY: this process has one thread.
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let ready = prepare();
            if let Err(why) = forbid_memory() {
                eprintln!("{why}");
                // SAFETY: _exit(2) is always safe.
                unsafe { libc::_exit(99) }
            }
            ARMED.store(true, Ordering::SeqCst);
            let status = life(&ready);
            ARMED.store(false, Ordering::SeqCst);
            // SAFETY: _exit(2) is always safe.
            unsafe { libc::_exit(status.into()) }
        }
        ForkResult::Parent { child } => match waitpid(child, None).unwrap() {
            WaitStatus::Exited(_, status) => {
                // A worker may live a little longer: it goes when it finds that the main process has.
                std::thread::sleep(std::time::Duration::from_millis(50));
                Ended::Exit(status, shared.allocations.load(Ordering::SeqCst))
            }
            WaitStatus::Signaled(_, nix::sys::signal::Signal::SIGSYS, _) => Ended::AskedForMemory,
            other => Ended::Otherwise(format!("{other:?}")),
        },
    }
}

/// What a run is like.
#[derive(Clone, Copy)]
struct Case {
    machine: &'static str,
    stage: Stage,
    dry_run: bool,
    json: bool,
    /// How a hook's or a person's run ends here.
    exit: Exit,
    run: fn(&Context) -> Exit,
    set: &'static [(&'static str, &'static str)],
}

fn quiesce(context: &Context) -> Exit {
    quiesce::run(context, Which::All)
}

fn tear_down(context: &Context) -> Exit {
    match teardown::step(context) {
        ControlFlow::Continue(exit) | ControlFlow::Break(exit) => exit,
    }
}

fn allocates_nothing(case: Case) -> Result<(), String> {
    let dir = folder();
    machine_of(case.machine)?.unpack(dir.path());
    let pipes = Pipes::open(dir.path(), &look(dir.path()));
    let ended = watched(
        || {
            let root: &'static Root =
                Box::leak(Box::new(Root::below(dir.path().as_os_str()).unwrap()));
            let null = std::fs::File::options()
                .write(true)
                .open("/dev/null")
                .unwrap();
            rustix::stdio::dup2_stdout(&null).unwrap();
            rustix::stdio::dup2_stderr(&null).unwrap();
            if case.stage.is_hook() {
                kmsg::to_kmsg(root, log::LevelFilter::Trace);
            } else {
                kmsg::to_stderr(log::LevelFilter::Trace);
            }
            let mut options = Options::DEFAULT;
            for (name, value) in case.set {
                options.set(name, Some(value)).unwrap();
            }
            Context {
                command: "shutdown",
                root,
                options,
                stage: case.stage,
                deadline: Deadline::in_seconds(30),
                signals: quell::sys::proc::Signals::block().ok(),
                dry_run: case.dry_run,
                json: case.json,
                fit: false,
                still: false,
            }
        },
        |context| (case.run)(context) as u8,
    );
    drop(pipes);
    let log = std::fs::read_to_string(dir.path().join("dev/kmsg")).unwrap_or_default();
    match ended {
        Ended::Exit(status, 0) if status == case.exit as i32 && !log.contains("worker died") => {
            Ok(())
        }
        Ended::Exit(_, 0) if log.contains("worker died") => Err(format!(
            "a worker asked the kernel for memory, or else died: {log}"
        )),
        Ended::Exit(99, _) => Err("no seccomp here: it cannot be tested".to_owned()),
        Ended::Exit(_, n) if n > 0 => Err(format!(
            "{n} allocations, the last of {} bytes",
            shared().unwrap().size.load(Ordering::Relaxed)
        )),
        other => Err(format!("{other:?}, {log}")),
    }
}

/// Every kind of user, state and transport; more controllers than places.
const ALL_KINDS: &str = "
for i in 0..20: controller nvme{i} 0000:{i+2:02x}:00.0 parts=2 power=auto rtd3e=7000000
controller nvme20 0000:20:00.0 heads=yes delayed=5
controller nvme21 0000:21:00.0 subsys=20 heads=yes
controller nvme22 tcp
controller nvme23 rdma state=connecting
controller nvme24 0000:24:00.0 state=resetting
controller nvme25 0000:25:00.0 vfs=1
controller nvme26 0000:25:00.1 physfn=0000:25:00.0
controller nvme27 apple-nvme
mount nvme0n1p1 / ext4
mount nvme1n1 /srv btrfs
proc/swaps += /dev/nvme2n1p2 partition 8388604 0 -2
holder nvme3n1 dm-0 vg-root
sys/block/loop0/loop/backing_file = /dev/nvme4n1
sys/kernel/config/nvmet/subsystems/nqn.test/namespaces/1/device_path = /dev/nvme5n1
sys/kernel/config/nvmet/subsystems/nqn.test/namespaces/1/enable = 1
sys/kernel/config/target/core/iblock_0/disk7/udev_path = /dev/nvme6n1p1
process 812 smartd /dev/nvme7
process 813 dd /dev/nvme8n1p1
no dev/nvme9n1
sys/kernel/rcu_expedited = 0
";

/// Volumes to be stopped, in use, and without their mdmon; a native array; one whose node is missing.
const ARRAYS: &str = "
for i in 0..8: disk nvme{i}n1
md md127 container=imsm members=nvme0n1,nvme1n1
md md126 volume=md127/0 members=nvme0n1:0,nvme1n1:1 level=raid1 state=active
md md125 volume=md127/1 members=nvme0n1:0,nvme1n1:1 level=raid0
md md124 container=imsm members=nvme2n1,nvme3n1
md md123 volume=md124/0 members=nvme2n1:0,nvme3n1:1 level=raid1 state=read-auto
md md122 container=imsm members=nvme4n1,nvme5n1
md md121 volume=md122/0 members=nvme4n1:0,nvme5n1:1 level=raid1
sys/block/md9/dev = 9:9
sys/block/md9/md/metadata_version = 1.2
sys/block/md9/md/array_state = clean
run/mdadm/map = md126 /md127/0 11111111:22222222:33333333:55555555 /dev/md/root
mount md121 /srv xfs
process 812 dd /dev/md123
";

fn main() -> ExitCode {
    share();
    let case = Case {
        machine: ALL_KINDS,
        stage: Stage::Exitrd,
        dry_run: false,
        json: false,
        exit: Exit::Undone,
        run: quiesce,
        set: &[("jobs", "4"), ("fabrics", "delete")],
    };
    let person = Case {
        stage: Stage::Person,
        ..case
    };
    let cases = [
        ("a hook", case),
        ("a hook's JSON", Case { json: true, ..case }),
        ("a person", person),
        (
            "a person's plan",
            Case {
                dry_run: true,
                exit: Exit::Done,
                ..person
            },
        ),
        (
            "a plan as JSON",
            Case {
                dry_run: true,
                json: true,
                exit: Exit::Done,
                ..person
            },
        ),
        (
            "a hook without kmsg",
            Case {
                machine: "controller nvme0 0000:02:00.0\ncontroller nvme1 0000:03:00.0\nno dev/kmsg",
                ..case
            },
        ),
        (
            "mounts that cannot be read",
            Case {
                machine: "controller nvme0 0000:02:00.0\ncontroller nvme1 0000:03:00.0\nno proc/self/mountinfo",
                exit: Exit::Missing,
                ..case
            },
        ),
        (
            "arrays",
            Case {
                machine: ARRAYS,
                run: tear_down,
                set: &[],
                ..case
            },
        ),
        (
            "a plan for arrays",
            Case {
                machine: ARRAYS,
                run: tear_down,
                dry_run: true,
                exit: Exit::Done,
                set: &[],
                ..person
            },
        ),
        (
            "no controllers",
            Case {
                machine: "",
                exit: Exit::Done,
                ..case
            },
        ),
    ];
    let mut trials: Vec<Trial> = cases
        .into_iter()
        .map(|(name, case)| {
            Trial::new(format!("nothing is allocated: {name}"), move || {
                allocates_nothing(case)
            })
        })
        .collect();
    // What is not seen proves nothing.
    let seen = |name: &str, life: fn() -> u8, wanted: Ended| {
        let wanted = std::sync::Mutex::new(wanted);
        Trial::new(format!("an allocation is seen: {name}"), move || {
            let ended = watched(|| (), |()| life());
            let wanted = wanted.lock().unwrap();
            if ended == *wanted {
                Ok(())
            } else {
                Err(format!("{ended:?}, and not {wanted:?}"))
            }
        })
    };
    trials.push(seen(
        "a string",
        || u8::from(std::hint::black_box(String::from("x")).is_empty()),
        Ended::Exit(0, 1),
    ));
    trials.push(seen(
        "in a process that was forked",
        || {
            // SAFETY: this process has one thread.
            match unsafe { fork() } {
                Ok(ForkResult::Parent { child }) => u8::from(waitpid(child, None).is_err()),
                _ => {
                    std::hint::black_box(vec![0_u8; 100]);
                    // SAFETY: _exit(2) is always safe.
                    unsafe { libc::_exit(0) }
                }
            }
        },
        Ended::Exit(0, 1),
    ));
    trials.push(seen(
        "memory from the kernel itself",
        || {
            share();
            0
        },
        Ended::AskedForMemory,
    ));
    run_at_once(trials, 1)
}

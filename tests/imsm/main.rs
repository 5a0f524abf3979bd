//! IMSM: metadata that mdadm wrote, decoded, decided on and damaged.
//!
//! `tests/imsm-samples/SET/Dn.tail` is the end of disk Dn of a set, `Dn.E.txt` what `mdadm -E` said of it, `mdN.txt` what md
//! ran with when mdadm had assembled it, `serials.txt` which kernel name was which disk.

// Not all of this stands in functions that are marked as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod damage;
mod decide;
mod mdadm;
mod mdsys;
mod order;
mod refuse;
mod sample;

#[path = "../../fuzz/bodies.rs"]
mod bodies;
mod fuzz;

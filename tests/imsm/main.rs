//! IMSM: metadata that mdadm wrote, decoded, decided on and damaged.
//!
//! `tests/imsm-samples/SET/SERIAL.tail` is the end of a disk of a set, `SERIAL.E.txt` what `mdadm -E` said of it, `mdN.txt` what md
//! ran with when mdadm had assembled it, `serials.txt` which kernel name was which disk. The sets from `ten6` on were written
//! by mdadm 4.2, the others by 4.6: `r1deg` has lost a disk, which is there with its old copy; `r5reb` is being rebuilt, and the
//! disk that was replaced is there too; `k10init` and `ktwo` are on 4Kn disks.

// Not all of this stands in functions that are marked as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod assembly;
mod checks;
mod damage;
mod decide;
mod mdadm;
mod mdsys;
mod order;
mod position;
mod refuse;
mod sample;

#[path = "../../fuzz/bodies.rs"]
mod bodies;
mod fuzz;

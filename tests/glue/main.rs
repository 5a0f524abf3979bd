//! What is shell in quell: the scripts of dracut's module and of initramfs-tools, with stubs for the programs they call.
//!
//! Each test runs under every shell that an initramfs may have ([`sandbox::SHELLS`]). That the generators take the scripts
//! up, and that they do on whole machines what they do here, is for the VM cases.

// Not all of this stands in functions that are marked as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod dracut;
mod exitrd;
mod imsm;
mod initramfs_tools;
mod sandbox;

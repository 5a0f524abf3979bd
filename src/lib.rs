//! skeleton
pub mod capability;
pub mod options;
pub mod schedule;

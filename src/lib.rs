//! skeleton
pub mod capability;
pub mod deadline;
pub mod kmsg;
pub mod name;
pub mod options;
pub mod pool;
pub mod schedule;
pub mod sys;
pub mod text;

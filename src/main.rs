//! argv → command → exit status; everything else is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(quell::command::main(std::env::args_os()) as u8)
}

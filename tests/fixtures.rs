//! Every file in `tests/fixtures` is a test: what it may say stands in `common/case.rs`.

// A test that cannot go on has failed.
#![allow(clippy::unwrap_used)]

mod common;

use common::case;
use common::trials::{Trial, run};
use std::fs;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "txt"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "there are no fixtures");
    run(files
        .into_iter()
        .map(|file| {
            let name = file.file_stem().unwrap().to_string_lossy().into_owned();
            Trial::new(format!("fixture {name}"), move || {
                case::run(&fs::read_to_string(&file).unwrap())
            })
        })
        .collect())
}

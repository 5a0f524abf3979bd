//! shellcheck over the scripts in cases, each with the preludes before it.

use super::{PRELUDE, all};
use crate::vm;
use anyhow::Result;

#[test]
fn the_cases_scripts_are_clean() -> Result<()> {
    let mut scripts = Vec::new();
    for case in all()? {
        for (n, start) in (1..).zip(&case.boot) {
            scripts.push((
                format!("{}.{n}", case.name),
                format!("{}{PRELUDE}{}", vm::PRELUDE, start.script),
            ));
            // Not all of them are programs.
            for (path, text) in &start.over {
                if !text.starts_with("#!") {
                    continue;
                }
                let name = path.rsplit('/').next().unwrap_or(path);
                scripts.push((format!("{}.{n}.{name}", case.name), text.clone()));
            }
        }
    }
    vm::shell::check(&scripts)
}

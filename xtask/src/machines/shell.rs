//! shellcheck over the scripts in cases, each with the preludes before it.

use super::{PRELUDE, all};
use crate::vm;
use anyhow::Result;

#[test]
fn the_cases_scripts_are_clean() -> Result<()> {
    let mut scripts = Vec::new();
    for case in all()? {
        for (n, script) in case.boot.iter().enumerate() {
            scripts.push((
                format!("{}.{}", case.name, n + 1),
                format!("{}{PRELUDE}{script}", vm::PRELUDE),
            ));
        }
    }
    vm::shell::check(&scripts)
}

//! Manual pages and completions, made of the tables that `quell --help` is made of, when a package is put together.
//!
//! What no table says stands in `doc/*.md`: the pages' prose, and the keys of `--json`.

mod bash;
mod fish;
mod given;
mod pages;
mod roff;
mod zsh;

use anyhow::Result;
use flate2::{Compression, GzBuilder};
use std::io::Write;
use std::path::Path;

/// What is made: where it is installed, and what is in it.
pub(crate) fn all(tree: &Path) -> Result<Vec<(&'static str, Vec<u8>)>> {
    let page = |name| gzip(pages::page(tree, name)?.as_bytes());
    Ok(vec![
        ("usr/share/man/man8/quell.8.gz", page("quell.8")?),
        (
            "usr/share/man/man7/quell.cmdline.7.gz",
            page("quell.cmdline.7")?,
        ),
        (
            "usr/share/bash-completion/completions/quell",
            bash::script().into_bytes(),
        ),
        (
            "usr/share/zsh/site-functions/_quell",
            zsh::script().into_bytes(),
        ),
        (
            "usr/share/fish/vendor_completions.d/quell.fish",
            fish::script().into_bytes(),
        ),
    ])
}

/// Without name and time, as small as can be: the same text makes the same file.
pub(crate) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut packed = GzBuilder::new().write(Vec::new(), Compression::best());
    packed.write_all(bytes)?;
    Ok(packed.finish()?)
}

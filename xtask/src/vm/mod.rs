//! The VM bench.
pub(crate) fn root() -> std::path::PathBuf { std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(std::path::Path::to_path_buf).unwrap_or_default() }
pub(crate) fn run(_args: &[String]) -> anyhow::Result<()> { anyhow::bail!("not written yet") }

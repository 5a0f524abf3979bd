//! Not written yet.

/// Runs the command.
pub(crate) fn run(_args: &[String]) -> anyhow::Result<()> {
    anyhow::bail!("not written yet")
}

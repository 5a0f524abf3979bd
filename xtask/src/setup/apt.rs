//! Debian packages for VMs: downloaded through apt with a configuration of our own, unpacked, never installed.
//!
//! Where packages come from is taken from the machine's own sources: the entries of Debian's archive for the running
//! release, with the suite replaced by the one that is asked for. Nothing else names a mirror.

use super::{cache, checked};
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where a package comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Suite {
    /// The running release.
    #[default]
    Host,
    /// A release by code name, with its security and updates suites.
    Named(&'static str),
}

impl Suite {
    fn codename(self) -> Result<String> {
        match self {
            Self::Named(name) => Ok(name.to_owned()),
            Self::Host => running(),
        }
    }
}

/// The running release's code name.
fn running() -> Result<String> {
    fs::read_to_string("/etc/os-release")?
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .map(|name| name.trim_matches('"').to_owned())
        .context("no VERSION_CODENAME in /etc/os-release")
}

/// One source of Debian's archive.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    uri: String,
    suite: String,
    options: String,
}

/// A private apt: its own lists, cache and sources, for one release.
pub(crate) struct Apt {
    config: PathBuf,
}

impl Apt {
    /// The apt of a release, its lists fetched if they never were. The caller holds the lock.
    pub(crate) fn new(_lock: &cache::Lock, suite: Suite) -> Result<Self> {
        let name = suite.codename()?;
        let dir = cache::root()?.join("apt").join(&name);
        for sub in ["state/lists/partial", "cache/archives/partial", "etc"] {
            fs::create_dir_all(dir.join(sub))?;
        }
        fs::write(dir.join("state/status"), "")?;
        fs::write(dir.join("etc/sources.list"), sources_for(&name)?)?;
        let at = dir.display();
        let config = dir.join("etc/apt.conf");
        // An empty status file: apt then works out whole dependency closures, as for an empty machine. The sandbox user
        // could not reach a cache below a private home.
        fs::write(
            &config,
            format!(
                "Dir::State \"{at}/state\";\nDir::State::status \"{at}/state/status\";\nDir::Cache \"{at}/cache\";\n\
                 Dir::Etc::sourcelist \"{at}/etc/sources.list\";\nDir::Etc::sourceparts \"/dev/null\";\n\
                 Dir::Etc::preferences \"/dev/null\";\nDir::Etc::preferencesparts \"/dev/null\";\n\
                 APT::Sandbox::User \"root\";\nAcquire::Languages \"none\";\nAcquire::Retries \"3\";\n"
            ),
        )?;
        let apt = Self { config };
        if !dir.join("state/fetched").exists() {
            apt.update()?;
            fs::write(dir.join("state/fetched"), "")?;
        }
        Ok(apt)
    }

    fn update(&self) -> Result<()> {
        eprintln!("setup: fetching package lists into the cache");
        checked(self.get().args(["-q", "update"]))
    }

    /// Its sources.list, for a tool that has an apt of its own.
    pub(crate) fn sources(&self) -> PathBuf {
        self.config.with_file_name("sources.list")
    }

    /// What this machine's apt has been told about mirrors that lag behind, as options for a tool that has an apt of its own.
    pub(crate) fn patience(&self) -> Result<Vec<String>> {
        let mut command = Command::new("apt-config");
        command
            .env("APT_CONFIG", &self.config)
            .args(["dump", "--format", "%f \"%v\";%n"])
            .args(["Acquire::Check-Valid-Until", "Acquire::Check-Date"]);
        let out = command.output().context("cannot start apt-config")?;
        let text = String::from_utf8(out.stdout)?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    fn get(&self) -> Command {
        let mut command = Command::new("apt-get");
        command.env("APT_CONFIG", &self.config);
        command
    }

    /// The exact version and the first dependency of a package (a kernel's meta package names the real one there).
    pub(crate) fn candidate(&self, package: &str) -> Option<(String, String)> {
        let out = Command::new("apt-cache")
            .env("APT_CONFIG", &self.config)
            .args(["--no-all-versions", "show", package])
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let field = |key: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(key))
                .map(|value| value.trim().to_owned())
        };
        let depends = field("Depends:").unwrap_or_default();
        let first = depends.split([',', ' ']).next().unwrap_or_default();
        Some((field("Version:")?, first.to_owned()))
    }

    /// Downloads packages, and with `closure` all they depend on, and unpacks them into `into`.
    pub(crate) fn unpack(&self, packages: &[String], closure: bool, into: &Path) -> Result<()> {
        let debs = into.join(".debs");
        let fetch = || -> Result<()> {
            fs::create_dir_all(debs.join("partial"))?;
            let mut command = self.get();
            if closure {
                command
                    .arg(format!("-oDir::Cache::archives={}", debs.display()))
                    .args(["-q", "-y", "--download-only", "--no-install-recommends"])
                    .args(["-oDebug::NoLocking=1", "install"]);
            } else {
                command.current_dir(&debs).args(["-q", "download"]);
            }
            checked(command.args(packages))
        };
        if fetch().is_err() {
            // The lists may be old and name versions that have left the mirror.
            self.update()?;
            fetch().with_context(|| format!("cannot download {}", packages.join(" ")))?;
        }
        for deb in fs::read_dir(&debs)? {
            let deb = deb?.path();
            if deb.extension().is_some_and(|ext| ext == "deb") {
                checked(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(into))?;
            }
        }
        fs::remove_dir_all(&debs)?;
        Ok(())
    }
}

/// The packages, with all they depend on, unpacked in one tree of the cache.
pub(crate) fn unpacked(suite: Suite, packages: &[&str]) -> Result<PathBuf> {
    tree(suite, packages, true)
}

/// The packages alone, unpacked in one tree of the cache.
pub(crate) fn unpacked_alone(suite: Suite, packages: &[&str]) -> Result<PathBuf> {
    tree(suite, packages, false)
}

fn tree(suite: Suite, packages: &[&str], closure: bool) -> Result<PathBuf> {
    let mut names: Vec<String> = packages.iter().map(|&name| name.to_owned()).collect();
    names.sort();
    let lock = cache::lock()?;
    let entry = format!(
        "trees/{}/{}{}",
        suite.codename()?,
        names.join("+"),
        if closure { "" } else { ".alone" }
    );
    cache::entry(&lock, &entry, |part| {
        eprintln!(
            "setup: unpacking {} into the cache, for the VMs",
            names.join(" ")
        );
        Apt::new(&lock, suite)?.unpack(&names, closure, part)
    })
}

/// A sources.list for `codename`, from the machine's own.
fn sources_for(codename: &str) -> Result<String> {
    let host = running()?;
    let sources = host_sources()?;
    let security = format!("{host}-security");
    let mut text = String::new();
    for (from, suites) in [
        (
            &host,
            vec![codename.to_owned(), format!("{codename}-updates")],
        ),
        (&security, vec![format!("{codename}-security")]),
    ] {
        let Some(source) = sources.iter().find(|source| &source.suite == from) else {
            continue;
        };
        // Suites that are still in the making have neither updates nor security.
        let young = ["forky", "sid", "testing", "unstable"].contains(&codename);
        for (n, suite) in suites.iter().enumerate() {
            if young && (n > 0 || from == &security) {
                continue;
            }
            text += &format!("deb {}{} {suite} main\n", source.options, source.uri);
        }
    }
    if text.is_empty() {
        bail!(
            "no source of Debian's own archive for {host} in /etc/apt: the VMs' packages come from there"
        );
    }
    Ok(text)
}

fn host_sources() -> Result<Vec<Source>> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(dir) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(dir.flatten().map(|entry| entry.path()));
    }
    files.sort();
    let mut sources = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap_or_default();
        match file.extension().and_then(|ext| ext.to_str()) {
            Some("list") => sources.extend(one_line(&text)),
            Some("sources") => sources.extend(deb822(&text)),
            _ => {}
        }
    }
    Ok(sources)
}

/// Debian's own archive is signed with the key that ships with Debian; others name their own.
fn is_debian(signed_by: &str, components: &str) -> bool {
    (signed_by.is_empty() || signed_by.contains("debian-archive"))
        && components.split_whitespace().any(|name| name == "main")
}

fn options(signed_by: &str) -> String {
    if signed_by.is_empty() {
        String::new()
    } else {
        format!("[signed-by={signed_by}] ")
    }
}

fn one_line(text: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    for line in text.lines() {
        let Some(mut rest) = line.trim().strip_prefix("deb ") else {
            continue;
        };
        rest = rest.trim_start();
        let mut signed_by = "";
        if let Some((inside, after)) = rest.strip_prefix('[').and_then(|r| r.split_once(']')) {
            signed_by = inside
                .split_whitespace()
                .find_map(|option| option.strip_prefix("signed-by="))
                .unwrap_or_default();
            rest = after.trim_start();
        }
        let mut words = rest.splitn(3, char::is_whitespace);
        if let (Some(uri), Some(suite), Some(components)) =
            (words.next(), words.next(), words.next())
            && is_debian(signed_by, components)
        {
            sources.push(Source {
                uri: uri.to_owned(),
                suite: suite.to_owned(),
                options: options(signed_by),
            });
        }
    }
    sources
}

fn deb822(text: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    // Comments may stand anywhere, also inside a stanza.
    let kept: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    for stanza in kept.split(|line| line.trim().is_empty()) {
        let field = |key: &str| {
            stanza
                .iter()
                .find_map(|line| {
                    let (name, value) = line.split_once(':')?;
                    name.eq_ignore_ascii_case(key).then(|| value.trim())
                })
                .unwrap_or_default()
        };
        let signed_by = field("Signed-By");
        if !field("Types").split_whitespace().any(|kind| kind == "deb")
            || field("Enabled").eq_ignore_ascii_case("no")
            || !is_debian(signed_by, field("Components"))
        {
            continue;
        }
        for uri in field("URIs").split_whitespace() {
            for suite in field("Suites").split_whitespace() {
                sources.push(Source {
                    uri: uri.to_owned(),
                    suite: suite.to_owned(),
                    options: options(signed_by),
                });
            }
        }
    }
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_debians_own_entries_are_kept() {
        let list = "# deb http://old.example/debian bookworm main\n\
                    deb http://mirror.example/debian bookworm main contrib\n\
                    deb [arch=amd64 signed-by=/usr/share/keyrings/other.gpg] http://other.example bookworm main\n\
                    deb http://third.example/x bookworm stable\n";
        let found = one_line(list);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found.first().map(|s| s.uri.as_str()),
            Some("http://mirror.example/debian")
        );
    }

    #[test]
    fn deb822_stanzas_give_one_source_per_suite() {
        let text = "Types: deb\n# a comment\nURIs: http://mirror.example/debian\nSuites: trixie trixie-updates\n\
                    Components: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n\
                    Types: deb-src\nURIs: http://mirror.example/debian\nSuites: trixie\nComponents: main\n";
        let suites: Vec<String> = deb822(text).into_iter().map(|s| s.suite).collect();
        assert_eq!(suites, ["trixie", "trixie-updates"]);
    }
}

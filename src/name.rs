//! The kernel's names for NVMe devices, taken apart.
//!
//! | name | what | source |
//! | --- | --- | --- |
//! | `nvme3` | controller, its character device | drivers/nvme/host/core.c, nvme_init_ctrl |
//! | `nvme3n1`, `nvme3n1p2` | namespace (head), partition | drivers/nvme/host/core.c, multipath.c |
//! | `nvme3c5n1` | one path of a multipath head: hidden, never opened | the same |
//! | `ng3n1` | the namespace's generic character device | the same |
//! | `nvme-subsys3` | subsystem | core.c, nvme_init_subsystem |

/// What a device name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// `nvmeN`.
    Controller(u32),
    /// `nvmeXnY`, a partition of it or its `ngXnY`.
    Namespace(Key),
}

/// The two numbers of a namespace's name: `nvme{instance}n{head}`. They are unique in one kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Instance of the controller, or of the subsystem where the namespace is a multipath head.
    pub instance: u32,
    /// Instance of the namespace head (not the NSID).
    pub head: u32,
}

impl core::fmt::Display for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "nvme{}n{}", self.instance, self.head)
    }
}

/// `nvme3` -> 3.
pub fn controller(name: &[u8]) -> Option<u32> {
    number_all(name.strip_prefix(b"nvme")?)
}

/// `nvme-subsys3` -> 3.
pub fn subsystem(name: &[u8]) -> Option<u32> {
    number_all(name.strip_prefix(b"nvme-subsys")?)
}

/// `nvme3n1` -> (3, 1); a partition, a path or a generic device is none.
pub fn namespace(name: &[u8]) -> Option<Key> {
    let (key, rest) = key(name.strip_prefix(b"nvme")?)?;
    rest.is_empty().then_some(key)
}

/// Any of the names above that a process, a mount or a claim may show, `/dev/` in front of it or not.
pub fn device(name: &[u8]) -> Option<Device> {
    let name = name.strip_prefix(b"/dev/").unwrap_or(name);
    if let Some(rest) = name.strip_prefix(b"ng") {
        let (key, rest) = key(rest)?;
        return rest.is_empty().then_some(Device::Namespace(key));
    }
    if let Some(n) = controller(name) {
        return Some(Device::Controller(n));
    }
    let (key, rest) = key(name.strip_prefix(b"nvme")?)?;
    match rest.strip_prefix(b"p") {
        Some(part) => number_all(part).map(|_| Device::Namespace(key)),
        None => rest.is_empty().then_some(Device::Namespace(key)),
    }
}

/// `3n1rest` -> ((3, 1), `rest`).
fn key(text: &[u8]) -> Option<(Key, &[u8])> {
    let (instance, rest) = number(text)?;
    let (head, rest) = number(rest.strip_prefix(b"n")?)?;
    Some((Key { instance, head }, rest))
}

fn number_all(text: &[u8]) -> Option<u32> {
    let (n, rest) = number(text)?;
    rest.is_empty().then_some(n)
}

/// The decimal number at the start of `text`, and what follows. A leading zero is not the kernel's way of writing one.
fn number(text: &[u8]) -> Option<(u32, &[u8])> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let (digits, rest) = text.split_at_checked(digits)?;
    if digits.len() > 1 && digits.first() == Some(&b'0') {
        return None;
    }
    let n = core::str::from_utf8(digits).ok()?.parse().ok()?;
    Some((n, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ns(instance: u32, head: u32) -> Option<Device> {
        Some(Device::Namespace(Key { instance, head }))
    }

    #[test]
    fn every_name_the_kernel_gives() {
        let cases: &[(&str, Option<Device>)] = &[
            ("nvme0", Some(Device::Controller(0))),
            ("/dev/nvme12", Some(Device::Controller(12))),
            ("nvme3n1", ns(3, 1)),
            ("/dev/nvme3n1p2", ns(3, 1)),
            ("ng3n1", ns(3, 1)),
            ("/dev/ng13n21", ns(13, 21)),
            ("nvme3c5n1", None),
            ("nvme-fabrics", None),
            ("nvme-subsys0", None),
            ("nvme", None),
            ("nvmen1", None),
            ("nvme3n", None),
            ("nvme3n1p", None),
            ("nvme3n1x", None),
            ("nvme03", None),
            ("nvme4294967296", None),
            ("ng3n1p1", None),
            ("sda", None),
            ("", None),
        ];
        for (name, want) in cases {
            assert_eq!(device(name.as_bytes()), *want, "{name}");
        }
        assert_eq!(subsystem(b"nvme-subsys7"), Some(7));
        assert_eq!(namespace(b"nvme3n1p1"), None);
        assert_eq!(
            namespace(b"nvme3n1"),
            Some(Key {
                instance: 3,
                head: 1
            })
        );
    }
}

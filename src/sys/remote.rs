//! Files that only a server can tell about, and may not: nothing is asked of them.

use rustix::io::Errno;

use super::Root;
use crate::path;
use crate::text::{Printable, Text};

/// File systems of that kind.
const KINDS: [&[u8]; 11] = [
    b"nfs", b"nfs4", b"cifs", b"smb3", b"9p", b"ceph", b"afs", b"lustre", b"gfs2", b"ocfs2",
    b"autofs",
];

/// The mounts of that kind in one mount namespace, by their number (proc(5), mountinfo), kept for the next process.
pub(super) struct Remote {
    /// The namespace, as its link says: `mnt:[4026531841]`.
    namespace: Text<40>,
    mounts: heapless::Vec<u32, 2048>,
}

impl Remote {
    pub(super) const fn new() -> Self {
        Self {
            namespace: Text::new(),
            mounts: heapless::Vec::new(),
        }
    }

    /// True if an open file of that process lies on one of them.
    pub(super) fn holds(
        &mut self,
        root: &Root,
        pid: u32,
        fd: &core::ffi::CStr,
    ) -> Result<bool, Errno> {
        self.know(root, pid)?;
        if self.mounts.is_empty() {
            return Ok(false);
        }
        let mut mount = None;
        let info = path!("/proc/{pid}/fdinfo/{}", Printable(fd.to_bytes()));
        root.lines::<256>(info.as_str(), |line| {
            if let Some(id) = line.strip_prefix(b"mnt_id:") {
                mount = core::str::from_utf8(id)
                    .ok()
                    .and_then(|id| id.trim().parse().ok());
            }
        })?;
        // A kernel that does not say (before 3.15) leaves only the worst to be assumed.
        Ok(mount.is_none_or(|mount| self.mounts.contains(&mount)))
    }

    /// Reads the mounts as that process sees them, unless they are the last one's.
    fn know(&mut self, root: &Root, pid: u32) -> Result<(), Errno> {
        let mut buf = [0; 40];
        let link = root.read_link(path!("/proc/{pid}/ns/mnt").as_str(), &mut buf)?;
        let namespace: Text<40> = Printable(link).to_text();
        if !namespace.is_empty() && namespace.as_str() == self.namespace.as_str() {
            return Ok(());
        }
        self.mounts.clear();
        let mut full = false;
        root.lines::<8192>(path!("/proc/{pid}/mountinfo").as_str(), |line| {
            let mut fields = line.split(|&b| b == b' ');
            let id = fields.next().unwrap_or_default();
            let kind = fields.skip_while(|f| *f != b"-").nth(1).unwrap_or_default();
            if (KINDS.contains(&kind) || kind.starts_with(b"fuse"))
                && let Some(id) = core::str::from_utf8(id).ok().and_then(|id| id.parse().ok())
            {
                full |= self.mounts.push(id).is_err();
            }
        })?;
        if full {
            // Which files may not be asked is not known, so neither is what they are.
            return Err(Errno::OVERFLOW);
        }
        self.namespace = namespace;
        Ok(())
    }
}

//! Metadata off a disk or a file: as much of its end as there is metadata, read again where a writer was at work.

use core::time::Duration;

use rustix::io::Errno;

use crate::errno::Cause;
use crate::imsm::{SectorSize, TAIL_USUAL, Unread, read};
use crate::sys::tail::Tail;

/// mdmon writes the metadata in two pieces: what is found corrupt in between is read again, as mdadm does.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(3);

/// Why there is no metadata of something.
#[derive(Debug)]
pub enum Nothing {
    /// It cannot be read.
    Unreadable(Errno),
    /// Metadata is on whole disks.
    Partition,
    /// Sectors of a size that cannot hold metadata.
    Sectors(u32),
    /// No metadata, or none that can be believed.
    Unread(Unread),
}

impl core::fmt::Display for Nothing {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Unreadable(errno) => write!(f, "cannot be read: {}", Cause(*errno)),
            Self::Partition => f.write_str("is a partition; IMSM metadata is on whole disks"),
            Self::Sectors(bytes) => write!(
                f,
                "has sectors of {bytes} bytes; IMSM metadata is on disks with 512 or 4096"
            ),
            Self::Unread(unread) => write!(f, "{unread}"),
        }
    }
}

/// The end of a disk of `disk_bytes`, or of a file, that holds all its metadata: for [`read`].
pub fn load(tail: &Tail, sector: SectorSize, disk_bytes: Option<u64>) -> Result<Vec<u8>, Nothing> {
    let whole = usize::try_from(tail.bytes()).unwrap_or(usize::MAX);
    let mut bytes = vec![0; TAIL_USUAL.min(whole)];
    let mut tries = 0;
    loop {
        tail.read(&mut bytes).map_err(Nothing::Unreadable)?;
        tries += 1;
        match read(&mut bytes.clone(), sector, disk_bytes).map(drop) {
            Ok(()) => return Ok(bytes),
            Err(Unread::Short(need)) if need > bytes.len() && need <= whole => {
                bytes.resize(need, 0);
            }
            Err(Unread::Corrupt(_)) if tries < TRIES && disk_bytes.is_some() => {
                std::thread::sleep(PAUSE);
            }
            Err(unread) => return Err(Nothing::Unread(unread)),
        }
    }
}

/// The metadata in its logical order, out of an end that [`load`] gave: what
/// [`Metadata::parse`](crate::imsm::Metadata::parse) takes. The end is of no use afterwards.
pub fn logical(end: &mut [u8], sector: SectorSize) -> Option<&[u8]> {
    let (size, blocks) = {
        let metadata = read(end, sector, None).ok()?;
        (metadata.size(), metadata.blocks())
    };
    // Put in order where it lies: its blocks stand before the last sector.
    let start = end.len().checked_sub(sector.bytes() * (blocks + 1))?;
    end.get(start..start + size)
}

//! Intel IMSM (RST, VROC; md's `external:imsm`) metadata: bytes → metadata → containers → what md must be told. Pure: no
//! file, no kernel, no allocation; and no input, however damaged, makes it panic, loop or take more room.
//!
//! # The way through
//!
//! 1. The end of each whole disk is read, [`TAIL_USUAL`] bytes or what [`Unread::Short`] asks for, and given to [`read`]
//!    with the disk's sector size. What comes back is [`Metadata`] that has been checked ([`Unread`] says what is wrong with
//!    it otherwise: where, which field, what was found, what is allowed).
//! 2. With the disk's own [`Serial`] and size it becomes a [`Member`].
//! 3. [`Found::new`] puts all members in order, [`Found::containers`] groups them: which copy counts, who is missing, who is
//!    stale.
//! 4. [`Container::plans`] says of each volume what is to become of it ([`Verdict`]), with whom ([`Slot`]) and what md must
//!    be told ([`Geometry`]). A container whose volumes are refused or incomplete is still one: each volume has its reason.
//!
//! # The format
//!
//! [`ondisk`] has every structure and where it lies; [`words`] the vocabularies; [`uuid`] how UUIDs are made.
//!
//! * Integers are little endian. Blocks are the disk's logical sectors; from [`Metadata`] on everything is in *sectors of
//!   512 bytes*, however large the disk's are.
//! * Every member has a copy of the same metadata at its end, written one after the other: anchor last. `generation_num`
//!   counts these writes, `family_num` changes when a spare is taken in, `orig_family_num` is the container's identity.
//! * A disk is known by its serial in the disk table, not by where it is. A volume's slots refer to the table by index.
//! * A disk that fails has its serial spoilt in the table, on purpose, so that it is stale when it comes back.
//! * While a volume migrates it has two maps: the first is the goal, the second is what is.
//!
//! # What is refused
//!
//! [`Why`] lists it, in two kinds: [`Kind::Unsupported`] (a reshape, a journaling drive, caching...) may be mdadm's;
//! [`Kind::Unsafe`] (copies that contradict each other, more failures than the level can lose...) is nobody's.
//!
//! Sources: mdadm's `super-intel.c` and `platform-intel.c` at 4.6, the kernel's `drivers/md` at 6.12, and both at work in
//! virtual machines. No code is taken from them.

mod check;
pub mod container;
pub mod fault;
pub mod geometry;
pub mod headers;
pub mod metadata;
pub mod names;
pub mod ondisk;
pub mod plan;
pub mod refusal;
mod serial;
pub mod uuid;
pub mod volume;
pub mod words;

pub use check::sum;
pub use container::{Container, Found, Member, Standing};
pub use fault::{Fault, Unread};
pub use geometry::Geometry;
pub use metadata::{Disk, Metadata, TAIL_USUAL, read};
pub use plan::{Lack, Plan, Slot, SlotState, Verdict};
pub use refusal::{Kind, Why};
pub use serial::Serial;
pub use uuid::Uuid;
pub use volume::{Map, Seat, Volume};
pub use words::{Attributes, Level, MapState, Migration, SectorSize, WriteHole, status};

//! The bytes as they lie on disk: every structure of IMSM metadata, field by field.
//!
//! All integers are little endian and nothing is aligned. A *block* is a logical sector of the disk, 512 or 4096 bytes: on
//! 4Kn disks the fields marked "blocks" count units of 4096 bytes and are turned into sectors of 512 bytes when they are read
//! ([`SectorSize::scale`](super::SectorSize::scale)); everything outside this room is in sectors of 512 bytes.
//!
//! Where they are, for a disk of `S` bytes with blocks of `ss` bytes, and metadata of `n = ceil(mpb_size / ss)` blocks:
//!
//! | what | byte offset | length |
//! | --- | --- | --- |
//! | rest of the metadata, only if `n` > 1 | `S - ss * (n + 1)` | `ss * (n - 1)` |
//! | anchor: the first block of the metadata | `S - 2 * ss` | `ss` |
//! | migration record | `S - ss` | `ss`, of which 128 bytes are used |
//!
//! The rest lies in front of the anchor and is read behind it: metadata = anchor, then rest. It is called MPB, "metadata
//! parameter block", and is one [`Super`], then [`Disk`] for each disk, then for each volume one [`Volume`] with one [`Map`]
//! and its slots, or two while it migrates, then free room, and at its very end the bad-block log.
//!
//! Sources: mdadm's `super-intel.c` (structure definitions, `load_imsm_mpb`, `store_imsm_mpb`, `read_imsm_migr_rec`), and
//! metadata that mdadm wrote in virtual machines. Where comments in that file disagree with its structures (offsets beside
//! the disk table), the structures are right.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The first 24 bytes, blank at the end included.
pub const SIGNATURE: [u8; 24] = *b"Intel Raid ISM Cfg Sig. ";

/// Sectors of 512 bytes that Linux keeps free for metadata at the end of a disk (MPB_SECTOR_CNT).
pub const MPB_SECTORS: u64 = 2210;

/// Sectors of 512 bytes that Linux keeps free in front of these on a disk with volumes (IMSM_RESERVED_SECTORS).
pub const RESERVED_SECTORS: u64 = 8192;

/// The fixed head of the metadata, 216 bytes; the disk table follows.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned, Debug)]
#[repr(C)]
pub struct Super {
    /// 0x00: [`SIGNATURE`].
    pub signature: [u8; 24],
    /// 0x18: format version as text, NUL padded: `1.0.00` RAID 0, `1.1.00` RAID 1, `1.2.00` several volumes, `1.2.01` three
    /// or four disks, `1.2.02` RAID 5, `1.2.04` five or six disks, `1.2.06` Clone'n'Go, `1.3.00` see the attributes, `2.0.00`
    /// journaling drive. Nothing is decided by it but that disks of one container have the same.
    pub version: [u8; 8],
    /// 0x20: sum, modulo 2^32, of the first `mpb_size / 4` words of the metadata without this one.
    pub check_sum: U32,
    /// 0x24: size of the whole metadata in bytes, bad-block log included.
    pub mpb_size: U32,
    /// 0x28: the family: changes whenever a spare is taken into a volume.
    pub family_num: U32,
    /// 0x2C: one more with every write to the members.
    pub generation_num: U32,
    /// 0x30: bytes; not used by Linux.
    pub error_log_size: U32,
    /// 0x34: [`Attributes`](super::Attributes).
    pub attributes: U32,
    /// 0x38: entries of the disk table, failed and missing ones too.
    pub num_disks: u8,
    /// 0x39: volumes.
    pub num_raid_devs: u8,
    /// 0x3A: not used by Linux.
    pub error_log_pos: u8,
    /// 0x3B
    pub fill: u8,
    /// 0x3C: MiB of RST cache.
    pub cache_size: U32,
    /// 0x40: the family the container was born with: its identity. 0 in free spares and very old metadata, where
    /// `family_num` stands for it.
    pub orig_family_num: U32,
    /// 0x44: power cycles.
    pub pwr_cycle_count: U32,
    /// 0x48: bytes of the bad-block log, the tail of the metadata; 0 = none.
    pub bbm_log_size: U32,
    /// 0x4C: volumes ever made: where a new volume's ID comes from.
    pub num_raid_devs_created: U16,
    /// 0x4E
    pub filler1: U16,
    /// 0x50: seconds since 1970; 0 = unknown.
    pub creation_time: U64,
    /// 0x58
    pub filler: [u8; 128],
}

/// An entry of the disk table, 48 bytes. Its order is arbitrary: slots refer to it by index.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned, Debug)]
#[repr(C)]
pub struct Disk {
    /// 0: NUL padded, with all 16 bytes used where it is as long ([`Serial`](super::Serial)).
    pub serial: [u8; 16],
    /// 16: blocks, low half.
    pub total_blocks_lo: U32,
    /// 20: 0xFFFFFFFF = a place holder for a disk that is missing; 0 for NVMe.
    pub scsi_id: U32,
    /// 24: `SPARE`, `CONFIGURED`, `FAILED`, `JOURNAL` ([`Disk`](super::Disk)).
    pub status: U32,
    /// 28
    pub owner_cfg_num: U32,
    /// 32: blocks, high half. Counts only where the attribute "disk over 2 TiB" is set.
    pub total_blocks_hi: U32,
    /// 36
    pub filler: [u8; 12],
}

/// A volume, 112 bytes (two structures in mdadm, `imsm_dev` and the `imsm_vol` at its end). Its map or maps follow.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned, Debug)]
#[repr(C)]
pub struct Volume {
    /// 0: NUL padded, all 16 bytes may be used.
    pub name: [u8; 16],
    /// 16: size of the volume in blocks, low half.
    pub size_lo: U32,
    /// 20: high half; counts always.
    pub size_hi: U32,
    /// 24: flags that persist ([`status`](super::status)).
    pub status: U32,
    /// 28: never scaled.
    pub reserved_blocks: U32,
    /// 32
    pub migr_priority: u8,
    /// 33
    pub num_sub_vols: u8,
    /// 34
    pub tid: u8,
    /// 35
    pub cng_master_disk: u8,
    /// 36
    pub cache_policy: U16,
    /// 38: Clone'n'Go; 0 = none.
    pub cng_state: u8,
    /// 39
    pub cng_sub_state: u8,
    /// 40: the "volume ID".
    pub my_vol_raid_dev_num: U16,
    /// 42: RST caching; 0 = none.
    pub nv_cache_mode: u8,
    /// 43
    pub nv_cache_flags: u8,
    /// 44
    pub nvc_vol_orig_family_num: U32,
    /// 48
    pub nvc_vol_raid_dev_num: U16,
    /// 50: how the RAID 5 write hole is closed ([`WriteHole`](super::WriteHole)).
    pub rwh_policy: u8,
    /// 51: serial of the journaling drive.
    pub jd_serial: [u8; 16],
    /// 67
    pub filler1: u8,
    /// 68
    pub filler2: [u8; 12],
    /// 80: how far a migration is, in units; low half. Blocks only in that mdadm multiplies it on 4Kn disks.
    pub curr_migr_unit_lo: U32,
    /// 84
    pub checkpoint_id: U32,
    /// 88: 0 = none; 1 = a migration is under way, and a second map follows the first.
    pub migr_state: u8,
    /// 89: [`Migration`](super::Migration).
    pub migr_type: u8,
    /// 90: bit 0 dirty, bit 1 a PPL has been written.
    pub dirty: u8,
    /// 91
    pub fs_state: u8,
    /// 92
    pub verify_errors: U16,
    /// 94
    pub bad_blocks: U16,
    /// 96: high half of `curr_migr_unit_lo`.
    pub curr_migr_unit_hi: U32,
    /// 100
    pub filler3: [u8; 12],
}

/// How a volume lies on its members, 48 bytes; then `num_members` slots of 4 bytes: bits 0 to 23 an index into the disk
/// table, bit 24 "out of sync".
///
/// While a volume migrates the first map is where it goes and the second where it stands.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned, Debug)]
#[repr(C)]
pub struct Map {
    /// 0: where the volume starts on every member, in blocks; low half.
    pub pba_of_lba0_lo: U32,
    /// 4: blocks on every member; low half. It holds slack and PPL, and is no volume size.
    pub blocks_per_member_lo: U32,
    /// 8: stripes, divided by `num_domains`; low half. Never scaled.
    pub num_data_stripes_lo: U32,
    /// 12: the chunk, in blocks.
    pub blocks_per_strip: U16,
    /// 14: [`MapState`](super::MapState).
    pub map_state: u8,
    /// 15: 0, 1, 5, 10; 1 with other than two members means 10. 255 = unknown.
    pub raid_level: u8,
    /// 16: slots.
    pub num_members: u8,
    /// 17: 2 for RAID 1 and 10, 1 for the others.
    pub num_domains: u8,
    /// 18: the slot that failed first; 0xFF = none.
    pub failed_disk_num: u8,
    /// 19: 1.
    pub ddf: u8,
    /// 20: high half. The three high halves count only where the attribute "disk over 2 TiB" is set.
    pub pba_of_lba0_hi: U32,
    /// 24: high half.
    pub blocks_per_member_hi: U32,
    /// 28: high half.
    pub num_data_stripes_hi: U32,
    /// 32
    pub filler: [u8; 16],
}

/// Head of the bad-block log, 8 bytes; [`BadBlock`] entries follow.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned, Debug)]
#[repr(C)]
pub struct BadBlockLog {
    /// 0: [`BadBlockLog::SIGNATURE`].
    pub signature: U32,
    /// 4: at most [`BadBlockLog::ENTRIES_MAX`].
    pub entry_count: U32,
}

impl BadBlockLog {
    /// Its first word.
    pub const SIGNATURE: u32 = 0xABAD_B10C;
    /// The most entries it can have.
    pub const ENTRIES_MAX: u32 = 254;
}

/// An entry of the bad-block log, 8 bytes: a run of blocks of one disk that cannot be read.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned, Debug)]
#[repr(C)]
pub struct BadBlock {
    /// 0: blocks in the run, less one.
    pub marked_count: u8,
    /// 1: index into the disk table.
    pub disk: u8,
    /// 2: first block on the disk: bits 0 to 15.
    pub start_lo: U16,
    /// 4: bits 16 to 47.
    pub start_hi: U32,
}

/// The migration record, 128 bytes in the last block of the members in the first two slots. It means something only while
/// a volume is in a general migration (a reshape); mdmon clears it otherwise. It has no checksum.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned, Debug)]
#[repr(C)]
pub struct MigrationRecord {
    /// 0x00: 0 = normal, 1 = the unit's source is in the checkpoint area.
    pub rec_status: U32,
    /// 0x04: the unit that is next, low half. Units are never scaled.
    pub curr_migr_unit_lo: U32,
    /// 0x08: which metadata it belongs to.
    pub family_num: U32,
    /// 0x0C: 1 = towards higher addresses.
    pub ascending_migr: U32,
    /// 0x10: blocks.
    pub blocks_per_unit: U32,
    /// 0x14: blocks of every member that a unit takes at its destination.
    pub dest_depth_per_unit: U32,
    /// 0x18: where the checkpoint area is on every member, in blocks; low half.
    pub ckpt_area_pba_lo: U32,
    /// 0x1C: first block of the destination on every member, low half.
    pub dest_1st_member_lba_lo: U32,
    /// 0x20: units in all, low half.
    pub num_migr_units_lo: U32,
    /// 0x24: size of the volume afterwards in blocks, low half.
    pub post_migr_vol_cap_lo: U32,
    /// 0x28: high half.
    pub post_migr_vol_cap_hi: U32,
    /// 0x2C: which disk the checkpoint is to be read from.
    pub ckpt_read_disk_num: U32,
    /// 0x30: high half.
    pub curr_migr_unit_hi: U32,
    /// 0x34: high half.
    pub ckpt_area_pba_hi: U32,
    /// 0x38: high half.
    pub dest_1st_member_lba_hi: U32,
    /// 0x3C: high half.
    pub num_migr_units_hi: U32,
    /// 0x40
    pub filler: [u8; 64],
}

/// Two halves of a number.
#[must_use]
pub(super) fn join(lo: U32, hi: U32) -> u64 {
    u64::from(hi.get()) << 32 | u64::from(lo.get())
}

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<Super>() == 0xD8 && offset_of!(Super, creation_time) == 0x50);
    assert!(offset_of!(Super, orig_family_num) == 0x40);
    assert!(size_of::<Disk>() == 48 && offset_of!(Disk, total_blocks_hi) == 32);
    assert!(size_of::<Volume>() == 112 && offset_of!(Volume, curr_migr_unit_lo) == 80);
    assert!(offset_of!(Volume, rwh_policy) == 50 && offset_of!(Volume, curr_migr_unit_hi) == 96);
    assert!(size_of::<Map>() == 48 && offset_of!(Map, pba_of_lba0_hi) == 20);
    assert!(size_of::<BadBlockLog>() == 8 && size_of::<BadBlock>() == 8);
    assert!(size_of::<MigrationRecord>() == 128);
    assert!(offset_of!(MigrationRecord, num_migr_units_hi) == 0x3C);
};

//! How long a container waits in an initramfs for its missing disks, where nobody has said so: as long as mdadm would there.
//!
//! initramfs-tools waits for root for `ROOTDELAY` seconds, 30 at least, by a clock that begins (`starttime`, seconds since
//! boot) before it sleeps for as long: its scripts have both in their environment. mdadm's script there gives up on missing
//! disks after two thirds of that. Whatever is started must be there before initramfs-tools looks for root the last time.
//!
//! dracut's initqueue makes `RDRETRY` passes, two a second (twice `rd.retry=`), and has mdadm start what lacks disks after two
//! thirds of them: systemd's timer for mdadm is not set off there. Who waits less than that records a slow disk as failed.
//! While somebody is asked for a passphrase dracut counts no pass, and quell goes on by the clock: disks come meanwhile.
//!
//! Sources: initramfs-tools' `init`, `scripts/local` and mdadm's `scripts/local-block/mdadm`; dracut's `dracut-initqueue.sh` and
//! its module mdraid.

/// Where nothing is known of the initramfs: as long as systemd's timer for mdadm, `mdadm-last-resort@.timer`.
const UNKNOWN_MS: u64 = 30_000;
/// The least that initramfs-tools waits for root, in seconds.
const LEAST_S: u64 = 30;
/// Before its last look, in milliseconds: it looks once a second, and the array has to come up.
const BEFORE_LAST_MS: u64 = 3_000;
/// More is nonsense.
const MOST_S: u64 = 86_400;

/// What the initramfs says of its own patience.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Initramfs<'a> {
    /// `ROOTDELAY`, also where it is empty: this is initramfs-tools.
    pub(super) rootdelay: Option<&'a str>,
    /// `starttime`
    pub(super) start: Option<&'a str>,
    /// `RDRETRY`: this is dracut.
    pub(super) retry: Option<&'a str>,
}

impl Initramfs<'_> {
    /// Until when a container waits whose first disk was seen then, in milliseconds since boot.
    pub(super) fn until_ms(self, seen_ms: u64) -> u64 {
        let Some(delay) = self.rootdelay else {
            let retry = self.retry.and_then(number);
            let passes = retry.map(|passes| passes.min(2 * MOST_S));
            return seen_ms + passes.map_or(UNKNOWN_MS, |passes| passes * 1000 / 3);
        };
        let wait_s = number(delay).unwrap_or(0).clamp(LEAST_S, MOST_S);
        let until = seen_ms + wait_s * 2000 / 3;
        match self.start.and_then(number) {
            Some(start) => {
                let last = start.saturating_add(wait_s).saturating_mul(1000);
                until.min(last.saturating_sub(BEFORE_LAST_MS))
            }
            None => until,
        }
    }
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::Initramfs;

    fn until(rootdelay: &str, start: &str, seen_ms: u64) -> u64 {
        let initramfs = Initramfs {
            rootdelay: Some(rootdelay),
            start: Some(start),
            retry: None,
        };
        initramfs.until_ms(seen_ms)
    }

    #[test]
    fn two_thirds_of_the_wait_for_root() {
        assert_eq!(until("", "4", 4_200), 24_200);
        assert_eq!(until("5", "4", 9_000), 29_000);
        assert_eq!(Initramfs::default().until_ms(4_000), 34_000);
    }

    #[test]
    fn a_degraded_root_comes_up_before_the_initramfs_gives_up() {
        // The first disk comes 12 seconds after the wait began.
        assert_eq!(until("", "4", 16_000), 31_000);
        // initramfs-tools has slept that long before quell is called the first time: the disks have had their time.
        assert_eq!(until("15", "4", 19_000), 31_000);
        assert_eq!(until("30", "4", 34_000), 31_000);
        assert_eq!(until("60", "4", 64_000), 61_000);
        assert_eq!(until("180", "4", 10_000), 130_000);
    }

    #[test]
    fn nonsense_is_no_number() {
        assert_eq!(until("99999999999999999999", "x", 1_000), 21_000);
        assert_eq!(until("999999999", "", 0), 57_600_000);
        assert_eq!(until("", "18446744073709551615", 0), 20_000);
        let initramfs = Initramfs {
            rootdelay: Some("5"),
            ..Initramfs::default()
        };
        assert_eq!(initramfs.until_ms(1_000), 21_000);
    }

    #[test]
    fn in_dracut_no_disk_is_given_up_before_mdadm_would() {
        let until = |retry| {
            let initramfs = Initramfs {
                retry: Some(retry),
                ..Initramfs::default()
            };
            initramfs.until_ms(4_000)
        };
        assert_eq!(until("360"), 124_000);
        assert_eq!(until("90"), 34_000);
        assert_eq!(until("99999999999"), 57_604_000);
        assert_eq!(until("x"), 34_000);
    }
}

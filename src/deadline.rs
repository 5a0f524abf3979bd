//! One deadline, handed down: every wait takes its rest from it, and nothing sums local timeouts.

use core::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Milliseconds since boot, suspend included (CLOCK_BOOTTIME, clock_gettime(2)).
///
/// The same clock in every process of one boot, so a time in `/run/quell` means the same to whoever reads it.
pub fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1000
        + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
}

/// The moment at which quell stops waiting, whatever is still under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    end_ms: u64,
}

impl Deadline {
    /// `seconds` from now.
    pub fn in_seconds(seconds: u32) -> Self {
        Self::at_ms(now_ms() + u64::from(seconds) * 1000)
    }

    /// At `end_ms` milliseconds since boot.
    pub const fn at_ms(end_ms: u64) -> Self {
        Self { end_ms }
    }

    /// When it is, in milliseconds since boot.
    pub const fn end_ms(self) -> u64 {
        self.end_ms
    }

    /// What is left, in milliseconds: 0 once it has passed.
    pub fn rest_ms(self) -> u64 {
        self.end_ms.saturating_sub(now_ms())
    }

    /// True once nothing is left.
    pub fn is_over(self) -> bool {
        self.rest_ms() == 0
    }

    /// Looks every `pause` whether it is `done`, until it is or nothing is left. Looks at least once. Only workers, and a pid 1
    /// that has nothing else to do, may wait so.
    pub fn wait_for(self, pause: Duration, mut done: impl FnMut() -> bool) -> bool {
        loop {
            if done() {
                return true;
            }
            if self.is_over() {
                return false;
            }
            std::thread::sleep(pause);
        }
    }

    /// The earlier of this and `ms` milliseconds from now.
    pub fn within_ms(self, ms: u64) -> Self {
        Self::at_ms(self.end_ms.min(now_ms() + ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_never_outlives_the_deadline_it_came_from() {
        let whole = Deadline::in_seconds(10);
        assert!(whole.within_ms(60_000) == whole);
        assert!(whole.within_ms(5) < whole);
        assert!(Deadline::at_ms(0).is_over());
        assert_eq!(Deadline::at_ms(0).within_ms(1000).rest_ms(), 0);
        let mut looks = 0;
        let pause = Duration::from_millis(1);
        let look = || {
            looks += 1;
            looks == 3
        };
        assert!(whole.wait_for(pause, look));
        assert!(Deadline::at_ms(0).wait_for(pause, || true));
        assert!(!Deadline::at_ms(0).wait_for(pause, || false));
    }
}

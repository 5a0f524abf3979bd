//! A console log, line by line, and what the test module said in it.

use std::time::Duration;

/// One line of the console.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    /// Since QEMU was started, on the host's clock.
    pub(crate) wall: Duration,
    /// The kernel's own time, where the kernel printed the line.
    pub(crate) time: Option<f64>,
    /// The line without the kernel's time.
    pub(crate) text: String,
}

impl Line {
    /// Takes the kernel's time off a raw line.
    pub(crate) fn parse(wall: Duration, raw: &str) -> Self {
        let raw = raw.trim_end_matches(['\r', '\n']);
        let stamped = raw
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("] "))
            .and_then(|(time, text)| Some((time.trim().parse::<f64>().ok()?, text)));
        match stamped {
            Some((time, text)) => Self {
                wall,
                time: Some(time),
                text: text.to_owned(),
            },
            None => Self {
                wall,
                time: None,
                text: raw.to_owned(),
            },
        }
    }
}

/// What the test module logs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    /// The kernel's time.
    pub(crate) time: f64,
    /// The controller's PCI address.
    pub(crate) address: String,
    /// Whether it is the driver's `shutdown` (the kernel's own reboot) or its `remove`.
    pub(crate) shutdown: bool,
    /// Whether the callback ended or began.
    pub(crate) end: bool,
    /// How many were in flight: this one included at its begin, not any more at its end.
    pub(crate) inflight: u32,
}

impl Event {
    /// `slow_nvme: 0000:02:00.0 remove begin inflight=3 pid=77 comm=sh`
    pub(crate) fn parse(line: &Line) -> Option<Self> {
        let mut words = line.text.strip_prefix("slow_nvme: ")?.split_whitespace();
        let address = words.next()?.to_owned();
        let shutdown = match words.next()? {
            "remove" => false,
            "shutdown" => true,
            _ => return None,
        };
        let end = match words.next()? {
            "begin" => false,
            "end" => true,
            _ => return None,
        };
        let inflight = words.next()?.strip_prefix("inflight=")?.parse().ok()?;
        Some(Self {
            time: line.time?,
            address,
            shutdown,
            end,
            inflight,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modules_lines_are_read() {
        let line = Line::parse(
            Duration::ZERO,
            "[   12.500000] slow_nvme: 0000:02:00.0 remove begin inflight=3 pid=77 comm=sh\r\n",
        );
        let event = Event::parse(&line);
        assert_eq!(
            event,
            Some(Event {
                time: 12.5,
                address: "0000:02:00.0".to_owned(),
                shutdown: false,
                end: false,
                inflight: 3
            })
        );
        assert!(
            Event::parse(&Line::parse(
                Duration::ZERO,
                "slow_nvme: ready default_ms=0"
            ))
            .is_none()
        );
    }
}

//! What is known of one shutdown, a row for each controller, drawn as text.

use crate::bench::timing::Shutdown;

/// Columns of the time axis: the whole line fits into 80.
const COLUMNS: u32 = 42;

/// A drive and what it takes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Drive {
    pub(super) address: String,
    pub(super) ms: u32,
}

/// Where a controller stands, in seconds since the call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum State {
    Waiting,
    Since(f64),
    Done(f64, f64),
}

/// One shutdown.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Board {
    pub(super) title: &'static str,
    pub(super) rows: Vec<(Drive, State)>,
    /// When the machine was reset.
    pub(super) reset: Option<f64>,
}

impl Board {
    pub(super) fn new(title: &'static str, drives: &[Drive]) -> Self {
        let waiting = |drive: &Drive| (drive.clone(), State::Waiting);
        Self {
            title,
            rows: drives.iter().map(waiting).collect(),
            reset: None,
        }
    }

    /// The same with what a finished run came to.
    pub(super) fn filled(mut self, shutdown: &Shutdown) -> Self {
        for span in &shutdown.spans {
            self.set(&span.address, State::Done(span.begin, span.end));
        }
        // To the tenth that is shown, so that what is saved is the difference of the two that stand beside it.
        self.reset = Some((shutdown.reset * 10.0).round() / 10.0);
        self
    }

    pub(super) fn set(&mut self, address: &str, state: State) {
        let row = self
            .rows
            .iter_mut()
            .find(|(drive, _)| drive.address == address);
        if let Some((_, now)) = row {
            *now = state;
        }
    }

    pub(super) fn begun(&self, address: &str) -> Option<f64> {
        self.rows
            .iter()
            .find_map(|(drive, state)| match (drive.address == address, state) {
                (true, State::Since(begin)) => Some(*begin),
                _ => None,
            })
    }

    /// The reset, or the last that is known.
    pub(super) fn end(&self) -> f64 {
        let ends = self.rows.iter().map(|(_, state)| match state {
            State::Waiting => 0.0,
            State::Since(at) | State::Done(_, at) => *at,
        });
        self.reset.unwrap_or_else(|| ends.fold(0.0, f64::max))
    }

    /// A line for each controller, at `now` seconds, on an axis of `axis` seconds.
    pub(super) fn lines(&self, now: f64, axis: f64, colour: bool) -> Vec<String> {
        self.rows
            .iter()
            .map(|(drive, state)| {
                let (bar, paint, word) = match *state {
                    State::Waiting => (bar(0.0, 0.0, axis), "2", "waiting".to_owned()),
                    State::Since(begin) => (
                        bar(begin, now, axis),
                        "33",
                        format!("shutting down {:.1} s", now - begin),
                    ),
                    State::Done(begin, end) => {
                        (bar(begin, end, axis), "32", format!("{:.1} s", end - begin))
                    }
                };
                let (on, off) = if colour {
                    (format!("\x1b[{paint}m"), "\x1b[0m")
                } else {
                    (String::new(), "")
                };
                format!("{} {on}{bar} {word}{off}", drive.address)
            })
            .collect()
    }

    /// The finished run with its title and axis.
    pub(super) fn chart(&self, axis: f64, colour: bool) -> Vec<String> {
        let mut lines = vec![format!("{}: {:.1} s to the reset", self.title, self.end())];
        lines.extend(self.lines(self.end(), axis, colour));
        lines.push(scale(axis));
        lines
    }
}

/// `····██████····`
fn bar(begin: f64, end: f64, axis: f64) -> String {
    let column = |at: f64| at / axis * f64::from(COLUMNS);
    (0..COLUMNS)
        .map(|n| {
            let middle = f64::from(n) + 0.5;
            // Even a short one is seen.
            let inside = column(begin) <= middle && middle < column(end);
            let first = end > begin && (column(begin) as u32) == n;
            if inside || first { '█' } else { '·' }
        })
        .collect()
}

/// The numbers below the bars.
fn scale(axis: f64) -> String {
    let step = step(axis, 6.0);
    let mut line = " ".repeat(13);
    for n in 0.. {
        let at = f64::from(n) * step;
        if at > axis {
            break;
        }
        let column = 13 + (at / axis * f64::from(COLUMNS)) as usize;
        let label = if n == 0 {
            "0 s".to_owned()
        } else {
            format!("{at}")
        };
        while line.chars().count() < column {
            line.push(' ');
        }
        line += &label;
    }
    line
}

/// A round number of seconds that divides `axis` into at most `most` parts.
pub(super) fn step(axis: f64, most: f64) -> f64 {
    [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]
        .into_iter()
        .find(|step| axis / step <= most)
        .unwrap_or(100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> Board {
        let drive = |bus, ms| Drive {
            address: format!("0000:0{bus}:00.0"),
            ms,
        };
        Board::new("a run", &[drive(1, 1000), drive(2, 3000), drive(3, 10)])
    }

    #[test]
    fn bars_lie_on_the_axis() {
        let mut board = board();
        board.set("0000:01:00.0", State::Done(0.0, 21.0));
        board.set("0000:02:00.0", State::Since(21.0));
        let lines = board.lines(31.0, 42.0, false);
        let dots = |n: usize| "·".repeat(n);
        let full = |n: usize| "█".repeat(n);
        assert_eq!(
            lines,
            [
                format!("0000:01:00.0 {}{} 21.0 s", full(21), dots(21)),
                format!(
                    "0000:02:00.0 {}{}{} shutting down 10.0 s",
                    dots(21),
                    full(10),
                    dots(11)
                ),
                format!("0000:03:00.0 {} waiting", dots(42)),
            ]
        );
        assert_eq!(board.begun("0000:02:00.0"), Some(21.0));
        assert_eq!(board.begun("0000:03:00.0"), None);
        board.set("0000:03:00.0", State::Done(41.9, 41.91));
        assert!(board.lines(42.0, 42.0, false)[2].contains("█ 0.0 s"));
        assert!(
            board
                .lines(42.0, 42.0, false)
                .iter()
                .all(|line| line.chars().count() < 80)
        );
    }

    #[test]
    fn the_scale_has_round_numbers() {
        assert_eq!(step(42.0, 6.0), 10.0);
        assert_eq!(step(7.0, 10.0), 1.0);
        assert!(scale(42.0).starts_with("             0 s"));
        assert_eq!(board().end(), 0.0);
    }
}

//! A run shown while it goes on: redrawn in place on a terminal, a line for each event elsewhere.

use super::board::{Board, State};
use crate::bench::timing::START;
use crate::vm::{Event, Line};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often the terminal is redrawn.
const TICK: Duration = Duration::from_millis(100);

struct Show {
    board: Board,
    axis: f64,
    /// When QEMU was started, once it has said something.
    power_on: Option<Instant>,
    /// When the shutdown was called.
    called: Option<Instant>,
    /// Lines on the terminal that the next drawing replaces.
    drawn: usize,
    over: bool,
}

/// A run on screen.
pub(super) struct Live {
    show: Arc<Mutex<Show>>,
    ticker: Option<JoinHandle<()>>,
}

impl Live {
    /// Shows `board`, in place where there is a terminal.
    pub(super) fn start(board: Board, axis: f64, terminal: bool) -> Self {
        println!("\n{}:", board.title);
        let show = Arc::new(Mutex::new(Show {
            board,
            axis,
            power_on: None,
            called: None,
            drawn: 0,
            over: false,
        }));
        let ticking = Arc::clone(&show);
        let ticker = terminal.then(|| {
            thread::spawn(move || {
                loop {
                    let mut show = lock(&ticking);
                    show.draw();
                    if show.over {
                        return;
                    }
                    drop(show);
                    thread::sleep(TICK);
                }
            })
        });
        if ticker.is_none() {
            println!("  the VM boots");
        }
        Self { show, ticker }
    }

    /// Takes a line of the console.
    pub(super) fn line(&self, line: &Line) {
        let told = lock(&self.show).take(line);
        if let (Some(told), None) = (told, &self.ticker) {
            println!("  {told}");
        }
    }

    /// The run is over: what is on screen stays.
    pub(super) fn end(self) {
        lock(&self.show).over = true;
        if let Some(ticker) = self.ticker {
            let _ = ticker.join();
        }
    }
}

fn lock(show: &Mutex<Show>) -> std::sync::MutexGuard<'_, Show> {
    show.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Show {
    /// Keeps what the line says, and says it in words.
    fn take(&mut self, line: &Line) -> Option<String> {
        let power_on = *self.power_on.get_or_insert_with(|| {
            Instant::now()
                .checked_sub(line.wall)
                .unwrap_or_else(Instant::now)
        });
        let heard = power_on + line.wall;
        if line.text == format!("quell-mark: {START}") {
            self.called = Some(heard);
            return Some("the shutdown begins".to_owned());
        }
        let now = (heard - self.called?).as_secs_f64();
        if line.text.starts_with("reboot: Restarting system") {
            self.board.reset = Some(now);
            return Some(format!("{now:5.1} s  the machine is reset"));
        }
        let event = Event::parse(line)?;
        let address = &event.address;
        if event.end {
            let begin = self.board.begun(address)?;
            self.board.set(address, State::Done(begin, now));
            let took = now - begin;
            Some(format!("{now:5.1} s  {address} is down, after {took:.1} s"))
        } else {
            self.board.set(address, State::Since(now));
            let n = event.inflight;
            Some(format!(
                "{now:5.1} s  {address} begins to shut down ({n} at once)"
            ))
        }
    }

    fn draw(&mut self) {
        let since = |at: Option<Instant>| at.map(|at| at.elapsed().as_secs_f64());
        let now = self.board.reset.or(since(self.called));
        let mut lines = self.board.lines(now.unwrap_or(0.0), self.axis, true);
        lines.push(match (now, self.board.reset) {
            (_, Some(reset)) => format!("{reset:.1} s: the machine is reset"),
            (Some(now), None) => format!("{now:.1} s since the reboot was called"),
            (None, None) => format!(
                "the VM boots ({:.0} s)",
                since(self.power_on).unwrap_or(0.0)
            ),
        });
        let mut out = std::io::stdout().lock();
        let mut text = String::new();
        if self.drawn > 0 {
            text += &format!("\x1b[{}A", self.drawn);
        }
        for line in &lines {
            // Whatever was longer before is wiped away.
            text += &format!("\r{line}\x1b[K\n");
        }
        self.drawn = lines.len();
        let _ = out.write_all(text.as_bytes());
        let _ = out.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::super::board::Drive;
    use super::*;

    #[test]
    fn what_the_console_says_is_kept() {
        let drive = Drive {
            address: "0000:01:00.0".to_owned(),
            ms: 1500,
        };
        let mut show = Show {
            board: Board::new("a run", &[drive]),
            axis: 10.0,
            power_on: None,
            called: None,
            drawn: 0,
            over: false,
        };
        let mut take = |wall, text: &str| {
            let line = Line::parse(
                Duration::from_millis(wall),
                &format!("[    1.000000] {text}"),
            );
            show.take(&line)
        };
        let begin = "slow_nvme: 0000:01:00.0 remove begin inflight=1 pid=7 comm=quell";
        assert_eq!(take(900, begin), None);
        assert!(take(1000, "quell-mark: start").is_some());
        assert!(take(1200, begin).unwrap().contains("(1 at once)"));
        let end = "slow_nvme: 0000:01:00.0 remove end inflight=0 ms=1500 pid=7";
        assert!(take(2700, end).unwrap().contains("after 1.5 s"));
        assert!(
            take(3000, "reboot: Restarting system")
                .unwrap()
                .starts_with("  2.0 s")
        );
        assert!((show.board.end() - 2.0).abs() < 0.01);
    }
}

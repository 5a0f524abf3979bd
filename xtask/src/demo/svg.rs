//! The two runs as a picture: a Gantt chart on one time axis.

use super::board::{Board, State, step};
use std::fmt::Write as _;

const WIDTH: f64 = 920.0;
const LEFT: f64 = 128.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 96.0;
const ROW: f64 = 18.0;
const BAR: f64 = 12.0;
/// A panel's heading, and what is between two panels.
const HEADING: f64 = 26.0;
const GAP: f64 = 22.0;
/// The axis and the legend below.
const BOTTOM: f64 = 78.0;

const KERNEL: &str = "#b85c2e";
const QUELL: &str = "#2b6cb0";

/// Draws both runs, one above the other.
pub(super) fn draw(kernel: &Board, quell: &Board) -> String {
    let axis = kernel.end().max(quell.end()) * 1.04;
    let scale = (WIDTH - LEFT - RIGHT) / axis;
    let panel = |board: &Board| HEADING + board.rows.len() as f64 * ROW;
    let second = TOP + panel(kernel) + GAP;
    let foot = second + panel(quell) + 6.0;
    let height = foot + BOTTOM;
    let mut out = Svg(String::new());
    out.head(height, kernel, quell);
    out.grid(axis, scale, foot);
    out.panel(kernel, TOP, scale, KERNEL);
    out.panel(quell, second, scale, QUELL);
    out.legend(foot + 58.0);
    out.0 += "</svg>\n";
    out.0
}

struct Svg(String);

impl Svg {
    fn head(&mut self, height: f64, kernel: &Board, quell: &Board) {
        let saved = kernel.end() - quell.end();
        let n = kernel.rows.len();
        let times = || kernel.rows.iter().map(|(drive, _)| drive.ms);
        let least = f64::from(times().min().unwrap_or(0)) / 1e3;
        let most = f64::from(times().max().unwrap_or(0)) / 1e3;
        let title = format!("{saved:.1} seconds saved: {n} NVMe drives shut down at once");
        let _ = writeln!(
            self.0,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-label=\"{title}\">
<style>text {{ font-family: system-ui, 'DejaVu Sans', sans-serif; font-size: 12px; fill: #333 }} .mono {{ font-family: ui-monospace, 'DejaVu Sans Mono', monospace; font-size: 11px }}</style>
<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#f7f7f5\" stroke=\"#d0d0cc\"/>
<text x=\"24\" y=\"38\" style=\"font-size: 21px; font-weight: 600; fill: #111\">{title}</text>
<text x=\"24\" y=\"60\" style=\"font-size: 13px; fill: #555\">One VM, the same drives twice, each taking {least:.1} to {most:.1} s to shut down: {:.1} s from the reboot call to the reset, or {:.1} s.</text>",
            kernel.end(),
            quell.end()
        );
    }

    /// Lines through both panels, and the axis' numbers below them.
    fn grid(&mut self, axis: f64, scale: f64, foot: f64) {
        let step = step(axis, 10.0);
        for n in 0.. {
            let at = f64::from(n) * step;
            if at > axis {
                break;
            }
            let x = LEFT + at * scale;
            let _ = writeln!(
                self.0,
                "<line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{foot:.1}\" stroke=\"#dcdcd8\"/>\n<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{at}</text>",
                TOP + HEADING - 4.0,
                foot + 16.0
            );
        }
        let _ = writeln!(
            self.0,
            "<line x1=\"{LEFT}\" y1=\"{foot:.1}\" x2=\"{:.1}\" y2=\"{foot:.1}\" stroke=\"#888\"/>\n<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" style=\"fill: #555\">seconds since the reboot was called</text>",
            WIDTH - RIGHT,
            (LEFT + WIDTH - RIGHT) / 2.0,
            foot + 34.0
        );
    }

    fn panel(&mut self, board: &Board, top: f64, scale: f64, colour: &str) {
        let end = board.end();
        let _ = writeln!(
            self.0,
            "<text x=\"24\" y=\"{:.1}\" style=\"font-size: 14px; font-weight: 600; fill: {colour}\">{}: {end:.1} s</text>",
            top + 14.0,
            sentence(board.title)
        );
        let rows = top + HEADING;
        let bottom = rows + board.rows.len() as f64 * ROW;
        let x = LEFT + end * scale;
        // Behind the bars and their labels: only what it crosses in the free is seen.
        let _ = writeln!(
            self.0,
            "<line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"#111\" stroke-width=\"1.5\" stroke-dasharray=\"4 3\"/>",
            rows - 4.0
        );
        for (n, (drive, state)) in board.rows.iter().enumerate() {
            let y = rows + n as f64 * ROW;
            let text = y + ROW / 2.0 + 4.0;
            let _ = writeln!(
                self.0,
                "<text class=\"mono\" x=\"{:.1}\" y=\"{text:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 10.0,
                drive.address
            );
            if let State::Done(begin, over) = state {
                let (x, width) = (LEFT + begin * scale, (over - begin) * scale);
                let _ = writeln!(
                    self.0,
                    "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"2\" fill=\"{colour}\"/>",
                    y + (ROW - BAR) / 2.0,
                    width.max(1.0)
                );
                self.duration(*begin, *over, scale, text);
            }
        }
    }

    /// What one took: in its bar, or to the right where it is too short for that.
    fn duration(&mut self, begin: f64, over: f64, scale: f64, y: f64) {
        const LABEL: f64 = 30.0;
        let (x, width) = (LEFT + begin * scale, (over - begin) * scale);
        let (x, anchor, fill) = if width >= LABEL {
            (x + width - 4.0, "end", "#fff")
        } else {
            (x + width + 5.0, "start", "#555")
        };
        let _ = writeln!(
            self.0,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" style=\"font-size: 10px; fill: {fill}\">{:.1} s</text>",
            y - 0.5,
            over - begin
        );
    }

    fn legend(&mut self, y: f64) {
        let mut x = 24.0;
        for (colour, text, width) in [
            (KERNEL, "the kernel shuts one drive down", 270.0),
            (QUELL, "quell has one drive shut down", 256.0),
        ] {
            let _ = writeln!(
                self.0,
                "<rect x=\"{x}\" y=\"{:.1}\" width=\"22\" height=\"{BAR}\" rx=\"2\" fill=\"{colour}\"/>\n<text x=\"{:.1}\" y=\"{y:.1}\">{text}</text>",
                y - BAR + 2.0,
                x + 28.0
            );
            x += width;
        }
        let _ = writeln!(
            self.0,
            "<line x1=\"{x}\" y1=\"{0:.1}\" x2=\"{1:.1}\" y2=\"{0:.1}\" stroke=\"#111\" stroke-width=\"1.5\" stroke-dasharray=\"4 3\"/>\n<text x=\"{2:.1}\" y=\"{y:.1}\">the machine is reset</text>",
            y - BAR / 2.0 + 2.0,
            x + 22.0,
            x + 28.0
        );
    }
}

fn sentence(title: &str) -> String {
    let mut chars = title.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(chars).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::super::board::Drive;
    use super::*;

    fn board(title: &'static str, spans: &[(f64, f64)], reset: f64) -> Board {
        let drive = |bus: usize| Drive {
            address: format!("0000:{bus:02x}:00.0"),
            ms: 1500,
        };
        let drives: Vec<Drive> = (1..=spans.len()).map(drive).collect();
        let mut board = Board::new(title, &drives);
        for (drive, (begin, end)) in drives.iter().zip(spans) {
            board.set(&drive.address, State::Done(*begin, *end));
        }
        board.reset = Some(reset);
        board
    }

    /// The number of an attribute in each line that has it.
    fn numbers(svg: &str, element: &str, name: &str) -> Vec<f64> {
        svg.lines()
            .filter(|line| line.starts_with(element))
            .filter_map(|line| {
                let (_, rest) = line.split_once(&format!(" {name}=\""))?;
                rest.split_once('"')?.0.parse().ok()
            })
            .collect()
    }

    #[test]
    fn everything_lies_inside_and_both_runs_share_the_axis() {
        let kernel = board("left to the kernel", &[(0.1, 10.0), (10.0, 20.0)], 20.2);
        let quell = board("with quell", &[(0.2, 10.2), (0.2, 10.2)], 10.4);
        let svg = draw(&kernel, &quell);
        assert!(svg.contains("9.8 seconds saved"));
        let height = numbers(&svg, "<svg", "height").first().copied().unwrap();
        for (element, name, most) in [
            ("<rect", "x", WIDTH),
            ("<line", "x2", WIDTH),
            ("<text", "x", WIDTH),
            ("<rect", "y", height),
            ("<text", "y", height - 10.0),
        ] {
            let all = numbers(&svg, element, name);
            assert!(!all.is_empty(), "{element} {name}");
            assert!(
                all.iter().all(|at| (0.0..most).contains(at)),
                "{element} {name}: {all:?}"
            );
        }
        // Ten seconds are as wide in one run as in the other.
        let widths = numbers(&svg, "<rect x", "width");
        assert!((widths[1] - widths[2]).abs() < 0.2, "{widths:?}");
    }

    #[test]
    fn a_label_lies_in_its_bar_or_beside_it() {
        let run = |title| board(title, &[(0.2, 10.2), (10.2, 10.5)], 20.2);
        let svg = draw(&run("a"), &run("b"));
        let found = |text: &str, how: &str| {
            let labels = svg.lines().filter(|line| line.contains(text));
            labels.filter(|line| line.contains(how)).count()
        };
        assert_eq!(found(">10.0 s<", "\"end\""), 2);
        assert_eq!(found(">0.3 s<", "\"start\""), 2);
    }
}

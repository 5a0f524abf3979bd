//! `cargo xtask bench [NAME...] [--rounds N] [--kernel 6.1|6.12]`: the figures of BENCHMARKS.md.
//!
//! Each figure stands beside its peer, measured in the same run in alternating rounds. What comes from a VM is told by the
//! kernel's own clock. All figures together write BENCHMARKS.md; some of them alone are only shown. A figure that does not
//! reach what it must makes the run fail.

mod fixture;
mod imsm;
pub(crate) mod machines;
mod native;
mod processes;
mod row;
mod shutdowns;
mod table;
pub(crate) mod timing;
mod whole;

use anyhow::{Context, Result, bail};
use row::Row;
use std::time::Instant;

/// What the person asked for.
#[derive(Clone, Debug)]
struct Options {
    names: Vec<String>,
    rounds: Option<usize>,
    kernel: String,
}

impl Options {
    /// How often a figure is taken, where `usual` is its own number.
    fn rounds(&self, usual: usize) -> usize {
        self.rounds.unwrap_or(usual).max(1)
    }
}

type Measure = fn(&Options) -> Result<Vec<Row>>;

/// Every figure, in the table's order. The quick ones come last: they need the machine to be as quiet as it gets.
const FIGURES: &[(&str, Measure)] = &[
    ("slow", shutdowns::slow),
    ("fast", shutdowns::fast),
    ("width", shutdowns::width),
    ("processes", processes::processes),
    ("assemble", imsm::assemble),
    ("teardown", imsm::teardown),
    ("remove", imsm::remove),
    ("container", imsm::container),
    ("machines-initramfs-tools", whole::initramfs_tools),
    ("machines-dracut", whole::dracut),
    ("nothing", native::nothing),
    ("many", native::many),
    ("schedule", native::schedule),
    ("size", native::size),
];

fn parse(args: &[String]) -> Result<Options> {
    let known: Vec<&str> = FIGURES.iter().map(|(name, _)| *name).collect();
    let usage = format!(
        "usage: cargo xtask bench [NAME...] [--rounds N] [--kernel 6.1|6.12]\n\
         NAME is one of {}, or the first word of such a name",
        known.join(", ")
    );
    let mut options = Options {
        names: Vec::new(),
        rounds: None,
        kernel: "6.12".to_owned(),
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--rounds" => {
                let n = args.next().and_then(|n| n.parse().ok());
                options.rounds = Some(n.filter(|n| *n > 0).context(usage.clone())?);
            }
            "--kernel" => options.kernel = args.next().context(usage.clone())?.clone(),
            name if known.iter().any(|known| is_called(known, name)) => {
                options.names.push(name.to_owned())
            }
            _ => bail!("{usage}"),
        }
    }
    Ok(options)
}

/// Whether a person who says `said` means this figure: its name, or the first word of it for all that begin with it.
fn is_called(figure: &str, said: &str) -> bool {
    figure == said || figure.split('-').next() == Some(said)
}

/// Runs the command.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let options = parse(args)?;
    let start = Instant::now();
    let mut rows = Vec::new();
    for (name, measure) in FIGURES {
        if !options.names.is_empty() && !options.names.iter().any(|said| is_called(name, said)) {
            continue;
        }
        eprintln!("bench {name}:");
        let taken = measure(&options).unwrap_or_else(|error| {
            eprintln!("bench {name}: {error:#}");
            vec![Row::failed(name, &error)]
        });
        for row in &taken {
            println!("{}", table::line(row));
        }
        rows.extend(taken);
    }
    let minutes = start.elapsed().as_secs_f64() / 60.0;
    println!("\n{}", table::aligned(&rows));
    if options.names.is_empty() {
        let path = table::write(&rows, &options, minutes)?;
        println!("written to {}", path.display());
    }
    let missed = rows.iter().filter(|row| row.reached == Some(false)).count();
    if missed > 0 {
        bail!("{missed} of {} figures missed", rows.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Options> {
        parse(&args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn figures_and_rounds_are_chosen() {
        let options = parsed(&["size", "--rounds", "2", "many"]).unwrap();
        assert_eq!(options.names, ["size", "many"]);
        assert_eq!(options.rounds(9), 2);
        assert_eq!(parsed(&[]).unwrap().rounds(9), 9);
        assert!(parsed(&["machines"]).is_ok() && parsed(&["machines-dracut"]).is_ok());
        assert!(is_called("machines-dracut", "machines") && !is_called("many", "machines"));
        for bad in [
            &["none"][..],
            &["dracut"],
            &["--rounds"],
            &["--rounds", "0"],
            &["--rounds", "x"],
        ] {
            assert!(parsed(bad).is_err(), "{bad:?}");
        }
    }
}

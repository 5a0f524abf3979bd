//! Figures of whole shutdowns in VMs.

use super::Options;
use super::machines::{CONTROLLERS, How, machine, resets, rounds};
use super::row::{Row, list, millis, seconds};
use super::timing::{Shutdown, median};
use anyhow::{Result, ensure};

/// What each slow controller takes, in seconds.
pub(super) const SLOW_S: f64 = 3.0;
pub(super) const SLOW: &str = "slow default_ms=3000";

/// All at once, against the stock kernel's own serial shutdown.
pub(super) fn slow(options: &Options) -> Result<Vec<Row>> {
    let machine = machine(&options.kernel, CONTROLLERS)?;
    let variants = [How::Kernel, How::Quell(""), How::Shells];
    let taken = rounds("slow", options.rounds(3), &machine, SLOW, &variants)?;
    let [serial, quell, shells] = taken.as_slice() else {
        return Ok(Vec::new());
    };
    all_shut(serial)?;
    all_shut(quell)?;
    all_shut(shells)?;
    let (serial, ours) = (resets(serial), resets(quell));
    let faster = median(&serial) / median(&ours);
    let returned: Vec<f64> = quell.iter().filter_map(|one| one.done).collect();
    // The call itself: what the machine takes from there to its reset it takes without quell too.
    let slowest = median(&returned) / SLOW_S;
    let longest: Vec<f64> = quell.iter().map(Shutdown::slowest).collect();
    Ok(vec![
        Row::new(format!(
            "{CONTROLLERS} controllers x {SLOW_S} s: the kernel's own serial shutdown"
        ))
        .measured(seconds(&ours))
        .peer(seconds(&serial))
        .ratio(format!("{faster:.1} times faster"))
        .gate("at least 17 times", faster >= 17.0),
        Row::new(format!(
            "the same, the call: one controller's time (longest removal measured: {:.2} s)",
            median(&longest)
        ))
        .measured(seconds(&returned))
        .peer(format!("{SLOW_S:.2} s"))
        .ratio(format!("{slowest:.2}"))
        .gate("at most 1.30 (aim 1.08)", slowest <= 1.3),
        Row::new(format!(
            "the same: {CONTROLLERS} shell processes that look at nothing and write to unbind"
        ))
        .measured(seconds(&ours))
        .peer(seconds(&resets(shells)))
        .ratio(format!("{:.2}", median(&ours) / median(&resets(shells)))),
    ])
}

/// Nothing is slow: what quell costs where it can win little, and what short grace periods are worth.
pub(super) fn fast(options: &Options) -> Result<Vec<Row>> {
    let machine = machine(&options.kernel, CONTROLLERS)?;
    // The module is not loaded: these are the drives as QEMU makes them.
    let variants = [How::Kernel, How::Quell(""), How::QuellWithoutExpedited];
    let taken = rounds("fast", options.rounds(9), &machine, "", &variants)?;
    let [without, with, held] = taken.as_slice() else {
        return Ok(Vec::new());
    };
    let returned = |shutdowns: &[Shutdown]| -> Vec<f64> {
        shutdowns.iter().filter_map(|one| one.done).collect()
    };
    let ratio = median(&resets(with)) / median(&resets(without));
    let (raised, left) = (returned(with), returned(held));
    Ok(vec![
        Row::new(format!(
            "{CONTROLLERS} fast controllers: the same machine without quell"
        ))
        .measured(millis(&resets(with)))
        .peer(millis(&resets(without)))
        .ratio(format!("{ratio:.2}"))
        .gate("at most 1.05", ratio <= 1.05),
        Row::new("the same, call to quell's end: rcu_expedited held at 0")
            .measured(millis(&raised))
            .peer(millis(&left))
            .ratio(format!("{:.2}", median(&raised) / median(&left))),
    ])
}

/// Eight workers: three rounds of eight, never more than eight at once.
pub(super) fn width(options: &Options) -> Result<Vec<Row>> {
    const JOBS: u32 = 8;
    let machine = machine(&options.kernel, CONTROLLERS)?;
    let taken = rounds(
        "width",
        options.rounds(3),
        &machine,
        SLOW,
        &[How::Quell("--jobs=8")],
    )?;
    let ours = taken.concat();
    all_shut(&ours)?;
    let ideal = f64::from(CONTROLLERS.div_ceil(JOBS)) * SLOW_S;
    let ratio = median(&resets(&ours)) / ideal;
    let most = list(ours.iter().map(|one| one.inflight));
    let kept = ours.iter().all(|one| one.inflight <= JOBS + one.given_up);
    let given_up: u32 = ours.iter().map(|one| one.given_up).sum();
    Ok(vec![
        Row::new(format!(
            "{CONTROLLERS} controllers x {SLOW_S} s, jobs={JOBS}: the ideal of eight-wide rounds"
        ))
        .measured(seconds(&resets(&ours)))
        .peer(format!("{ideal:.2} s"))
        .ratio(format!("{ratio:.2}"))
        .gate("at most 1.20", ratio <= 1.2),
        Row::new(format!("the same: in flight at most ({given_up} given up)"))
            .measured(most)
            .peer(JOBS.to_string())
            .gate("8 and those given up", kept),
    ])
}

/// A figure is worth nothing where a controller was missing.
fn all_shut(shutdowns: &[Shutdown]) -> Result<()> {
    for one in shutdowns {
        ensure!(
            u32::try_from(one.spans.len()) == Ok(CONTROLLERS),
            "only {} of {CONTROLLERS} controllers were shut down",
            one.spans.len()
        );
    }
    Ok(())
}

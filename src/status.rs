//! What the next shutdown will do, and what stands in its way.

mod outlook;

use crate::context::{Context, Exit};
use crate::json::Json;
use crate::options::Stage;
use crate::quiesce::{self, By, Row, Survey};
use crate::sys::out;
use crate::sys::pci::PciAddress;
use crate::text::{Millis, Printable, Text};

use outlook::{Actor, Outlook};

/// Shows it. Exit status 1 where more than one controller would go one by one, or Intel RAID volumes would go down dirty.
pub fn run(context: &Context) -> Exit {
    let mut shown = Shown::start(context.json);
    let outlook = Outlook::find(context);
    let by = match outlook.actor {
        Actor::Stage(Stage::Exitrd) => By::Exitrd {
            teardown: context.options.teardown,
        },
        Actor::Stage(_) => By::Hooks,
        Actor::Kernel | Actor::Host | Actor::Nobody => By::Now,
    };
    let survey = match quiesce::survey(context, by, &mut |row| shown.row(row)) {
        Ok(survey) => survey,
        // It has said why, on standard output too.
        Err(exit) => return exit,
    };
    shown.foreign(context);
    let one_by_one = match outlook.actor {
        Actor::Kernel | Actor::Host => 0,
        Actor::Stage(_) => survey.one_by_one,
        Actor::Nobody => survey.one_by_one + survey.todo,
    };
    shown.end(&survey, &outlook, one_by_one);
    match one_by_one {
        _ if survey.blind => Exit::Missing,
        0 | 1 if !outlook.dirty => Exit::Done,
        _ => Exit::Undone,
    }
}

/// Standard output.
struct Shown {
    json: Option<Json>,
}

impl Shown {
    fn start(json: bool) -> Self {
        let json = json.then(|| {
            let mut json = Json::object();
            json.number("schema", 1);
            json.text("command", format_args!("status"));
            json.array("controllers");
            json
        });
        Self { json }
    }

    fn row(&mut self, row: &Row<'_>) {
        let address = row
            .pci
            .map_or_else(Text::<24>::new, |a| Text::of(format_args!("{a}")));
        let Some(json) = &mut self.json else {
            let name = Text::<16>::of(format_args!("nvme{}", row.instance));
            print(format_args!(
                "{:<8} {:<12} {} {} {}: ",
                name.as_str(),
                address.as_str(),
                row.transport,
                row.model,
                row.serial
            ));
            return match row.predicted_ms {
                Some(ms) => print(format_args!("to be done, {} at most\n", Millis(ms.into()))),
                None => print(format_args!("{}\n", row.text)),
            };
        };
        json.open_object();
        json.text("name", format_args!("nvme{}", row.instance));
        if !address.is_empty() {
            json.text("address", format_args!("{address}"));
        }
        json.text("transport", format_args!("{}", row.transport));
        json.text("state", format_args!("{}", row.state));
        json.text("model", format_args!("{}", row.model));
        json.text("serial", format_args!("{}", row.serial));
        json.text("firmware", format_args!("{}", row.firmware));
        if let Some(us) = row.rtd3e_us {
            json.number("rtd3e_us", us.into());
        }
        json.flag("to_be_done", row.predicted_ms.is_some());
        match row.predicted_ms {
            Some(ms) => json.number("predicted_ms", ms.into()),
            None => json.text("why", format_args!("{}", row.text)),
        }
        json.close();
    }

    /// Functions of the NVM class that are no NVMe driver's.
    fn foreign(&mut self, context: &Context) {
        if let Some(json) = &mut self.json {
            json.close();
            json.array("not_nvme");
        }
        quiesce::foreign(context.root, |address, driver| {
            self.foreign_row(address, driver)
        });
        if let Some(json) = &mut self.json {
            json.close();
        }
    }

    fn foreign_row(&mut self, address: PciAddress, driver: &[u8]) {
        let driver: Text<40> = Printable(driver).to_text();
        match &mut self.json {
            Some(json) => {
                json.open_object();
                json.text("address", format_args!("{address}"));
                json.text("driver", format_args!("{driver}"));
                json.close();
            }
            None if driver.is_empty() => print(format_args!(
                "-        {address} no driver is bound to it: left\n"
            )),
            None => print(format_args!(
                "-        {address} driver {driver} has it: left\n"
            )),
        }
    }

    fn end(&mut self, survey: &Survey, outlook: &Outlook, one_by_one: usize) {
        // What a stage leaves, and what nobody takes, goes one by one after it.
        let (done, with_ms) = match outlook.actor {
            Actor::Stage(_) => (survey.todo, survey.planned_ms + survey.one_by_one_ms),
            Actor::Kernel | Actor::Host | Actor::Nobody => (0, survey.serial_ms),
        };
        let who = match outlook.actor {
            Actor::Stage(Stage::Exitrd) => "the exitrd",
            Actor::Stage(_) => "systemd-shutdown's hook",
            Actor::Kernel => "the kernel",
            Actor::Host | Actor::Nobody => "nobody",
        };
        let Some(json) = &mut self.json else {
            match outlook.actor {
                Actor::Stage(_) => print(format_args!(
                    "next shutdown: {who} will do {done} of {} controllers, {} at once; all are down in {} at most, one by one in {}\n",
                    survey.controllers,
                    survey.width,
                    Millis(with_ms),
                    Millis(survey.serial_ms)
                )),
                Actor::Kernel => print(format_args!("next shutdown: left to the kernel\n")),
                Actor::Host => print(format_args!(
                    "next shutdown: nothing is quell's to do here\n"
                )),
                Actor::Nobody => print(format_args!(
                    "next shutdown: not helped; {one_by_one} controllers go one by one, in {} at most\n",
                    Millis(survey.serial_ms)
                )),
            }
            for note in &outlook.notes {
                print(format_args!("  note: {note}\n"));
            }
            return;
        };
        json.text("actor", format_args!("{who}"));
        json.flag("helped", one_by_one <= 1 && !outlook.dirty);
        for (key, number) in [
            ("to_be_done", done),
            ("width", survey.width),
            ("one_by_one", one_by_one),
        ] {
            json.number(key, u64::try_from(number).unwrap_or(u64::MAX));
        }
        json.number("predicted_ms", with_ms);
        json.number("serial_ms", survey.serial_ms);
        json.array("notes");
        for note in &outlook.notes {
            json.item(format_args!("{note}"));
        }
        json.close();
        json.close();
        json.finish();
    }
}

fn print(line: core::fmt::Arguments<'_>) {
    out::write(
        rustix::stdio::stdout(),
        Text::<1024>::of(line).as_str().as_bytes(),
    );
}

//! One figure: what was measured, against what, and whether that reaches what it must.

use super::timing::{median, range};

/// A line of the table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) figure: String,
    pub(crate) measured: String,
    pub(crate) peer: String,
    pub(crate) ratio: String,
    pub(crate) gate: String,
    /// None where there is no gate.
    pub(crate) reached: Option<bool>,
}

impl Row {
    pub(crate) fn new(figure: impl Into<String>) -> Self {
        let none = String::new;
        Self {
            figure: figure.into(),
            measured: none(),
            peer: none(),
            ratio: none(),
            gate: "none".to_owned(),
            reached: None,
        }
    }

    pub(crate) fn measured(mut self, text: impl Into<String>) -> Self {
        self.measured = text.into();
        self
    }

    pub(crate) fn peer(mut self, text: impl Into<String>) -> Self {
        self.peer = text.into();
        self
    }

    pub(crate) fn ratio(mut self, text: impl Into<String>) -> Self {
        self.ratio = text.into();
        self
    }

    pub(crate) fn gate(mut self, text: impl Into<String>, reached: bool) -> Self {
        self.gate = text.into();
        self.reached = Some(reached);
        self
    }

    /// A figure that could not even be measured. That is never a pass.
    pub(crate) fn failed(figure: &str, error: &anyhow::Error) -> Self {
        let first = format!("{error:#}");
        let first = first.lines().next().unwrap_or_default();
        Self::new(figure)
            .measured(format!("could not be measured: {first}"))
            .gate("to be measured", false)
    }

    pub(crate) fn verdict(&self) -> &'static str {
        match self.reached {
            Some(true) => "ok",
            Some(false) => "MISSED",
            None => "-",
        }
    }

    /// The cells, in the table's order.
    pub(crate) fn cells(&self) -> [&str; 6] {
        [
            &self.figure,
            &self.measured,
            &self.peer,
            &self.ratio,
            &self.gate,
            self.verdict(),
        ]
    }
}

/// `3.62 s (3.55 to 3.80)`: the median and what it lies between.
pub(crate) fn seconds(values: &[f64]) -> String {
    let (low, high) = range(values);
    format!("{:.2} s ({low:.2} to {high:.2})", median(values))
}

/// The same in milliseconds, of values in seconds.
pub(crate) fn millis(values: &[f64]) -> String {
    let (low, high) = range(values);
    format!(
        "{:.0} ms ({:.0} to {:.0})",
        median(values) * 1e3,
        low * 1e3,
        high * 1e3
    )
}

/// Numbers as a list.
pub(crate) fn list<T: ToString>(values: impl IntoIterator<Item = T>) -> String {
    let texts: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    texts.join(", ")
}

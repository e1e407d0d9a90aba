//! Collects figures and prints them as a table.

use std::time::Duration;

/// Times of the same kind, sorted.
#[derive(Debug)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// Returns the time that this many of a thousand measurements stay below.
    pub(crate) fn at(&self, thousandths: usize) -> Duration {
        let index = (self.0.len() * thousandths / 1_000).min(self.0.len().saturating_sub(1));
        self.0.get(index).copied().unwrap_or_default()
    }

    pub(crate) fn median(&self) -> Duration {
        self.at(500)
    }
}

/// Rows of a name, a figure, a goal and whether the goal was reached.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<[String; 4]>,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self { rows: vec![["what".into(), "measured".into(), "goal".into(), "".into()]] }
    }

    /// Adds a figure that has no goal.
    pub(crate) fn note(&mut self, name: &str, measured: impl Into<String>) {
        self.add(name, measured.into(), String::new(), "");
    }

    /// Adds a figure that must not exceed its goal.
    pub(crate) fn at_most(&mut self, name: &str, measured: f64, goal: f64, unit: &str) {
        let mark = if measured <= goal { "ok" } else { "MISSED" };
        self.add(name, format!("{measured:.2} {unit}"), format!("≤ {goal} {unit}"), mark);
    }

    /// Adds a figure that must not be below its goal.
    pub(crate) fn at_least(&mut self, name: &str, measured: f64, goal: f64, unit: &str) {
        let mark = if measured >= goal { "ok" } else { "MISSED" };
        self.add(name, format!("{measured:.0} {unit}"), format!("≥ {goal} {unit}"), mark);
    }

    fn add(&mut self, name: &str, measured: String, goal: String, mark: &str) {
        eprintln!("  {name}: {measured}");
        self.rows.push([name.into(), measured, goal, mark.into()]);
    }

    #[expect(clippy::print_stdout, reason = "the table is what the program is for")]
    pub(crate) fn print(&self) {
        let mut widths = [0; 4];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for (number, row) in self.rows.iter().enumerate() {
            let cells: Vec<_> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            println!("| {} |", cells.join(" | "));
            if number == 0 {
                let rules: Vec<_> = widths.iter().map(|width| "-".repeat(*width)).collect();
                println!("| {} |", rules.join(" | "));
            }
        }
    }
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

pub(crate) fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

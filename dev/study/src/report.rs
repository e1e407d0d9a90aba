//! The tables: a row for each task, and what it comes to.

use std::time::Duration;

use relay_proto::time::millis;
use serde_json::{Value, json};

use crate::measure::Meter;
use crate::slips::SlipRuns;
use crate::study::{Attempt, Comparison};

/// Measured figures.
#[derive(Debug)]
pub struct Report {
    /// The tasks, in the order in which they were done.
    pub comparisons: Vec<Comparison>,
    /// Assumed thinking time of the model.
    pub delays: Delays,
    /// Runs of the tasks' programs with slips in them.
    pub slips: Vec<SlipRuns>,
}

/// Assumed thinking time of a model. It is added to what was measured, and nobody waits for it.
#[derive(Debug, Clone, Copy)]
pub struct Delays {
    /// In each turn.
    pub turn: Duration,
    /// For each token that it writes, in the second of the two times.
    pub token: Duration,
}

/// The table of what a real model did: the task, the way, and what came of it.
pub fn attempts(attempts: &[(&str, &str, Attempt)]) -> String {
    let head = [
        "task",
        "way",
        "right",
        "turns",
        "calls",
        "server calls",
        "failed runs",
        "saved by the check",
        "tokens billed",
        "bare",
        "written",
        "wall s",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    for (task, way, Attempt { mistake, meter }) in attempts {
        rows.push([
            (*task).into(),
            (*way).into(),
            if mistake.is_none() { "yes" } else { "no" }.into(),
            meter.turns.to_string(),
            meter.model_calls.to_string(),
            meter.server_calls.to_string(),
            meter.failed_runs.to_string(),
            meter.refused_runs.to_string(),
            meter.billed_tokens().to_string(),
            meter.billed_without_definitions().to_string(),
            meter.output_tokens.to_string(),
            format!("{:.1}", meter.measured_time().as_secs_f64()),
        ]);
    }
    table(&rows)
}

/// One figure for each way: one by one, together, by programs.
type Figures = [u64; 3];

/// Something of which less is better.
struct Measure {
    name: &'static str,
    figures: fn(&Comparison, Delays) -> Figures,
}

const BYTES: Measure = Measure {
    name: "bytes through the context, each once, without definitions",
    figures: |done, _| each(done, |meter| meter.content_bytes),
};
const BILLED: Measure = Measure {
    name: "tokens billed (each turn reads all before), with all definitions",
    figures: |done, _| each(done, Meter::billed_tokens),
};
const BARE: Measure = Measure {
    name: "tokens billed, without any definitions",
    figures: |done, _| each(done, Meter::billed_without_definitions),
};
const WALL: Measure = Measure {
    name: "wall time, ms: tools, relay and a fixed delay for each turn",
    figures: |done, delays| each(done, |meter| millis(meter.wall_time(delays.turn))),
};
const MEASURES: [Measure; 11] = [
    Measure { name: "turns of the model", figures: |done, _| each(done, |meter| meter.turns) },
    Measure { name: "calls that the model wrote", figures: |done, _| each(done, |meter| meter.model_calls) },
    Measure { name: "calls that reached an MCP server", figures: |done, _| each(done, |meter| meter.server_calls) },
    BYTES,
    Measure {
        name: "tokens through the context, each once, with all definitions",
        figures: |done, _| each(done, Meter::context_tokens),
    },
    BILLED,
    Measure {
        name: "tokens billed, with the definitions of the task's servers only",
        figures: |done, _| {
            let [_, _, programs] = each(done, Meter::billed_tokens);
            let needed =
                |meter: &Meter| meter.billed_without_definitions() + meter.turns * done.needed_definition_tokens;
            [needed(&done.one_by_one), needed(&done.together), programs]
        },
    },
    BARE,
    Measure { name: "tokens that the model wrote", figures: |done, _| each(done, |meter| meter.output_tokens) },
    WALL,
    Measure {
        name: "wall time, ms: the same and a delay for each token written",
        figures: |done, delays| {
            let written = |meter: &Meter| delays.token * u32::try_from(meter.output_tokens).unwrap_or(u32::MAX);
            each(done, |meter| millis(meter.wall_time(delays.turn) + written(meter)))
        },
    },
];

fn each(done: &Comparison, measure: impl Fn(&Meter) -> u64) -> Figures {
    [&done.one_by_one, &done.together, &done.programs].map(measure)
}

impl Report {
    /// The tables as Markdown.
    pub fn to_text(&self) -> String {
        let mut text =
            "Each cell: tool by tool with one call in a turn / with independent calls in one turn / by programs. \
            Bare: billed without definitions.\n\n"
                .to_owned();
        text += &self.tasks();
        if let Some(done) = self.comparisons.first() {
            let [_, tools, programs] = each(done, |meter| meter.definition_tokens);
            text += &format!("\nThe definitions have {tools} tokens tool by tool, and {programs} with programs.\n\n");
        }
        text += &self.sums();
        text += &self.saved();
        text += "\nWhere tool by tool, with independent calls in one turn, is as good as programs or better:\n";
        for measure in &MEASURES {
            let wins = self.wins(measure);
            let names = if wins.is_empty() { "nowhere".to_owned() } else { wins.join(", ") };
            text += &format!("- {}: {} of {}: {names}\n", measure.name, wins.len(), self.comparisons.len());
        }
        text
    }

    /// The same as JSON. Only `tool_us` and the wall times differ between two runs.
    pub fn to_json(&self) -> Value {
        let sums = MEASURES.iter().map(|measure| {
            let [one_by_one, together, programs] = self.sum(measure);
            let [slow, fast] = [0, 1].map(|way| self.median_ratio(measure, way));
            json!({
                "measure": measure.name,
                "one_by_one": one_by_one, "together": together, "programs": programs,
                "median_ratio_one_by_one": slow, "median_ratio_together": fast,
                "together_as_good": self.wins(measure),
            })
        });
        json!({
            "tokenizer": "o200k_base",
            "turn_delay_ms": millis(self.delays.turn),
            "token_delay_ms": millis(self.delays.token),
            "tasks": self.comparisons,
            "sums": sums.collect::<Vec<_>>(),
            "slips": self.slips,
        })
    }

    fn tasks(&self) -> String {
        let head =
            ["task", "kind", "turns", "calls", "server calls", "KB", "tokens billed", "bare", "written", "wall s"];
        let mut rows = vec![head.map(str::to_owned)];
        for done in &self.comparisons {
            let figures = |figures: Figures| figures.map(|figure| figure.to_string()).join(" / ");
            let thousands = |figures: Figures| figures.map(|figure| format!("{:.1}", float(figure) / 1e3)).join(" / ");
            rows.push([
                done.task.into(),
                done.kind.into(),
                figures(each(done, |meter| meter.turns)),
                figures(each(done, |meter| meter.model_calls)),
                figures(each(done, |meter| meter.server_calls)),
                thousands((BYTES.figures)(done, self.delays)),
                figures((BILLED.figures)(done, self.delays)),
                figures((BARE.figures)(done, self.delays)),
                figures(each(done, |meter| meter.output_tokens)),
                thousands((WALL.figures)(done, self.delays)),
            ]);
        }
        table(&rows)
    }

    fn sums(&self) -> String {
        let tasks = format!("sums of {} tasks", self.comparisons.len());
        let head = [&*tasks, "one by one", "together", "programs", "times as much", "median of the tasks"];
        let mut rows = vec![head.map(str::to_owned)];
        for measure in &MEASURES {
            let sum = self.sum(measure);
            let [one_by_one, together, programs] = sum.map(|figure| figure.to_string());
            let ratio = |way: usize| float(sum[way]) / float(sum[2]).max(1.0);
            let times = format!("{:.1}, {:.1}", ratio(0), ratio(1));
            let medians = format!("{:.1}, {:.1}", self.median_ratio(measure, 0), self.median_ratio(measure, 1));
            rows.push([measure.name.into(), one_by_one, together, programs, times, medians]);
        }
        table(&rows)
    }

    /// The table of slips, and the sum of the runs that the check saves.
    fn saved(&self) -> String {
        if self.slips.is_empty() {
            return String::new();
        }
        let head = ["a slip in each program of the tasks", "runs", "failed", "refused by the check: nothing has run"];
        let mut rows = vec![head.map(str::to_owned)];
        let row = |SlipRuns { slip, runs, failed, refused }: &SlipRuns| {
            [(*slip).to_owned(), runs.to_string(), failed.to_string(), refused.to_string()]
        };
        rows.extend(self.slips.iter().map(row));
        let (failed, refused) =
            self.slips.iter().fold((0, 0), |(failed, refused), slip| (failed + slip.failed, refused + slip.refused));
        let sentence = format!("\nThe check saves {refused} of {failed} failing runs.\n");
        format!("\n{}{sentence}", table(&rows))
    }

    fn sum(&self, measure: &Measure) -> Figures {
        self.comparisons.iter().fold([0; 3], |sum, done| {
            let figures = (measure.figures)(done, self.delays);
            std::array::from_fn(|way| sum[way] + figures[way])
        })
    }

    /// The tasks in which calls together are as good as programs or better.
    fn wins(&self, measure: &Measure) -> Vec<&'static str> {
        let is_as_good = |done: &&Comparison| {
            let [_, together, programs] = (measure.figures)(done, self.delays);
            together <= programs
        };
        self.comparisons.iter().filter(is_as_good).map(|done| done.task).collect()
    }

    /// Of how many times as much a way takes as programs do, the one in the middle of all tasks.
    fn median_ratio(&self, measure: &Measure, way: usize) -> f64 {
        let ratio = |done| {
            let figures = (measure.figures)(done, self.delays);
            float(figures[way]) / float(figures[2]).max(1.0)
        };
        let mut ratios: Vec<_> = self.comparisons.iter().map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let middle = [ratios.len().saturating_sub(1) / 2, ratios.len() / 2];
        let [lower, upper] = middle.map(|index| ratios.get(index).copied().unwrap_or_default());
        f64::midpoint(lower, upper)
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures to be read by people")]
fn float(figure: u64) -> f64 {
    figure as f64
}

/// Rows as a table in Markdown; the first one is its head.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let cells: Vec<_> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text += &format!("| {} |\n", cells.join(" | "));
        if number == 0 {
            let rules: Vec<_> = widths.iter().map(|width| "-".repeat(*width)).collect();
            text += &format!("| {} |\n", rules.join(" | "));
        }
    }
    text
}

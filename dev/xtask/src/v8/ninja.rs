//! Runs ninja and shows its progress.

use std::io::{BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::source::Log;

/// Time between two lines where a line cannot be overwritten.
const EVERY: Duration = Duration::from_secs(60);

/// Weights of V8's parts, by the folder of what is made: roughly the seconds of one step, for an estimate. The other
/// parts weigh little.
const WEIGHTS: [(&str, f64); 8] = [
    ("obj/v8/v8_base_without_compiler/", 24.0),
    ("obj/v8/v8_compiler/", 24.0),
    ("obj/v8/v8_initializers/", 20.0),
    ("obj/v8/torque_generated_initializers/", 15.0),
    ("./mksnapshot", 10.0),
    ("obj/v8/torque_base/", 4.0),
    ("obj/v8/", 2.0),
    ("obj/", 0.7),
];

/// Runs ninja to its end, with a line that shows the steps done, the time so far, and an estimate.
pub(super) fn run(command: &mut Command, log: &Log) -> anyhow::Result<bool> {
    // Before it starts, ninja lists all the steps, or those that an interrupted run has left.
    let mut left: f64 = steps(command)?.iter().map(|step| weight(step)).sum();
    let all = left;
    let started = Instant::now();
    let mut said = Instant::now();
    let is_terminal = std::io::stderr().is_terminal();
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(log.file()?)
        .stdin(Stdio::null())
        .spawn()
        .context("ninja cannot be run")?;
    let output = child.stdout.take().context("ninja has no output")?;
    let mut copy = log.file()?;
    for line in BufReader::new(output).lines() {
        let line = line?;
        writeln!(copy, "{line}")?;
        let Some((count, step)) = count_and_step(&line) else { continue };
        left -= weight(step);
        if is_terminal || said.elapsed() > EVERY {
            said = Instant::now();
            let progress = progress(count, 1.0 - left / all, started.elapsed());
            if is_terminal {
                // Overwrite the last line and clear the rest of it.
                eprint!("\r    {progress}\x1b[K");
            } else {
                eprintln!("    {progress}");
            }
        }
    }
    if is_terminal {
        eprint!("\r\x1b[K");
    }
    Ok(child.wait()?.success())
}

/// Lists the steps that are left.
pub(super) fn steps(command: &Command) -> anyhow::Result<Vec<String>> {
    let mut dry = Command::new(command.get_program());
    let printed = crate::run::output(dry.args(command.get_args()).arg("-n"))?;
    Ok(printed.lines().filter_map(count_and_step).map(|(_, step)| step.to_owned()).collect())
}

/// Splits a line such as `[12/973] CXX obj/v8/x.o` into the count and the file that is made.
fn count_and_step(line: &str) -> Option<(&str, &str)> {
    let (count, step) = line.strip_prefix('[')?.split_once("] ")?;
    count.contains('/').then_some((count, step.rsplit(' ').next().unwrap_or(step)))
}

fn weight(step: &str) -> f64 {
    WEIGHTS.iter().find(|(folder, _)| step.starts_with(folder)).map_or(0.1, |(_, weight)| *weight)
}

/// Returns the line that shows the progress; `done` is a fraction of 1.
fn progress(count: &str, done: f64, elapsed: Duration) -> String {
    let minutes = |time: Duration| format!("{} min {:02} s", time.as_secs() / 60, time.as_secs() % 60);
    let line = format!("{count} steps, {:.0} % of the work, {}", done * 100.0, minutes(elapsed));
    // An estimate from the first steps would be far off.
    if done < 0.03 {
        return line;
    }
    let left = elapsed.mul_f64((1.0 - done).max(0.0) / done);
    format!("{line}, about {} min left", left.as_secs().div_ceil(60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_ninja_is_understood() {
        assert_eq!(count_and_step("[3/973] CXX obj/v8/a.o"), Some(("3/973", "obj/v8/a.o")));
        assert_eq!(count_and_step("ninja: Entering directory `out'"), None);
        assert_eq!(count_and_step("[note] warning"), None);
    }

    #[test]
    fn the_estimate_grows_with_what_is_left() {
        let after = |done| progress("1/2", done, Duration::from_secs(125));
        assert_eq!(after(0.01), "1/2 steps, 1 % of the work, 2 min 05 s");
        assert_eq!(after(0.25), "1/2 steps, 25 % of the work, 2 min 05 s, about 7 min left");
        assert_eq!(after(1.0), "1/2 steps, 100 % of the work, 2 min 05 s, about 0 min left");
    }

    #[test]
    fn big_parts_weigh_more_than_small_ones() {
        assert!(weight("obj/v8/v8_compiler/a.o") > weight("obj/v8/torque_base/a.o"));
        assert!(weight("obj/third_party/icu/a.o") > weight("gen/a.h"));
    }
}

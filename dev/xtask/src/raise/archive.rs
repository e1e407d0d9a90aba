//! Compares the library that is linked before and after: its origin, its size and its SHA-256.

use anyhow::Context as _;

use super::commands::Project;
use super::report::Report;
use crate::v8::sha256;

/// Path of the unpacked library, below the folder of a build, where the crate `v8` puts it.
const LIBRARY: &str = "gn_out/obj/librusty_v8.a";

/// Lets the project find its V8. If there is none to download, this builds it.
pub(super) fn provide(project: &Project) -> anyhow::Result<()> {
    let mut find = project.cargo();
    find.args(["run", "--quiet", "--locked", "--package", "xtask", "--", "v8"]);
    project.run_in_sight("v8", &mut find).context("there is no V8 to link: the lines above say where it was looked for")
}

/// Reports what was linked, before and after.
pub(super) fn compare(now: &Project, raised: &Project, report: &mut Report) -> anyhow::Result<()> {
    let lines = [line(now)?, line(raised)?];
    report.add("The archive (unpacked, as it is linked)", &lines)
}

fn line(project: &Project) -> anyhow::Result<String> {
    let library = project.built(LIBRARY);
    let bytes = std::fs::metadata(&library).with_context(|| format!("{} is not there", library.display()))?.len();
    let log = std::fs::read_to_string(project.log("v8")).unwrap_or_default();
    let (name, origin) = (project.name(), origin(&log).unwrap_or("it does not say"));
    Ok(format!("{name:<7} {} MB, SHA-256 {}, from: {origin}", bytes / 1_000_000, sha256(&library)?))
}

/// Finds in the output of `cargo xtask v8` the place that V8 was taken from.
fn origin(log: &str) -> Option<&str> {
    log.lines().find(|line| line.contains("taken: ") && !line.contains("not taken: ")).map(str::trim)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_origin_is_the_place_that_was_taken() {
        let log = "=== Finding V8\n    mirror    not taken: damaged\n    cache     taken: ~/.cache/a.gz\n";
        assert_eq!(super::origin(log), Some("cache     taken: ~/.cache/a.gz"));
        assert_eq!(super::origin("    upstream  not taken: gone\n"), None);
    }
}

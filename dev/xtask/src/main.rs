//! `cargo xtask`: runs everything that people and CI do with this repository.

mod browser;
mod checkout;
mod crates;
mod dist;
mod docker;
mod house;
mod metadata;
mod python;
mod raise;
mod run;
mod selection;
mod static_build;
mod system;
mod typescript;
mod v8;

use std::path::{Path, PathBuf};
use std::process::Command as Program;

use anyhow::Context as _;
use clap::{Parser, Subcommand};

use run::{cargo, cargo_with_lints, step};
use v8::check::Profile;

/// Maximum number of files in a folder of dependencies in which little more than this program was built.
const MOST_OF_XTASK: usize = 1000;

/// Builds, shows, tests and measures the project.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build everything and run the main job: audit this project's dependencies with one script in a sandbox
    Demo {
        /// What the quickstart takes: a folder, and --script FILE
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Check the format, the lints and every test, those against a container included
    Test {
        /// Leave out the tests that need a Docker engine
        #[arg(long)]
        without_container: bool,
    },
    /// Check the rules that no compiler knows: circles of modules, lengths of files, and the like
    House,
    /// Measure, and print a table with ratios
    Bench {
        /// What the benchmark takes, such as --quick
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Do twenty tasks over real MCP servers, tool by tool and by programs, and count what passes through a model's
    /// context
    Study {
        /// What the study takes: names of tasks, --turn-delay-ms N, --json FILE
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Load a relay for long, one execution in twenty hostile, and see that nothing grows
    Soak {
        /// For how many minutes
        #[arg(long, default_value_t = 20, conflicts_with = "cuts")]
        minutes: u64,
        /// Break connections so many times instead, at random, and see that each call runs once
        #[arg(long)]
        cuts: Option<usize>,
        /// The number that the random places of the cuts come from; by default a fresh one, which is printed
        #[arg(long, requires = "cuts")]
        seed: Option<u64>,
    },
    /// Find V8, or build it, and check it: what the other commands do first
    V8 {
        /// Only get what a build from source needs, and configure it
        #[arg(long)]
        configure_only: bool,
    },
    /// Build the container image `sandbox-relay` from a static binary built here
    Image,
    /// Take V8 to another version, in a worktree of its own, and show what changes
    RaiseV8(raise::RaiseArgs),
    /// Build a release for others in target/dist: static binaries, image, SBOM, completions, checksums
    Dist(dist::DistArgs),
}

fn main() -> anyhow::Result<()> {
    // Paths are relative to the workspace, wherever the command was typed. At run time cargo tells where the workspace
    // is; what the compiler knew may be out of date.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let root = PathBuf::from(package).join("../..");
    let typed_in = std::env::current_dir()?;
    std::env::set_current_dir(&root).with_context(|| format!("{} is gone", root.display()))?;
    let command = Cli::parse().command;
    checkout::notice_a_move()?;
    match command {
        Command::Demo { arguments } => demo(&typed_in, &arguments),
        Command::Test { without_container } => test(&typed_in, without_container),
        Command::House => house::check(is_ci()),
        Command::Bench { arguments } => bench(&typed_in, &arguments),
        Command::Study { arguments } => study(&typed_in, &arguments),
        Command::Soak { cuts: Some(cuts), seed, .. } => {
            let seed = seed.map(|seed| format!("--seed={seed}"));
            bench(&typed_in, &[format!("--soak-cuts={cuts}")].into_iter().chain(seed).collect::<Vec<_>>())
        }
        Command::Soak { minutes, .. } => bench(&typed_in, &[format!("--soak-minutes={minutes}")]),
        Command::V8 { configure_only: true } => v8::configure_only(true),
        Command::V8 { configure_only: false } => provide(&typed_in, Profile::Debug),
        Command::Image => provide(&typed_in, Profile::Release).and_then(|()| docker::build_image()).map(drop),
        Command::RaiseV8(arguments) => raise::raise(&arguments),
        Command::Dist(args) => provide(&typed_in, Profile::Release).and_then(|()| dist::dist(&args)),
    }
}

/// Checks what every build needs: a machine of the right kind, and V8.
fn provide(typed_in: &Path, profile: Profile) -> anyhow::Result<()> {
    let (folder, bytes) = match profile {
        Profile::Debug => ("debug/deps", 8 << 30),
        Profile::Release => ("release/deps", 4 << 30),
    };
    let target = run::target_folder()?;
    let needs = system::Needs::default().machine().program("cc", "gcc and libc6-dev").program("gzip", "gzip");
    // An earlier build has taken most of the disk space already. A build of this program alone takes little.
    let few = std::fs::read_dir(target.join(folder)).map_or(0, Iterator::count) < MOST_OF_XTASK;
    let needs = if few { needs.disk(&target, bytes)? } else { needs };
    needs.memory(1 << 30).check("")?;
    v8::provide(typed_in, profile)
}

/// Returns whether this is CI, where a missing registry is a failure.
fn is_ci() -> bool {
    std::env::var_os("CI").is_some()
}

fn demo(typed_in: &Path, arguments: &[String]) -> anyhow::Result<()> {
    provide(typed_in, Profile::Release)?;
    step("Building the programs and the quickstart (the first time takes some minutes)");
    run::check(cargo().args(["build", "--release", "--locked"]).args(selection::DEMO))?;
    step("Auditing this project's dependencies with one script, in a relay of its own");
    let program = run::target_folder()?.join("release/quickstart");
    run::check(Program::new(program).args(arguments).current_dir(typed_in))
}

fn test(typed_in: &Path, without_container: bool) -> anyhow::Result<()> {
    step("Checking the format");
    run::check(cargo().args(["fmt", "--all", "--check"]))?;
    house::check(is_ci())?;
    // Look for everything that may be missing before the long steps begin.
    cargo_with_lints()?;
    let docker = if without_container { None } else { Some(docker::Engine::find_or_start()?) };
    system::provide()?;
    provide(typed_in, Profile::Debug)?;
    step("Building everything, with the lints");
    run::check(cargo_with_lints()?.args(["build", "--workspace", "--all-targets", "--locked"]))?;
    step("Checking that the host library builds alone");
    run::check(cargo().args(["check", "--package", "host-client", "--no-default-features", "--locked"]))?;
    step("Running the tests");
    let mut tests = cargo_with_lints()?;
    // One run names everything that fails.
    tests.args(["test", "--locked", "--no-fail-fast"]).args(selection::TESTS);
    run::check_within(run::TEST_LIMIT, &mut tests)?;
    python::test()?;
    models()?;
    typescript::test()?;
    browser::test()?;
    if system::is_debian() {
        // CI requires it. On another machine the packages for it may be missing.
        v8::configure_only(is_ci())?;
    } else {
        step("Building V8 from source is tried on Debian alone: this system is another");
    }
    let Some(engine) = docker else {
        run::say_times();
        step("All tests have passed; those against a container were left out, as asked");
        return Ok(());
    };
    let image = docker::build_image_with(&engine)?;
    step("Running the tests against a container");
    let mut command = cargo_with_lints()?;
    // Build the whole workspace, so that the features are those of the other builds.
    command.args(["test", "--workspace", "--locked", "--test", "container"]);
    command.env("RELAY_TEST_IMAGE", image).env("RELAY_TEST_DOCKER", engine.program());
    run::check_within(run::TEST_LIMIT, &mut command)?;
    run::say_times();
    step("All tests have passed");
    Ok(())
}

/// Builds and tests what needs the feature `rig`, in a build of its own: rig changes the order of the members of JSON
/// objects in all packages that are built with it. The whole workspace is selected, so that packages which do not
/// depend on the feature are shared with the other tests.
fn models() -> anyhow::Result<()> {
    step("Building and testing what talks to models, with the lints");
    let modules = ["rig::", "programmatic::"];
    let tests = || -> anyhow::Result<Program> {
        let mut tests = cargo_with_lints()?;
        tests.args(["test", "--workspace", "--features", "host-client/rig", "--locked", "--test", "host", "--"]);
        tests.args(modules);
        Ok(tests)
    };
    run::check_within(run::TEST_LIMIT, &mut tests()?)?;
    // Check that the filter fits a test: cargo does not complain if it fits none.
    let listed = run::output(tests()?.arg("--list"))?;
    let absent = modules.into_iter().find(|module| !listed.lines().any(|test| test.starts_with(module)));
    absent.map_or(Ok(()), |module| anyhow::bail!("there are no tests named {module}…"))
}

fn bench(typed_in: &Path, arguments: &[String]) -> anyhow::Result<()> {
    provide(typed_in, Profile::Release)?;
    step("Building with optimizations");
    let packages = selection::with(&selection::DEMO, &["relay-bench"]);
    run::check(cargo().args(["build", "--release", "--locked"]).args(packages))?;
    step("Measuring; leave the machine alone meanwhile");
    let mut bench = Program::new(run::target_folder()?.join("release/relay-bench"));
    if let Some(bytes) = docker::image_bytes() {
        bench.arg(format!("--image-bytes={bytes}"));
    }
    run::check(bench.args(arguments))
}

fn study(typed_in: &Path, arguments: &[String]) -> anyhow::Result<()> {
    provide(typed_in, Profile::Release)?;
    step("Building with optimizations");
    let packages = selection::with(&selection::DEMO, &["relay-study"]);
    run::check(cargo().args(["build", "--release", "--locked"]).args(packages))?;
    step("Doing the tasks; the first time, MCP servers are installed from npm and PyPI");
    let program = run::target_folder()?.join("release/relay-study");
    run::check(Program::new(program).args(arguments).current_dir(typed_in))
}

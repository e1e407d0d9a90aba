//! `cargo xtask`: the one entry point for people and CI.

mod dist;
mod docker;
mod metadata;
mod run;
mod static_build;
mod system;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Parser, Subcommand};

use run::{cargo, step};

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
    /// Measure, and print a table with ratios
    Bench {
        /// What the benchmark takes, such as --quick
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Do twenty tasks over real MCP servers, tool by tool and by programs, and count what passes through a model's context
    Study {
        /// What the study takes: names of tasks, --turn-delay-ms N, --json FILE
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Load a relay for long, one execution in twenty hostile, and see that nothing grows
    Soak {
        /// For how many minutes
        #[arg(long, default_value_t = 20)]
        minutes: u64,
    },
    /// Build the container image `sandbox-relay` from a static binary built here
    Image,
    /// Build a release for others in target/dist: static binaries, image, SBOM, completions, checksums
    Dist(dist::DistArgs),
}

fn main() -> anyhow::Result<()> {
    // Paths are relative to the workspace, wherever the command was typed.
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let typed_in = std::env::current_dir()?;
    std::env::set_current_dir(&root).with_context(|| format!("{} is gone", root.display()))?;
    match Cli::parse().command {
        Command::Demo { arguments } => demo(&typed_in, &arguments),
        Command::Test { without_container } => test(without_container),
        Command::Bench { arguments } => bench(&arguments),
        Command::Study { arguments } => study(&typed_in, &arguments),
        Command::Soak { minutes } => bench(&[format!("--soak-minutes={minutes}")]),
        Command::Image => docker::build_image().map(drop),
        Command::Dist(args) => dist::dist(&args),
    }
}

fn demo(typed_in: &std::path::Path, arguments: &[String]) -> anyhow::Result<()> {
    step("Building the relay and the quickstart (the first time takes some minutes)");
    run::check(cargo().args([
        "build",
        "--release",
        "--package",
        "sandbox-relay",
        "--package",
        "examples",
        "--no-default-features",
    ]))?;
    step("Auditing this project's dependencies with one script, in a relay of its own");
    let program = std::env::current_dir()?.join(run::target_folder()?).join("release/quickstart");
    run::check(std::process::Command::new(program).args(arguments).current_dir(typed_in))
}

fn test(without_container: bool) -> anyhow::Result<()> {
    let docker = if without_container { None } else { Some(docker::Engine::find_or_start()?) };
    system::provide()?;
    step("Checking the format");
    run::check(cargo().args(["fmt", "--all", "--check"]))?;
    step("Checking the lints");
    run::check(cargo().args(["clippy", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"]))?;
    step("Checking that the host library builds alone");
    run::check(cargo().args(["check", "--package", "host-client", "--no-default-features", "--locked"]))?;
    step("Building what the tests start");
    run::check(cargo().args(["build", "--workspace", "--locked"]))?;
    step("Running the tests");
    run::check_within(
        run::TEST_LIMIT,
        cargo().args(["test", "--workspace", "--locked", "--exclude", "container-tests"]),
    )?;
    models()?;
    let Some(engine) = docker else {
        step("The tests against a container were left out, as asked");
        return Ok(());
    };
    let image = docker::build_image_with(&engine)?;
    step("Running the tests against a container");
    let mut command = cargo();
    command.args(["test", "--locked", "--package", "container-tests"]);
    command.env("RELAY_TEST_IMAGE", image).env("RELAY_TEST_DOCKER", engine.program());
    run::check_within(run::TEST_LIMIT, &mut command)?;
    step("All tests have passed");
    Ok(())
}

/// What is there only with the feature `rig`. It has builds of its own, of host-client alone: rig changes in what order the
/// members of JSON stand, for all that is built together with it.
fn models() -> anyhow::Result<()> {
    const WITH_RIG: [&str; 5] = ["--package", "host-client", "--features", "rig", "--locked"];
    step("Checking the lints of what talks to models");
    run::check(cargo().arg("clippy").args(WITH_RIG).args(["--all-targets", "--", "--deny", "warnings"]))?;
    step("Running the tests of what talks to models");
    let mut tests = cargo();
    tests.arg("test").args(WITH_RIG).args(["--test", "rig", "--test", "programmatic"]);
    run::check_within(run::TEST_LIMIT, &mut tests)
}

fn bench(arguments: &[String]) -> anyhow::Result<()> {
    step("Building with optimizations");
    run::check(cargo().args([
        "build",
        "--release",
        "--locked",
        "--package",
        "sandbox-relay",
        "--package",
        "relay-bench",
    ]))?;
    step("Measuring; leave the machine alone meanwhile");
    let mut bench = std::process::Command::new(run::target_folder()?.join("release/relay-bench"));
    if let Some(bytes) = docker::image_bytes() {
        bench.arg(format!("--image-bytes={bytes}"));
    }
    run::check(bench.args(arguments))
}

fn study(typed_in: &std::path::Path, arguments: &[String]) -> anyhow::Result<()> {
    step("Building with optimizations");
    let packages = ["--package", "sandbox-relay", "--package", "relay-study"];
    run::check(cargo().args(["build", "--release", "--locked"]).args(packages))?;
    step("Doing the tasks; the first time, MCP servers are installed from npm and PyPI");
    let program = std::env::current_dir()?.join(run::target_folder()?).join("release/relay-study");
    run::check(std::process::Command::new(program).args(arguments).current_dir(typed_in))
}

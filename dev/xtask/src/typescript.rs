//! The library for TypeScript: gets what it is tested with, checks it, and runs its tests.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use crate::run::{self, step, target_folder};

/// The folder of the npm package.
const PACKAGE: &str = "sdk/typescript";

/// Checks the npm package, and runs its tests on two versions of Node and on Bun, with what the build before has made.
pub(crate) fn test() -> anyhow::Result<()> {
    step("Getting what the library for TypeScript is tested with, from the npm registry");
    npm_packages()?;
    step("Checking and testing the library for TypeScript");
    let built = target_folder()?.join("debug");
    run::check(in_package("node").arg("scripts/native.mjs").arg(built))?;
    run::check(in_package("npm").args(["run", "--silent", "build"]))?;
    run::check(in_package("npm").args(["run", "--silent", "check"]))?;
    run::check_within(run::TEST_LIMIT, in_package("node").arg("scripts/test.mjs"))
}

/// Installs the packages that the lock file pins, unless they are there.
fn npm_packages() -> anyhow::Result<()> {
    let folder = Path::new(PACKAGE);
    let (lock, installed) = (folder.join("package-lock.json"), folder.join("node_modules/installed-lock.json"));
    let wanted = fs::read(&lock).with_context(|| format!("{} cannot be read", lock.display()))?;
    if fs::read(&installed).is_ok_and(|lock| lock == wanted) {
        return Ok(());
    }
    let cache = target_folder()?.join("sdk-typescript/npm");
    // `npm ci` wants optional packages for other machines in the lock file, which a registry may not have.
    let mut npm = in_package("npm");
    npm.args(["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--cache"]).arg(cache);
    run::check(&mut npm)?;
    fs::write(&installed, wanted).with_context(|| format!("{} cannot be written", installed.display()))
}

fn in_package(program: &str) -> Command {
    let mut command = run::program(program);
    command.current_dir(PACKAGE);
    command
}

//! The page in a browser: gets what its tests need, and runs them in Chromium.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use crate::run::{self, step, target_folder};

/// The tests and the packages that they need.
const TESTS: &str = "host-client/page/tests/browser";

/// Runs the tests of the page in a browser, with the programs that an earlier step has built. Pictures of its views are in
/// `target/page/pictures`.
pub(crate) fn test() -> anyhow::Result<()> {
    step("Getting what the page is tested with in a browser, from the npm registry");
    let target = std::path::absolute(target_folder()?)?;
    let folder = target.join("page");
    npm_packages(&folder)?;
    step("Testing the page in Chromium");
    let mut tests = run::program("node");
    tests.args(["--test", "--test-timeout=600000"]).arg(Path::new(TESTS).join("page.test.mjs"));
    tests.env("PAGE_PACKAGES", &folder).env("PAGE_PICTURES", folder.join("pictures"));
    tests.env("PAGE_PROGRAMS", target.join("debug")).env("PAGE_CHROMIUM", "/usr/bin/chromium");
    run::check_within(run::TEST_LIMIT, &mut tests)
}

/// Installs the packages that the lock file pins, unless they are there.
fn npm_packages(folder: &Path) -> anyhow::Result<()> {
    let installed = folder.join("installed-lock.json");
    let lock = Path::new(TESTS).join("package-lock.json");
    let wanted = fs::read(&lock).with_context(|| format!("{} cannot be read", lock.display()))?;
    if fs::read(&installed).is_ok_and(|there| there == wanted) {
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    for name in ["package.json", "package-lock.json"] {
        fs::copy(Path::new(TESTS).join(name), folder.join(name)).with_context(|| format!("{name} cannot be copied"))?;
    }
    let mut npm = run::program("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(folder);
    run::check(&mut npm)?;
    fs::write(&installed, wanted).with_context(|| format!("{} cannot be written", installed.display()))
}

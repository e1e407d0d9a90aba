//! Provides the tools that V8 is built with. They come from the package lists of this system and are unpacked into a
//! folder of the cache: nothing is installed, and root is not needed.

use std::fs::File;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use super::source::Log;
use crate::run;

/// Version of LLVM, and the names of its packages.
pub(super) const LLVM: &str = "22";
const LLVM_PACKAGES: [&str; 4] = ["clang-22", "lld-22", "llvm-22", "libclang-rt-22-dev"];

/// Packages of the program that runs the compiler, and of the language of V8's build scripts.
const NINJA_PACKAGES: [&str; 2] = ["ninja-build", "python3"];

/// Packages of GN and of the libraries that it was linked with: those of a stable Debian are too old for V8.
const GN_PACKAGES: [&str; 4] = ["generate-ninja", "libc6", "libgcc-s1", "libstdc++6"];
const GN_SUITES: [&str; 2] = ["testing", "unstable"];

/// Folder of libraries below the folder that the packages are unpacked into.
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";
const LLVM_FOLDER: &str = "usr/lib/llvm-22";

/// Targets that are not optimized: they run once, during the build, and optimizing them takes longer than running them.
const ONLY_AT_BUILD_TIME: [&str; 5] = [
    "v8/torque_generated_initializers",
    "v8/v8_initializers",
    "v8/mksnapshot",
    "v8/bytecode_builtins_list_generator",
    "v8/gen-regexp-special-case",
];

/// Targets that are optimized a little: without, they run for a minute.
const A_LITTLE_AT_BUILD_TIME: [&str; 2] = ["v8/torque_base", "v8/torque"];

/// Paths of the tools.
#[derive(Debug)]
pub(super) struct Tools {
    /// Folder in the form that GN expects: with `bin/clang` and what belongs to it.
    pub(super) clang: PathBuf,
    pub(super) gn: PathBuf,
    pub(super) ninja: PathBuf,
    pub(super) python: PathBuf,
}

impl Tools {
    fn in_folder(folder: &Path) -> Self {
        let bin = folder.join("bin");
        let [gn, ninja, python] = ["gn", "ninja", "python3"].map(|name| bin.join(name));
        Self { clang: folder.join("clang"), gn, ninja, python }
    }
}

/// Provides the tools that configure and run the build.
pub(super) fn provide(folder: &Path, log: &Log) -> anyhow::Result<()> {
    let system = folder.join("system");
    let apt = Apt::new(&folder.join("apt"), None)?;
    apt.update(log).context("the package lists of this system cannot be read")?;
    apt.download_with_dependencies(&NINJA_PACKAGES, log)?;
    apt.unpack(&system, is_not_libc, log)?;
    let gn = folder.join("gn");
    gn_from_a_newer_suite(folder, &gn, log)?;

    let tools = Tools::in_folder(folder);
    std::fs::create_dir_all(folder.join("bin"))?;
    for (program, path) in [(&tools.ninja, "usr/bin/ninja"), (&tools.python, "usr/bin/python3")] {
        write_program(program, &format!("#!/bin/sh\n{}\n", with_libraries(&system, path)))?;
    }
    let its = gn.join(LIBRARIES);
    let (its, program) = (its.display(), gn.join("usr/bin/gn"));
    let command = format!("exec '{its}/ld-linux-x86-64.so.2' --library-path '{its}' '{}' \"$@\"", program.display());
    write_program(&tools.gn, &format!("#!/bin/sh\n{command}\n"))?;
    for program in [&tools.ninja, &tools.python, &tools.gn] {
        log.run(Command::new(program).arg("--version"))?;
    }
    Ok(())
}

/// Provides the compiler.
pub(super) fn provide_compiler(folder: &Path, log: &Log) -> anyhow::Result<()> {
    let system = folder.join("system");
    let apt = Apt::new(&folder.join("apt"), None)?;
    // The lists of an interrupted run may be days old.
    apt.update(log).context("the package lists of this system cannot be read")?;
    apt.download_with_dependencies(&LLVM_PACKAGES, log).with_context(|| {
        format!("LLVM {LLVM} cannot be had: it is in Debian 12, with its security updates, and later")
    })?;
    apt.unpack(&system, is_not_libc, log)?;
    let tools = Tools::in_folder(folder);
    clang_folder(&tools.clang, &system)?;
    log.run(Command::new(tools.clang.join("bin/clang++")).arg("--version"))
}

/// Keep the system's own C library: a second one could not work beside it.
fn is_not_libc(package: &str) -> bool {
    !package.starts_with("libc6_")
}

/// Returns a shell command that runs a program with the libraries that were unpacked with it.
fn with_libraries(system: &Path, program: &str) -> String {
    let libraries = [system.join(LIBRARIES), system.join(LLVM_FOLDER).join("lib")].map(|lib| lib.display().to_string());
    format!("LD_LIBRARY_PATH='{}' exec '{}' \"$@\"", libraries.join(":"), system.join(program).display())
}

/// Returns the tools that an earlier run has unpacked.
pub(super) fn ready(folder: &Path) -> Tools {
    Tools::in_folder(folder)
}

fn gn_from_a_newer_suite(folder: &Path, to: &Path, log: &Log) -> anyhow::Result<()> {
    let own = Apt::new(&folder.join("apt"), None)?;
    let archives = own.debian_archives()?;
    for suite in GN_SUITES {
        let sources: String = archives.iter().map(|archive| archive.source(suite)).collect();
        let apt = Apt::new(&folder.join(format!("apt-{suite}")), Some(&sources))?;
        let got = apt.update(log).and_then(|()| apt.download(&GN_PACKAGES, log));
        match got {
            Ok(()) => return apt.unpack(to, |_| true, log),
            Err(error) => log.note(&format!("no GN in {suite}: {error:#}"))?,
        }
    }
    bail!(
        "the archive that this system takes its packages from has no newer GN (generate-ninja of {})",
        GN_SUITES.join(" or ")
    )
}

/// Makes the folder that GN expects as `clang_base_path`: links, and small scripts in the place of programs that need
/// their own libraries.
fn clang_folder(to: &Path, system: &Path) -> anyhow::Result<()> {
    let bin = to.join("bin");
    std::fs::create_dir_all(&bin)?;
    let wrapped = |program: &str| with_libraries(system, &format!("{LLVM_FOLDER}/bin/{program}"));
    for program in
        ["clang", "ld.lld", "lld", "llvm-ar", "llvm-nm", "llvm-readelf", "llvm-objcopy", "llvm-strip", "llvm-ranlib"]
    {
        write_program(&bin.join(program), &format!("#!/bin/sh\n{}\n", wrapped(program)))?;
    }
    let objects =
        |targets: &[&str]| targets.iter().map(|target| format!("*obj/{target}/*")).collect::<Vec<_>>().join("|");
    let compiler = wrapped("clang++");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in\n  {}) {compiler} -O0 -w ;;\n  {}) {compiler} -O1 -w ;;\n  *) {compiler} -w ;;\nesac\n",
        objects(&ONLY_AT_BUILD_TIME),
        objects(&A_LITTLE_AT_BUILD_TIME),
    );
    write_program(&bin.join("clang++"), &script)?;
    let resources = to.join("lib/clang").join(LLVM);
    let runtime = resources.join("lib/x86_64-unknown-linux-gnu");
    std::fs::create_dir_all(&runtime)?;
    let its = system.join(LLVM_FOLDER).join("lib/clang").join(LLVM);
    link(&its.join("include"), &resources.join("include"))?;
    link(&its.join("lib/linux/libclang_rt.builtins-x86_64.a"), &runtime.join("libclang_rt.builtins.a"))
}

fn link(target: &Path, name: &Path) -> anyhow::Result<()> {
    if name.symlink_metadata().is_ok() {
        std::fs::remove_file(name)?;
    }
    symlink(target, name).with_context(|| format!("{} cannot be made", name.display()))
}

fn write_program(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Archive from which this system takes packages.
#[derive(Debug)]
struct Archive {
    address: String,
    signed_by: String,
}

impl Archive {
    /// Returns a line of configuration that takes the packages of one suite from this archive, signed by the same keys.
    fn source(&self, suite: &str) -> String {
        let options =
            if self.signed_by.is_empty() { String::new() } else { format!("[signed-by={}] ", self.signed_by) };
        format!("deb {options}{} {suite} main\n", self.address)
    }
}

/// The system's package manager with folders of its own: it downloads packages and changes nothing in the system.
#[derive(Debug)]
struct Apt {
    folder: PathBuf,
}

impl Apt {
    /// Uses the system's own sources, or these.
    fn new(folder: &Path, sources: Option<&str>) -> anyhow::Result<Self> {
        for needed in ["state/lists/partial", "cache/archives/partial"] {
            std::fs::create_dir_all(folder.join(needed))?;
        }
        // Pretend that nothing is installed: the selection must not depend on this machine.
        File::create(folder.join("status"))?;
        let path = |name: &str| folder.join(name).display().to_string();
        let mut configuration = format!(
            "Dir::State \"{}\";\nDir::State::status \"{}\";\nDir::Cache \"{}\";\n",
            path("state"),
            path("status"),
            path("cache")
        );
        configuration += "APT::Install-Recommends \"false\";\nAPT::Sandbox::User \"\";\nAcquire::Retries \"3\";\nDebug::NoLocking \"true\";\n";
        if let Some(sources) = sources {
            // Mirrors that freeze the state of one day are common, and the lists of Debian testing expire after a week.
            // Their signatures are checked all the same.
            configuration += "Acquire::Check-Valid-Until \"false\";\n";
            std::fs::write(folder.join("sources.list"), sources)?;
            configuration +=
                &format!("Dir::Etc::SourceList \"{}\";\nDir::Etc::SourceParts \"/dev/null\";\n", path("sources.list"));
            configuration += "Dir::Etc::Preferences \"/dev/null\";\nDir::Etc::PreferencesParts \"/dev/null\";\nAPT::Default-Release \"\";\n";
        }
        std::fs::write(folder.join("apt.conf"), configuration)?;
        Ok(Self { folder: folder.to_owned() })
    }

    fn command(&self) -> Command {
        let mut apt = Command::new("apt-get");
        apt.env("APT_CONFIG", self.folder.join("apt.conf")).env("DEBIAN_FRONTEND", "noninteractive");
        // The package manager downloads to the current folder.
        apt.current_dir(self.folder.join("cache/archives")).stdin(Stdio::null());
        apt
    }

    fn update(&self, log: &Log) -> anyhow::Result<()> {
        log.run(self.command().arg("update"))?;
        // Remove packages of an earlier day, which must not be mixed with newer ones.
        log.run(self.command().arg("autoclean"))
    }

    fn download_with_dependencies(&self, packages: &[&str], log: &Log) -> anyhow::Result<()> {
        log.run(self.command().args(["install", "--yes", "--download-only"]).args(packages))
    }

    fn download(&self, packages: &[&str], log: &Log) -> anyhow::Result<()> {
        log.run(self.command().arg("download").args(packages))
    }

    /// Lists the Debian archives among the sources, which may have other suites as well.
    fn debian_archives(&self) -> anyhow::Result<Vec<Archive>> {
        let format = "$(LABEL)\t$(REPO_URI)\t$(SIGNED_BY)";
        let printed = run::output(self.command().args(["indextargets", "--format", format, "Created-By: Packages"]))?;
        let mut archives: Vec<Archive> = Vec::new();
        for line in printed.lines() {
            let mut fields = line.split('\t').map(str::trim);
            let (Some("Debian"), Some(address)) = (fields.next(), fields.next()) else { continue };
            // If the field is not set, the format is printed as it stands.
            let signed_by = fields.next().filter(|keys| keys.starts_with('/')).unwrap_or_default().to_owned();
            if archives.iter().all(|known| known.address != address) {
                archives.push(Archive { address: address.to_owned(), signed_by });
            }
        }
        if archives.is_empty() {
            bail!("this system takes no packages from an archive of Debian's");
        }
        Ok(archives)
    }

    fn unpack(&self, to: &Path, is_wanted: impl Fn(&str) -> bool, log: &Log) -> anyhow::Result<()> {
        std::fs::create_dir_all(to)?;
        for entry in std::fs::read_dir(self.folder.join("cache/archives"))? {
            let path = entry?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if name.ends_with(".deb") && is_wanted(&name) {
                log.run(Command::new("dpkg-deb").arg("--extract").arg(&path).arg(to))?;
            }
        }
        Ok(())
    }
}

//! Builds V8 from the source inside the crate `v8`, as far as the relay links it.
//!
//! Every step leaves a mark, so that an interrupted build goes on where it was. What is left out, beside what the crate's own
//! build leaves out for other reasons: WebAssembly and Temporal, which no script of the relay's sees.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, bail};

use super::archive::{BINDING, PACKED, last_line};
use super::tools::{self, Tools};
use super::{ninja, shown};
use crate::{crates, run, system};

/// Script in the place of one that V8's cluster build calls and the crate leaves out.
const CLUSTER_FILES: &str = include_str!("cluster_files.py");

/// Sources of this module. If they change, all steps are done again.
const RECIPE: &str = concat!(include_str!("source.rs"), include_str!("tools.rs"));

/// Flags that only the compiler knows which Chromium builds for itself, and the files that pass them.
const FOREIGN_FLAGS: [(&str, &str); 3] = [
    ("build/config/compiler/BUILD.gn", "\"-fdiagnostics-show-inlining-chain\""),
    ("build/config/compiler/BUILD.gn", "\"-fno-lifetime-dse\""),
    ("build/config/sanitizers/sanitizers.gni", "\"-fsanitize-ignore-for-ubsan-feature=${invoker.sanitizer}\","),
];

/// Configuration of V8, in addition to the crate's `.gn` file.
const ARGUMENTS: &str = "\
is_debug = false
symbol_level = 0
line_tables_only = false
treat_warnings_as_errors = false
use_custom_libcxx = true
use_glib = false
# As the crate is without any of its features.
v8_enable_sandbox = false
v8_enable_pointer_compression = false
v8_enable_v8_checks = false
v8_monolithic_for_shared_library = true
# Temporal is written in Rust, and would want a second toolchain.
enable_rust = false
enable_rust_cxx = false
v8_enable_temporal_support = false
v8_enable_webassembly = false
# Few big translation units read the headers less often; see cluster_files.py.
v8_enable_cluster_build = true
cluster_size = 130
";

/// Target of the build: all that the crate links, in one static library.
const TARGET: &str = "rusty_v8";

const NEEDED_DISK: u64 = 6 << 30;
const MEMORY_OF_A_JOB: u64 = 3 << 29;

/// Steps of the build, in their order, with the texts that are printed.
const STEPS: [(&str, &str); 6] = [
    ("tools", "getting the build tools (GN, ninja, Python; used from a folder of ours, not installed)"),
    ("source", "getting the source (the crate, and ICU's data)"),
    ("configure", "configuring"),
    ("compiler", "getting the compiler (LLVM; 130 MB; not installed, either)"),
    ("compile", "compiling (20 to 30 minutes on 2 cores; interrupt it as you like)"),
    ("pack", "packing the archive"),
];

const ADVICE: &str = "to build V8 from source (which is done where apt is, for LLVM's packages). Without that, name an archive \
                      of V8 from elsewhere: RUSTY_V8_ARCHIVE=/path/to/librusty_v8_release_x86_64-unknown-linux-gnu.a.gz";

/// Builds the two files into a folder.
pub(crate) fn build(version: &str, cache: &Path, into: &Path) -> anyhow::Result<()> {
    let needs = system::Needs::default().machine().program("apt-get", "apt").program("dpkg-deb", "dpkg");
    let needs = needs.program("cc", "gcc").program("curl", "curl").program("gzip", "gzip").memory(MEMORY_OF_A_JOB);
    let work = Work::new(version, cache);
    // An interrupted build has taken most of the disk space already.
    let needs = if work.folder.exists() { needs } else { needs.disk(cache, NEEDED_DISK)? };
    needs.check(ADVICE)?;
    let started = Instant::now();
    let tools = work.configured()?;
    work.step("compiler", |log| tools::provide_compiler(&work.tools_folder(), log))?;
    work.step("compile", |log| work.compile(&tools, log))?;
    work.step("pack", |log| work.pack(into, log))?;
    // The files belong to the caller now, and may be gone when the next build asks for them.
    work.forget("pack")?;
    eprintln!("    built in {} min {:02} s", started.elapsed().as_secs() / 60, started.elapsed().as_secs() % 60);
    Ok(())
}

/// Removes the folder that a build works in.
pub(crate) fn clear(version: &str, cache: &Path) -> anyhow::Result<()> {
    let folder = Work::new(version, cache).folder;
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("{} cannot be removed", folder.display()))?;
    }
    Ok(())
}

/// Error: the system's package manager does not offer the tools that even the configuration needs.
#[derive(Debug, thiserror::Error)]
#[error("the tools to build V8 with cannot be had")]
pub(crate) struct NoTools;

/// Runs the build up to its configuration. Returns the number of steps that compiling would take.
pub(crate) fn configure(version: &str, cache: &Path) -> anyhow::Result<usize> {
    let work = Work::new(version, cache);
    // Do these steps even if an earlier run has done them.
    for step in ["source", "configure"] {
        work.forget(step)?;
    }
    let tools = work.configured()?;
    // Ask for all commands: without a compiler, ninja lists no steps to take.
    let commands = run::output(work.ninja(&tools).args(["-t", "commands", TARGET]))?;
    Ok(commands.lines().count())
}

/// Build that may have been interrupted before.
struct Work {
    version: String,
    folder: PathBuf,
}

impl Work {
    fn new(version: &str, cache: &Path) -> Self {
        Self { version: version.to_owned(), folder: cache.join(format!("{version}-build")) }
    }

    fn tools_folder(&self) -> PathBuf {
        self.folder.join("tools")
    }

    fn source_folder(&self) -> PathBuf {
        self.folder.join("source")
    }

    /// Does the steps before compiling.
    fn configured(&self) -> anyhow::Result<Tools> {
        std::fs::create_dir_all(&self.folder)?;
        self.step("tools", |log| tools::provide(&self.tools_folder(), log)).context(NoTools)?;
        self.step("source", |log| self.get_source(log))?;
        let tools = tools::ready(&self.tools_folder());
        self.step("configure", |log| self.configure(&tools, log))?;
        Ok(tools)
    }

    /// Does a step that is not done yet, and marks it as done.
    fn step(&self, name: &str, work: impl FnOnce(&Log) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let number = STEPS.iter().position(|(step, _)| *step == name).map_or(0, |at| at + 1);
        let title = format!("step {number} of {}", STEPS.len());
        let done = self.folder.join(format!("{name}.done"));
        // Do a step again if the recipe has changed, or the folder, whose path is in many files.
        let recipe = format!("{}\n{RECIPE}{CLUSTER_FILES}", self.folder.display());
        if std::fs::read_to_string(&done).is_ok_and(|by| by == recipe) {
            eprintln!("    {title}: {name} is done");
            return Ok(());
        }
        let what = STEPS.iter().find(|(step, _)| *step == name).map_or("", |(_, what)| *what);
        eprintln!("    {title}: {what}");
        let log = Log::new(self.folder.join(format!("{name}.log")))?;
        work(&log).with_context(|| {
            format!("{title} ({name}) failed; its log is {}. The same command goes on from there", log.path.display())
        })?;
        Ok(std::fs::write(done, recipe)?)
    }

    /// Removes the mark of a step.
    fn forget(&self, name: &str) -> anyhow::Result<()> {
        match std::fs::remove_file(self.folder.join(format!("{name}.done"))) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn get_source(&self, log: &Log) -> anyhow::Result<()> {
        let (crate_v8, source) = (crates::source("v8", &self.version)?, self.source_folder());
        // Remove a copy that was interrupted.
        if source.exists() {
            std::fs::remove_dir_all(&source)?;
        }
        log.run(Command::new("cp").args(["--recursive", "--no-preserve=mode"]).arg(&crate_v8).arg(&source))?;
        let data = crates::source("deno_core_icudata", &icu_data_version(&source)?)?.join("src/icudtl.dat");
        let common = source.join("third_party/icu/common");
        std::fs::create_dir_all(&common)?;
        std::fs::copy(&data, common.join("icudtl.dat"))
            .with_context(|| format!("{} cannot be copied", data.display()))?;
        std::fs::create_dir_all(source.join("v8/tools"))?;
        std::fs::write(source.join("v8/tools/cluster_files.py"), CLUSTER_FILES)?;
        for (file, flag) in FOREIGN_FLAGS {
            let path = source.join(file);
            let text = std::fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
            if !text.contains(flag) {
                log.note(&format!("{file} has no {flag} any more"))?;
            }
            std::fs::write(&path, text.replace(flag, ""))?;
        }
        Ok(())
    }

    fn configure(&self, tools: &Tools, log: &Log) -> anyhow::Result<()> {
        let output = self.source_folder().join("out");
        std::fs::create_dir_all(&output)?;
        let clang = format!("clang_base_path = \"{}\"\nclang_version = \"{}\"\n", tools.clang.display(), tools::LLVM);
        std::fs::write(output.join("args.gn"), format!("{ARGUMENTS}{clang}"))?;
        let mut gn = Command::new(&tools.gn);
        let python = format!("--script-executable={}", tools.python.display());
        log.run(gn.arg("gen").arg("out").arg(python).current_dir(self.source_folder()))
    }

    fn ninja(&self, tools: &Tools) -> Command {
        let mut ninja = Command::new(&tools.ninja);
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        let jobs = (cores + 1).min(system::available_memory() / MEMORY_OF_A_JOB).max(1);
        ninja.arg("-C").arg(self.source_folder().join("out")).args(["-j", &jobs.to_string()]);
        ninja
    }

    fn compile(&self, tools: &Tools, log: &Log) -> anyhow::Result<()> {
        if !ninja::run(self.ninja(tools).arg(TARGET), log)? {
            bail!("ninja failed; look for FAILED in the log");
        }
        Ok(())
    }

    fn pack(&self, into: &Path, log: &Log) -> anyhow::Result<()> {
        let archive = self.source_folder().join("out/obj/librusty_v8.a");
        let packed = into.join(PACKED);
        let part = into.join("packing");
        let mut gzip = Command::new("gzip");
        // Without name and time, the same archive gives the same file.
        gzip.args(["--no-name", "--best", "--stdout"]).arg(&archive).stdout(File::create(&part)?).stdin(Stdio::null());
        let status = gzip.stderr(log.file()?).status().context("gzip cannot be run")?;
        if !status.success() {
            bail!("gzip failed: {status}");
        }
        std::fs::rename(part, packed)?;
        std::fs::copy(self.source_folder().join("gen").join(BINDING), into.join(BINDING))?;
        Ok(())
    }
}

/// Returns the version of the crate with the data of the ICU in a source of V8. Its minor version is ICU's major one.
fn icu_data_version(source: &Path) -> anyhow::Result<String> {
    let header = source.join("third_party/icu/source/common/unicode/uvernum.h");
    let text = std::fs::read_to_string(&header).with_context(|| format!("{} cannot be read", header.display()))?;
    let major = crates::defined(&text, "U_ICU_VERSION_MAJOR_NUM")?;
    crates::matching("deno_core_icudata", &format!("0.{major}"))
}

/// Log that the programs of one step write to.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
}

impl Log {
    fn new(path: PathBuf) -> anyhow::Result<Self> {
        File::create(&path).with_context(|| format!("{} cannot be written", path.display()))?;
        Ok(Self { path })
    }

    pub(super) fn file(&self) -> anyhow::Result<File> {
        Ok(File::options().append(true).open(&self.path)?)
    }

    pub(super) fn note(&self, text: &str) -> anyhow::Result<()> {
        Ok(writeln!(self.file()?, "{text}")?)
    }

    /// Runs a program whose output matters only if it fails.
    pub(super) fn run(&self, command: &mut Command) -> anyhow::Result<()> {
        self.note(&format!("$ {command:?}"))?;
        let before = std::fs::metadata(&self.path)?.len();
        let status = command.stdin(Stdio::null()).stdout(self.file()?).stderr(self.file()?).status();
        let status = status.with_context(|| format!("{} cannot be run", command.get_program().display()))?;
        if !status.success() {
            let said = std::fs::read(&self.path)?;
            let said = said.get(usize::try_from(before)?..).unwrap_or_default();
            bail!("{} failed ({status}): {}", shown(Path::new(command.get_program())), last_line(said));
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn work_in(folder: &Path) -> Work {
        let work = Work::new("1.2.3", folder);
        std::fs::create_dir_all(&work.folder).unwrap();
        work
    }

    #[test]
    fn a_step_is_done_once_and_a_failed_one_again() {
        let cache = tempfile::tempdir().unwrap();
        let work = work_in(cache.path());
        let count = Cell::new(0);
        let failing = || {
            work.step("source", |log| {
                count.set(count.get() + 1);
                log.run(Command::new("sh").args(["-c", "echo it burns >&2; exit 3"]))
            })
        };
        let error = format!("{:#}", failing().unwrap_err());
        let log = work.folder.join("source.log");
        let expected =
            format!("step 2 of 6 (source) failed; its log is {}. The same command goes on from there", log.display());
        assert_eq!(error, format!("{expected}: sh failed (exit status: 3): it burns"));
        failing().unwrap_err();
        assert_eq!(count.get(), 2);
        let working = || {
            work.step("source", |_| {
                count.set(count.get() + 1);
                Ok(())
            })
        };
        working().unwrap();
        working().unwrap();
        assert_eq!(count.get(), 3);
        work.forget("source").unwrap();
        work.forget("source").unwrap();
        working().unwrap();
        assert_eq!(count.get(), 4);
    }

    #[test]
    fn what_was_done_by_another_recipe_or_elsewhere_is_done_again() {
        let cache = tempfile::tempdir().unwrap();
        let work = work_in(cache.path());
        let count = Cell::new(0);
        let step = |work: &Work| {
            let counted = work.step("configure", |_| {
                count.set(count.get() + 1);
                Ok(())
            });
            counted.unwrap();
        };
        step(&work);
        std::fs::write(work.folder.join("configure.done"), "another recipe").unwrap();
        step(&work);
        let moved = cache.path().join("moved");
        std::fs::create_dir(&moved).unwrap();
        std::fs::rename(&work.folder, moved.join("1.2.3-build")).unwrap();
        step(&work_in(&moved));
        assert_eq!(count.get(), 3);
    }

    #[test]
    fn what_was_compiled_is_packed_the_same_way_each_time() {
        let cache = tempfile::tempdir().unwrap();
        let work = work_in(cache.path());
        for (file, text) in [("out/obj/librusty_v8.a", "!<arch>\n"), (&format!("gen/{BINDING}"), "// bindings")] {
            let path = work.source_folder().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let log = Log::new(cache.path().join("pack.log")).unwrap();
        let pack = |name: &str| {
            let into = cache.path().join(name);
            std::fs::create_dir(&into).unwrap();
            work.pack(&into, &log).unwrap();
            let names = std::fs::read_dir(&into).unwrap().count();
            assert_eq!((names, std::fs::read_to_string(into.join(BINDING)).unwrap().as_str()), (2, "// bindings"));
            std::fs::read(into.join(PACKED)).unwrap()
        };
        let packed = pack("first");
        assert_eq!(packed, pack("second"));
        assert_eq!(packed[..2], [0x1f, 0x8b]);
    }

    #[test]
    fn the_data_is_that_of_the_icu_in_the_source() {
        let source = tempfile::tempdir().unwrap();
        let error = icu_data_version(source.path()).unwrap_err().to_string();
        assert!(error.ends_with("uvernum.h cannot be read"), "{error}");
        let folder = source.path().join("third_party/icu/source/common/unicode");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("uvernum.h"), "#define U_ICU_VERSION_MAJOR_NUM 78\n").unwrap();
        let version = icu_data_version(source.path()).unwrap();
        assert!(version.starts_with("0.78."), "{version}");
    }
}

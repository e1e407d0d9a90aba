//! Builds the static binaries, which have the same bytes in whatever folder and by whatever user they are built.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::metadata::Metadata;
use crate::run::{cargo, check, output, step, target_folder};

pub(crate) const TARGET: &str = "x86_64-unknown-linux-gnu";
pub(crate) const RELAY: Program = Program { name: "sandbox-relay", folder: "sandbox-relay" };
pub(crate) const HOST: Program = Program { name: "relay-host", folder: "host-client/relay-host" };

/// Program that is released.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    /// Name of the program and of its package.
    pub(crate) name: &'static str,
    /// Folder of its package in the repository.
    pub(crate) folder: &'static str,
}

/// Folder of this machine, and its name in the binaries.
#[derive(Debug, PartialEq, Eq)]
struct Renamed {
    from: PathBuf,
    to: String,
}

impl Renamed {
    fn new(from: impl Into<PathBuf>, to: impl Into<String>) -> Self {
        Self { from: from.into(), to: to.into() }
    }

    fn option(&self, name: &str) -> anyhow::Result<String> {
        let from = self.from.to_str().with_context(|| format!("{} is no UTF-8", self.from.display()))?;
        Ok(format!("{name}={from}={}", self.to))
    }
}

/// Builds a program and returns its path. Release, image and tests all use this function, so that cargo builds it once
/// for all of them.
pub(crate) fn build(program: Program) -> anyhow::Result<PathBuf> {
    step(&format!("Building the static {}", program.name));
    let target = target_folder()?;
    let folders = folders(&target)?;
    let mut build = cargo();
    // Build one package at a time: together, each would get the features that the other needs of shared dependencies.
    build.args(["build", "--release", "--locked", "--target", TARGET, "--package", program.name]);
    build.args(["--bin", program.name, "--target-dir"]).arg(&target);
    // Cargo prefers this variable to all other flags, and does not apply it to build scripts and macros.
    build.env("CARGO_ENCODED_RUSTFLAGS", rust_flags(&folders)?);
    let c_flags = c_flags(&folders)?;
    for variable in ["CFLAGS_x86_64_unknown_linux_gnu", "CXXFLAGS_x86_64_unknown_linux_gnu"] {
        build.env(variable, &c_flags);
    }
    // Pass paths with blanks to the C compiler unbroken.
    build.env("CC_SHELL_ESCAPED_FLAGS", "1");
    // Keep the time of the build out of the binary.
    build.env("SOURCE_DATE_EPOCH", "0");
    // A profile that the user has set would change the bytes.
    for (variable, _) in env::vars_os() {
        if variable.to_string_lossy().starts_with("CARGO_PROFILE_RELEASE_") {
            build.env_remove(variable);
        }
    }
    check(&mut build)?;
    Ok(target.join(TARGET).join("release").join(program.name))
}

/// Lists the folders whose paths could end up in a binary.
fn folders(target: &Path) -> anyhow::Result<Vec<Renamed>> {
    let cargo_home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo_home = cargo_home.or_else(|| Some(env::home_dir()?.join(".cargo")));
    let cargo_home = cargo_home.context("neither CARGO_HOME nor HOME is set")?;
    let mut folders = vec![
        Renamed::new(env::current_dir()?, "/source"),
        Renamed::new(target, "/target"),
        Renamed::new(cargo_home, "/cargo"),
        standard_library()?,
    ];
    let registries = Metadata::read()?.registry_folders();
    folders.extend(registries.into_iter().map(|folder| Renamed::new(folder, "/registry")));
    Ok(inner_last(folders))
}

/// Returns the folder of the standard library's sources, which the binaries name by the compiler's commit where they
/// are not installed.
fn standard_library() -> anyhow::Result<Renamed> {
    let rustc = || std::process::Command::new(env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc")));
    let version = output(rustc().arg("-vV"))?;
    let commit = version.lines().find_map(|line| line.strip_prefix("commit-hash: ")).unwrap_or("unknown");
    let sysroot = PathBuf::from(output(rustc().args(["--print", "sysroot"]))?);
    Ok(Renamed::new(sysroot.join("lib/rustlib/src/rust"), format!("/rustc/{commit}")))
}

/// Sorts folders so that inner ones come last: compilers apply the last mapping that fits.
fn inner_last(mut folders: Vec<Renamed>) -> Vec<Renamed> {
    folders.sort_by_key(|folder| folder.from.components().count());
    folders
}

fn rust_flags(folders: &[Renamed]) -> anyhow::Result<String> {
    let remapped = folders.iter().map(|folder| folder.option("--remap-path-prefix"));
    let flags: Vec<_> =
        std::iter::once(Ok("-Ctarget-feature=+crt-static".to_owned())).chain(remapped).collect::<Result<_, _>>()?;
    Ok(flags.join("\u{1f}"))
}

fn c_flags(folders: &[Renamed]) -> anyhow::Result<String> {
    let quoted = |folder: &Renamed| {
        let option = folder.option("-ffile-prefix-map")?;
        Ok(format!("'{}'", option.replace('\'', r"'\''")))
    };
    let flags: Vec<_> = folders.iter().map(quoted).collect::<anyhow::Result<_>>()?;
    Ok(flags.join(" "))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_folder_inside_another_is_renamed_by_its_own_name() {
        let folders = inner_last(vec![Renamed::new("/a/b c/target", "/target"), Renamed::new("/a/b c", "/source")]);
        assert_eq!(
            rust_flags(&folders).unwrap().split('\u{1f}').collect::<Vec<_>>(),
            [
                "-Ctarget-feature=+crt-static",
                "--remap-path-prefix=/a/b c=/source",
                "--remap-path-prefix=/a/b c/target=/target",
            ]
        );
        assert_eq!(
            c_flags(&folders).unwrap(),
            "'-ffile-prefix-map=/a/b c=/source' '-ffile-prefix-map=/a/b c/target=/target'"
        );
    }

    #[test]
    fn packages_and_the_standard_library_have_the_same_names_everywhere() {
        let folders = folders(Path::new("/t")).unwrap();
        let renamed = |to: &str| folders.iter().filter(|folder| folder.to == to).count();
        assert!(renamed("/registry") >= 1, "{folders:?}");
        assert_eq!((renamed("/source"), renamed("/target"), renamed("/cargo")), (1, 1, 1));
        let library = folders.iter().find(|folder| folder.to.starts_with("/rustc/")).unwrap();
        assert!(library.from.ends_with("lib/rustlib/src/rust"), "{library:?}");
        assert_ne!(library.to, "/rustc/unknown");
    }
}

//! Packages of npm and PyPI, pinned by files and installed once into a folder.
//!
//! A virtual environment of Python works only where it was made, and with the Python that made it: its programs name
//! both by absolute paths. An environment that was moved with its folder, or whose Python is gone or another, is made
//! anew.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tells which Python runs: its file and its version.
const WHICH_PYTHON: &str = "import os, sys; print(os.path.realpath(sys.executable), sys.version)";
/// The folder that npm installs into.
const NODE_MODULES: &str = "node_modules";

/// Packages that belong together.
#[derive(Debug, Clone, Copy)]
pub struct Packages {
    /// The beginning of the folder's name. The rest is a hash of the pins, so that working copies with different pins
    /// can share a target folder.
    pub name: &'static str,
    /// The files that pin the packages: name and content. With a `package.json` among them, npm installs from them.
    pub pins: &'static [(&'static str, &'static str)],
    /// The virtual environments of Python.
    pub environments: &'static [Environment],
}

/// A virtual environment of Python.
#[derive(Debug, Clone, Copy)]
pub struct Environment {
    /// The name of its folder.
    pub folder: &'static str,
    /// The name of the pins that it is installed from, in the format of pip's requirements files.
    pub requirements: &'static str,
}

/// Error of an installation of packages.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The program is in no folder that cargo builds into.
    #[error("this program lies in no target folder of cargo")]
    NoTargetFolder,
    /// A file or folder cannot be read or written.
    #[error("{path} cannot be read or written: {error}")]
    Files {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        error: std::io::Error,
    },
    /// npm or Python cannot be started.
    #[error("{command} cannot be run: {error}. npm, and python3 with venv and pip, have to be on the PATH.")]
    NotRun {
        /// The program with its arguments.
        command: String,
        /// The system's reason.
        error: std::io::Error,
    },
    /// npm or Python ended with an error.
    #[error("{command} failed. It installs packages of npm or PyPI: are these registries reachable?\n{output}")]
    Failed {
        /// The program with its arguments.
        command: String,
        /// Its standard output and standard error.
        output: String,
    },
}

/// Finds the folder that cargo builds into from the path of this program. A path that was fixed when the program was
/// compiled would be wrong after the checkout was moved.
///
/// # Errors
/// [`InstallError::NoTargetFolder`].
pub fn target_folder() -> Result<PathBuf, InstallError> {
    let program = std::env::current_exe().map_err(|_| InstallError::NoTargetFolder)?;
    // Programs lie in `<target>/<profile>`, tests and examples one folder deeper.
    let profile = program.ancestors().skip(1).find(|folder| !folder.ends_with("deps") && !folder.ends_with("examples"));
    profile.and_then(Path::parent).map(Path::to_owned).ok_or(InstallError::NoTargetFolder)
}

impl Packages {
    /// Installs the packages into a folder of their own below `parent`, unless they are there already; gives that
    /// folder. Programs of npm are in `node_modules/.bin`, those of an environment in its folder `bin`.
    ///
    /// # Errors
    /// [`InstallError::Files`], [`InstallError::NotRun`] or [`InstallError::Failed`].
    pub fn install_below(&self, parent: &Path) -> Result<PathBuf, InstallError> {
        let mut pins = DefaultHasher::new();
        self.pins.hash(&mut pins);
        let folder = parent.join(format!("{}-{:016x}", self.name, pins.finish()));
        on(&folder, |folder| fs::create_dir_all(folder))?;
        // Scripts of Python name the folder as the system knows it, without links.
        let folder = on(&folder, |folder| folder.canonicalize())?;
        // Several programs may want the packages at the same time.
        let lock = on(&folder.join("lock"), |path| File::create(path))?;
        on(&folder, |_| lock.lock())?;
        self.install(&folder)?;
        Ok(folder)
    }

    /// Installs the parts whose mark is absent or says that they were made otherwise.
    fn install(&self, folder: &Path) -> Result<(), InstallError> {
        for (name, pins) in self.pins {
            on(&folder.join(name), |path| fs::write(path, pins))?;
        }
        if self.pins.iter().any(|(name, _)| *name == "package.json") {
            // What npm installs has no absolute paths in it.
            Part::new(folder, NODE_MODULES, "by npm".to_owned()).make(|| {
                let mut npm = Command::new("npm");
                run(npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(folder)).map(drop)
            })?;
        }
        let python = match self.environments {
            [] => return Ok(()),
            _ => run(Command::new("python3").args(["-c", WHICH_PYTHON]))?,
        };
        for Environment { folder: name, requirements } in self.environments {
            let place = folder.join(name);
            Part::new(folder, name, format!("{}\n{python}", place.display())).make(|| {
                run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&place))?;
                let mut pip = Command::new(place.join("bin/python"));
                pip.args(["-m", "pip", "install", "--quiet", "--requirement", requirements]).current_dir(folder);
                run(&mut pip).map(drop)
            })?;
        }
        Ok(())
    }
}

/// A part of the packages, with the file that marks it as done.
struct Part {
    mark: PathBuf,
    /// The text that the mark has to hold: the origin of the part.
    origin: String,
}

impl Part {
    fn new(folder: &Path, name: &str, origin: String) -> Self {
        Self { mark: folder.join(format!("{name}.done")), origin }
    }

    fn make(&self, install: impl FnOnce() -> Result<(), InstallError>) -> Result<(), InstallError> {
        if fs::read_to_string(&self.mark).is_ok_and(|origin| origin == self.origin) {
            return Ok(());
        }
        // Nothing counts as done until all of it is, a second attempt included.
        match fs::remove_file(&self.mark) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(InstallError::Files { path: self.mark.clone(), error });
            }
            _ => {}
        }
        install()?;
        on(&self.mark, |mark| fs::write(mark, &self.origin))
    }
}

/// Does something with a file or folder, which is named where that fails.
fn on<T>(path: &Path, action: impl FnOnce(&Path) -> std::io::Result<T>) -> Result<T, InstallError> {
    action(path).map_err(|error| InstallError::Files { path: path.to_owned(), error })
}

/// Runs a program that has to succeed; gives its standard output.
fn run(command: &mut Command) -> Result<String, InstallError> {
    let output = command.output();
    let output = output.map_err(|error| InstallError::NotRun { command: format!("{command:?}"), error })?;
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        return Ok(out.into_owned());
    }
    Err(InstallError::Failed { command: format!("{command:?}"), output: format!("{}\n{out}{errors}", output.status) })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    /// An environment with nothing in it but pip: no registry is needed.
    const BARE: Packages = Packages {
        name: "bare",
        pins: &[("requirements.txt", "# nothing\n")],
        environments: &[Environment { folder: "venv", requirements: "requirements.txt" }],
    };

    fn works(folder: &Path) -> bool {
        let output = Command::new(folder.join("venv/bin/pip")).arg("--version").output();
        output.is_ok_and(|output| output.status.success())
    }

    /// Returns a number that changes when the environment is made anew.
    fn made(folder: &Path) -> u64 {
        fs::metadata(folder.join("venv/bin/pip")).unwrap().ino()
    }

    #[test]
    fn an_environment_is_made_once_and_anew_after_a_move_and_for_another_python() {
        let root = tempfile::tempdir().unwrap();
        let (old, new) = (root.path().join("old"), root.path().join("new"));
        let folder = BARE.install_below(&old).unwrap();
        assert!(works(&folder));
        let first = made(&folder);
        assert_eq!(BARE.install_below(&old).unwrap(), folder);
        assert_eq!(made(&folder), first, "it was there already");

        fs::rename(&old, &new).unwrap();
        let moved = new.join(folder.file_name().unwrap());
        assert!(!works(&moved), "the test moves what minds being moved");
        assert_eq!(BARE.install_below(&new).unwrap(), moved.canonicalize().unwrap());
        assert!(works(&moved));

        // As if it had been made by a Python that is no longer the one on the PATH.
        let mark = moved.join("venv.done");
        let origin = fs::read_to_string(&mark).unwrap();
        fs::write(&mark, origin.replace(|digit: char| digit.is_ascii_digit(), "0")).unwrap();
        fs::write(moved.join("venv/bin/pip"), "#!/gone/python\n").unwrap();
        BARE.install_below(&new).unwrap();
        assert!(works(&moved));
        assert_eq!(fs::read_to_string(&mark).unwrap(), origin);
    }

    #[test]
    fn a_link_to_the_folder_is_the_same_place() {
        let root = tempfile::tempdir().unwrap();
        let folder = BARE.install_below(&root.path().join("real")).unwrap();
        let first = made(&folder);
        let link = root.path().join("link");
        std::os::unix::fs::symlink(root.path().join("real"), &link).unwrap();
        assert_eq!(BARE.install_below(&link).unwrap(), folder);
        assert_eq!(made(&folder), first);
    }

    #[test]
    fn an_installation_that_failed_is_tried_again_and_tells_why() {
        const WRONG: Packages = Packages { pins: &[("requirements.txt", "--no-such-option\n")], ..BARE };
        let root = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            let error = WRONG.install_below(root.path()).unwrap_err();
            assert!(
                matches!(&error, InstallError::Failed { output, .. } if output.contains("no-such-option")),
                "{error}"
            );
        }
    }

    #[test]
    fn the_target_folder_is_where_this_test_was_built() {
        let target = target_folder().unwrap();
        assert!(std::env::current_exe().unwrap().starts_with(&target));
        assert!(target.join("debug").is_dir() || target.join("release").is_dir(), "{}", target.display());
    }
}

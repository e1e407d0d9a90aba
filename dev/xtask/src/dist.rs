//! Makes a release: static binaries, the image, lists of the components (SBOM), completions and checksums.

mod again;
mod image;
mod sbom;
mod source;
mod sums;

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::docker::Engine;
use crate::run::{output, step, target_folder};
use crate::static_build::{self, HOST, Program, RELAY};
use source::Source;

/// Programs that are released.
const PROGRAMS: [Program; 2] = [RELAY, HOST];
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Arguments of `cargo xtask dist`.
#[derive(Debug, clap::Args)]
pub(crate) struct DistArgs {
    /// Build it again from a clone in another folder, and compare every byte
    #[arg(long, conflicts_with = "allow_dirty")]
    check: bool,
    /// Take the working tree with what is not committed; the folder is then target/dist-dirty
    #[arg(long)]
    allow_dirty: bool,
    /// Leave out the image, which needs a Docker engine
    #[arg(long)]
    without_image: bool,
}

/// Folder that one run works in. What an interrupted run left in it is removed by the next.
struct Workshop {
    folder: PathBuf,
    /// Lock on the folder. The system releases it when this process ends, however it ends.
    _lock: File,
}

impl Workshop {
    fn enter() -> anyhow::Result<Self> {
        let target = target_folder()?;
        let lock = File::create(target.join("dist.lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!("another `cargo xtask dist` works in {}", target.display()),
            Err(TryLockError::Error(error)) => return Err(error).context("the folder cannot be locked"),
        }
        let folder = target.join("dist.work");
        remove(&folder)?;
        fs::create_dir_all(&folder)?;
        Ok(Self { folder, _lock: lock })
    }

    fn create(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.folder.join(name);
        fs::create_dir(&folder)?;
        Ok(folder)
    }
}

/// Writes the release to a folder of its own below the target folder.
pub(crate) fn dist(args: &DistArgs) -> anyhow::Result<()> {
    let source = Source::of_working_tree(args.allow_dirty)?;
    let workshop = Workshop::enter()?;
    // Look for the engine before the build, which takes long.
    let engine = if args.without_image { None } else { Some(Engine::find_or_start()?) };

    let release = workshop.create("release")?;
    for program in PROGRAMS {
        let binary = static_build::build(program)?;
        fs::copy(&binary, release.join(program.name))
            .with_context(|| format!("{} cannot be copied", binary.display()))?;
    }
    completions(&release)?;
    sbom::write(&release, &workshop.create("sources")?, &source)?;
    if let Some(engine) = &engine {
        image::write(engine, &release, &workshop.folder.join("layer.tar"), &source)?;
    }
    sums::write(&release)?;
    if Source::of_working_tree(args.allow_dirty)? != source {
        bail!("the working tree has changed while it was built: run it again");
    }

    let place = target_folder()?.join(if source.is_dirty { "dist-dirty" } else { "dist" });
    remove(&place)?;
    fs::rename(&release, &place)?;
    remove(&workshop.folder)?;
    show(&place)?;
    if args.check { again::check(&place, &source, args.without_image) } else { Ok(()) }
}

/// Writes the completions of each program for each shell, under the names by which the shells find them.
fn completions(release: &Path) -> anyhow::Result<()> {
    let folder = release.join("completions");
    fs::create_dir(&folder)?;
    for Program { name, .. } in PROGRAMS {
        for (shell, file) in
            [("bash", format!("{name}.bash")), ("zsh", format!("_{name}")), ("fish", format!("{name}.fish"))]
        {
            let script = output(Command::new(release.join(name)).args(["completions", shell]))?;
            fs::write(folder.join(file), script + "\n")?;
        }
    }
    Ok(())
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("{} cannot be removed", folder.display()))?;
    }
    Ok(())
}

fn show(place: &Path) -> anyhow::Result<()> {
    step(&format!("The release is in {}", place.display()));
    for file in sums::files(place)? {
        let bytes = fs::metadata(place.join(&file))?.len();
        eprintln!("{:>9} kB  {}", bytes.div_ceil(1000), file.display());
    }
    Ok(())
}

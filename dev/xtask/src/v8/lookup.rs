//! Asks the places that V8 may come from, in their order, until one has a good archive.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use super::archive::{BINDING, Files, PACKED, SUMS};
use super::check::Verdict;
use super::configuration::{Named, is_address};
use super::{download, sha256, shown};
use crate::run;

/// Address of the crate's releases, with the archives.
pub(crate) const UPSTREAM: &str = "https://github.com/denoland/rusty_v8/releases/download";

/// Place that V8 may come from. The places are asked in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Archive or mirror that RUSTY_V8_ARCHIVE or RUSTY_V8_MIRROR name.
    Named,
    /// Mirror of `.cargo/config.toml`.
    Mirror,
    /// Archive that an earlier run downloaded or built.
    Cache,
    Upstream,
    /// Build from the crate's own source.
    Source,
}

/// Archive of V8 and the place that it came from.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) place: Place,
    pub(crate) files: Files,
}

/// Settings and functions of a search.
pub(crate) struct Lookup<'a> {
    pub(crate) version: &'a str,
    /// Archive or mirror that the user named.
    pub(crate) named: Option<&'a Named>,
    /// Mirror of `.cargo/config.toml`.
    pub(crate) mirror: Option<&'a Path>,
    /// Folder that stays, for all versions.
    pub(crate) cache: &'a Path,
    /// Address of the releases.
    pub(crate) upstream: &'a str,
    /// Function that links a program with the files and runs it.
    pub(crate) link: &'a dyn Fn(&Files) -> anyhow::Result<Verdict>,
    /// Function that builds the files from source; its arguments are the version, the cache and the folder to write to.
    pub(crate) build: &'a dyn Fn(&str, &Path, &Path) -> anyhow::Result<()>,
}

/// Answer of a place.
enum Answer {
    Has(Files),
    /// It has no archive, for this reason.
    HasNot(String),
}

impl Lookup<'_> {
    /// Returns the first good archive. Prints on standard error each place that was asked, and why its archive was not
    /// taken.
    ///
    /// # Errors
    /// The archive that the user named cannot be used; or no place has an archive that links, and V8 cannot be built; or the
    /// check of an archive could not be made.
    pub(crate) fn find(&self) -> anyhow::Result<Found> {
        for place in [Place::Named, Place::Mirror, Place::Cache, Place::Upstream, Place::Source] {
            let files = match self.ask(place) {
                Ok(Answer::Has(files)) => files,
                Ok(Answer::HasNot(why)) => {
                    say(place, &why);
                    continue;
                }
                Err(error) => {
                    pass_over(place, &format!("{error:#}"))?;
                    continue;
                }
            };
            let verdict = self.check(&files).with_context(|| {
                format!("it cannot be told whether {} is good; this is tried again next time", shown(&files.archive))
            });
            match verdict? {
                Ok(()) => {
                    say(place, &format!("taken: {}", shown(&files.archive)));
                    return Ok(Found { place, files });
                }
                Err(why) => {
                    self.discard(&files)?;
                    pass_over(place, &why)?;
                }
            }
        }
        bail!("there is no V8")
    }

    fn ask(&self, place: Place) -> anyhow::Result<Answer> {
        let has_not = |why: String| Ok(Answer::HasNot(why));
        match place {
            Place::Named => match self.named {
                None => has_not("neither RUSTY_V8_ARCHIVE nor RUSTY_V8_MIRROR is set".to_owned()),
                Some(named) => self.named_files(named).map(Answer::Has),
            },
            Place::Mirror => {
                let Some(mirror) = self.mirror else { return has_not("none is configured".to_owned()) };
                if !mirror.is_dir() {
                    return has_not(format!("{} is not there", shown(mirror)));
                }
                let files = Files::in_folder(mirror, self.version)?;
                files.map_or_else(
                    || has_not(format!("no {PACKED} in {}", shown(mirror))),
                    |files| Ok(Answer::Has(files)),
                )
            }
            Place::Cache => {
                let folder = self.folder();
                let Some(files) = Files::in_folder(&folder, self.version)? else {
                    return has_not(format!("nothing in {}", shown(&folder)));
                };
                if let Err(damaged) = verify_sums(&folder) {
                    std::fs::remove_dir_all(&folder)?;
                    return Err(damaged);
                }
                Ok(Answer::Has(files))
            }
            Place::Upstream => {
                let base = format!("{}/v{}", self.upstream, self.version);
                self.download(&format!("{base}/{PACKED}"), &format!("{base}/{BINDING}"), &self.folder())
                    .map(Answer::Has)
            }
            Place::Source => {
                let folder = self.folder();
                say(place, "building it here, once");
                in_new_folder(&folder, "built", |folder| (self.build)(self.version, self.cache, folder))?;
                Files::in_folder(&folder, self.version)?.context("the build left no archive").map(Answer::Has)
            }
        }
    }

    /// Returns the folder for what is downloaded or built.
    fn folder(&self) -> PathBuf {
        self.cache.join(self.version)
    }

    fn named_files(&self, named: &Named) -> anyhow::Result<Files> {
        match named {
            Named::Archive(value) if is_address(value) => {
                let binding = value.rsplit_once('/').map_or_else(String::new, |(base, _)| format!("{base}/{BINDING}"));
                self.download(value, &binding, &self.folder_of(value))
            }
            Named::Mirror(value) if is_address(value) => {
                let base = value.trim_end_matches('/');
                let address = |file: &str| match base.contains('{') {
                    true => expand(base, self.version, file),
                    false => format!("{base}/v{}/{file}", self.version),
                };
                self.download(&address(PACKED), &address(BINDING), &self.folder_of(value))
            }
            Named::Mirror(value) if value.contains('{') => {
                let archive = PathBuf::from(expand(value, self.version, PACKED));
                Files::with_binding_beside(archive, self.version)
            }
            Named::Archive(value) | Named::Mirror(value) => {
                let path = Path::new(value);
                if path.is_dir() {
                    let files = Files::in_folder(path, self.version)?;
                    return files.with_context(|| format!("no {PACKED} in {}", path.display()));
                }
                if !path.exists() {
                    bail!("{} is not there", path.display());
                }
                Files::with_binding_beside(path.to_owned(), self.version)
            }
        }
    }

    /// Returns the folder for the files of an address.
    fn folder_of(&self, address: &str) -> PathBuf {
        let readable = address.replace(|other: char| !other.is_ascii_alphanumeric(), "_");
        // The end of an address tells it from others; a file name has at most 255 characters.
        let start = readable.len().saturating_sub(120);
        self.cache.join(format!("{}-{}", self.version, &readable[start..]))
    }

    /// Downloads both files into a folder of the cache. A file that is there already is not requested again.
    fn download(&self, archive: &str, binding: &str, folder: &Path) -> anyhow::Result<Files> {
        if let Some(files) = Files::in_folder(folder, self.version)?
            && verify_sums(folder).is_ok()
        {
            return Ok(files);
        }
        eprintln!("    asking {archive}");
        in_new_folder(folder, "part", |folder| {
            download::get(archive, &folder.join(PACKED))?;
            // Without bindings beside the archive, the crate's own are used; linking shows whether they fit.
            if let Err(error) = download::get(binding, &folder.join(BINDING)) {
                eprintln!("    no bindings beside it ({error:#}): those of the crate are taken");
            }
            Ok(())
        })?;
        Files::in_folder(folder, self.version)?.context("the download left no archive")
    }

    /// Checks the files. The verdict is kept and used again as long as their bytes are the same.
    fn check(&self, files: &Files) -> anyhow::Result<Verdict> {
        let folder = self.cache.join("checked");
        let sums =
            [sha256(&files.archive)?, sha256(&files.binding)?].map(|sum| sum.chars().take(16).collect::<String>());
        let record = folder.join(format!("{}-{}", self.version, sums.join("-")));
        if let Ok(said) = std::fs::read_to_string(&record) {
            return Ok(if said == GOOD { Ok(()) } else { Err(said) });
        }
        let verdict = match files.are_whole(self.version)? {
            Ok(()) => (self.link)(files)?,
            bad => bad,
        };
        std::fs::create_dir_all(&folder)?;
        std::fs::write(&record, verdict.as_ref().map_or_else(String::as_str, |()| GOOD))
            .with_context(|| format!("{} cannot be written", record.display()))?;
        Ok(verdict)
    }

    /// Removes a bad archive of the cache, so that the next run does not find it again.
    fn discard(&self, files: &Files) -> anyhow::Result<()> {
        match files.archive.parent() {
            Some(folder) if folder.parent() == Some(self.cache) => std::fs::remove_dir_all(folder)
                .with_context(|| format!("{} is of no use, and cannot be removed", folder.display())),
            _ => Ok(()),
        }
    }
}

/// Content of the record of good files. Other records contain what is wrong.
const GOOD: &str = "good";

/// Prints why a place was passed over.
///
/// # Errors
/// No other place may be used instead of this one.
fn pass_over(place: Place, why: &str) -> anyhow::Result<()> {
    match place {
        // A user who names an archive wants no other.
        Place::Named => bail!("the V8 that you named cannot be used; correct the variable, or unset it: {why}"),
        Place::Source => bail!("{why}"),
        Place::Mirror | Place::Cache | Place::Upstream => say(place, &format!("not taken: {why}")),
    }
    Ok(())
}

fn say(place: Place, what: &str) {
    let name = match place {
        Place::Named => "your own",
        Place::Mirror => "mirror in .cargo/config.toml",
        Place::Cache => "cache",
        Place::Upstream => "upstream",
        Place::Source => "from source",
    };
    eprintln!("    {name:<28}  {what}");
}

/// Fills in the crate's placeholders in the address of a mirror.
fn expand(template: &str, version: &str, file: &str) -> String {
    let tag = format!("v{version}");
    [("{tag}", tag.as_str()), ("{version}", version), ("{target}", super::archive::TARGET), ("{profile}", "release")]
        .into_iter()
        .chain([("{features}", ""), ("{file}", file)])
        .fold(template.to_owned(), |text, (placeholder, value)| text.replace(placeholder, value))
}

/// Fills a folder which is only there when it is complete: an interrupted run leaves a folder with this suffix instead,
/// which a later run can continue with.
fn in_new_folder(folder: &Path, suffix: &str, fill: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut part = folder.as_os_str().to_owned();
    part.push(".");
    part.push(suffix);
    let part = PathBuf::from(part);
    std::fs::create_dir_all(&part)?;
    fill(&part)?;
    write_sums(&part)?;
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::rename(&part, folder).with_context(|| format!("{} cannot be made", folder.display()))
}

fn write_sums(folder: &Path) -> anyhow::Result<()> {
    let mut sums = std::process::Command::new("sha256sum");
    sums.current_dir(folder).args([PACKED, BINDING].iter().filter(|name| folder.join(name).is_file()));
    std::fs::write(folder.join(SUMS), format!("{}\n", run::output(&mut sums)?))?;
    Ok(())
}

fn verify_sums(folder: &Path) -> anyhow::Result<()> {
    let mut sums = std::process::Command::new("sha256sum");
    let checked =
        sums.current_dir(folder).args([OsStr::new("--check"), "--status".as_ref(), SUMS.as_ref()]).output()?;
    if !checked.status.success() {
        bail!("{} is damaged: its files are not those of its {SUMS}", shown(folder));
    }
    Ok(())
}

#[cfg(test)]
#[path = "lookup_tests.rs"]
mod tests;

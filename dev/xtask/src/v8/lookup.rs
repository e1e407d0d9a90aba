//! The places that V8 may come from, asked in their order until one has a good archive.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use super::archive::{BINDING, Files, PACKED, SUMS};
use super::check::Verdict;
use super::configuration::{Named, is_address};
use super::{download, sha256, shown};
use crate::run;

/// Where the authors of the crate publish the archives of its releases.
pub(crate) const UPSTREAM: &str = "https://github.com/denoland/rusty_v8/releases/download";

/// A place that V8 may come from, in the order in which they are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// What RUSTY_V8_ARCHIVE or RUSTY_V8_MIRROR name.
    Named,
    /// The mirror of `.cargo/config.toml`.
    Mirror,
    /// What an earlier run got or built.
    Cache,
    Upstream,
    /// A build from the crate's own source.
    Source,
}

/// V8, and where it came from.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) place: Place,
    pub(crate) files: Files,
}

/// Where to look, and what to do with what is found.
pub(crate) struct Lookup<'a> {
    pub(crate) version: &'a str,
    /// What the user named.
    pub(crate) named: Option<&'a Named>,
    /// The mirror of `.cargo/config.toml`.
    pub(crate) mirror: Option<&'a Path>,
    /// A folder that stays, for all versions.
    pub(crate) cache: &'a Path,
    /// The address of the releases.
    pub(crate) upstream: &'a str,
    /// Links a program with the files and runs it.
    pub(crate) link: &'a dyn Fn(&Files) -> anyhow::Result<Verdict>,
    /// Builds the files in a folder, from source: version, cache, folder.
    pub(crate) build: &'a dyn Fn(&str, &Path, &Path) -> anyhow::Result<()>,
}

/// What a place says when asked.
enum Answer {
    Has(Files),
    /// Nothing there, and why.
    HasNot(String),
}

impl Lookup<'_> {
    /// The first good archive. What was looked at is said on standard error, with why it was not taken.
    ///
    /// # Errors
    /// What the user named cannot be used; or it cannot be told whether an archive is good, which says nothing against it;
    /// or no place has V8 and it cannot be built.
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

    /// Where what is downloaded or built stays.
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

    /// A folder for what an address gives.
    fn folder_of(&self, address: &str) -> PathBuf {
        let readable = address.replace(|other: char| !other.is_ascii_alphanumeric(), "_");
        // The end tells addresses apart, and a file name has at most 255 characters.
        let start = readable.len().saturating_sub(120);
        self.cache.join(format!("{}-{}", self.version, &readable[start..]))
    }

    /// Gets both files into a folder of the cache. What is there already is not asked for again.
    fn download(&self, archive: &str, binding: &str, folder: &Path) -> anyhow::Result<Files> {
        if let Some(files) = Files::in_folder(folder, self.version)?
            && verify_sums(folder).is_ok()
        {
            return Ok(files);
        }
        eprintln!("    asking {archive}");
        in_new_folder(folder, "part", |folder| {
            download::get(archive, &folder.join(PACKED))?;
            // An archive without bindings beside it goes with those of the crate; whether it does is seen when it is linked.
            if let Err(error) = download::get(binding, &folder.join(BINDING)) {
                eprintln!("    no bindings beside it ({error:#}): those of the crate are taken");
            }
            Ok(())
        })?;
        Files::in_folder(folder, self.version)?.context("the download left no archive")
    }

    /// Whether the files are good. What was said of them once holds so long as their bytes are the same.
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

    /// Removes what is of no use, if it is ours, so that the next run does not find it again.
    fn discard(&self, files: &Files) -> anyhow::Result<()> {
        match files.archive.parent() {
            Some(folder) if folder.parent() == Some(self.cache) => std::fs::remove_dir_all(folder)
                .with_context(|| format!("{} is of no use, and cannot be removed", folder.display())),
            _ => Ok(()),
        }
    }
}

/// What stands in the record of good files; in that of others stands what is wrong with them.
const GOOD: &str = "good";

/// Goes on to the next place, where there is one that may do instead.
fn pass_over(place: Place, why: &str) -> anyhow::Result<()> {
    match place {
        // Who names an archive wants that one, and no other.
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

/// A mirror's address with the crate's placeholders filled in.
fn expand(template: &str, version: &str, file: &str) -> String {
    let tag = format!("v{version}");
    [("{tag}", tag.as_str()), ("{version}", version), ("{target}", super::archive::TARGET), ("{profile}", "release")]
        .into_iter()
        .chain([("{features}", ""), ("{file}", file)])
        .fold(template.to_owned(), |text, (placeholder, value)| text.replace(placeholder, value))
}

/// Fills a folder that is there only when it is full. An interrupted run leaves another one, with a suffix that is the same for
/// all who can go on with it.
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

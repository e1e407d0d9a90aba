//! The data that the tasks are about, the same in every run: a repository with history, folders of files, a database, a
//! knowledge graph. And the right answers, known from how the data was made and from no tool.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;
use tempfile::TempDir;

use crate::scene_files;
use crate::scene_git;
use crate::servers::Installed;
use crate::task::Task;

/// A folder with everything in it, which is removed at the end.
#[derive(Debug)]
pub struct Scene {
    _folder: TempDir,
    root: PathBuf,
    answers: Answers,
    /// The knowledge graph as it is before a task.
    graph: String,
}

/// The right answers by the names of the tasks.
pub(crate) type Answers = BTreeMap<&'static str, Value>;

/// Numbers that look random and are the same in every run.
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Scene {
    /// Makes the data.
    ///
    /// # Errors
    /// A file cannot be written, or git or Python fails.
    pub fn new(installed: &Installed) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("relay-study-").tempdir()?;
        let root = folder.path().canonicalize()?;
        let mut answers = Answers::new();
        let mut maker = Maker { root: &root, answers: &mut answers };
        scene_git::make(&mut maker)?;
        let graph = scene_files::make(&mut maker, &installed.python())?;
        Ok(Self { _folder: folder, root, answers, graph })
    }

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The right answer.
    ///
    /// # Errors
    /// There is none for this task.
    pub fn answer(&self, task: &Task) -> anyhow::Result<&Value> {
        self.answers.get(task.name).with_context(|| format!("nobody knows the answer to {}", task.name))
    }

    /// Takes back what tasks may have done.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn reset(&self) -> anyhow::Result<()> {
        fs::write(self.root.join("memory.jsonl"), &self.graph)?;
        let out = self.root.join("out");
        if out.exists() {
            fs::remove_dir_all(&out)?;
        }
        fs::create_dir(out)?;
        Ok(())
    }

    /// Returns the file that a task left.
    ///
    /// # Errors
    /// It left nothing.
    pub fn left(&self, file: &str) -> anyhow::Result<String> {
        fs::read_to_string(self.root.join(file)).with_context(|| format!("{file} was not written"))
    }
}

/// Function that makes data.
pub(crate) struct Maker<'a> {
    pub(crate) root: &'a Path,
    answers: &'a mut Answers,
}

impl Maker<'_> {
    /// Writes a file below the root.
    pub(crate) fn write(&self, path: &str, text: &str) -> anyhow::Result<()> {
        let path = self.root.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(path, text)?;
        Ok(())
    }

    /// Notes a right answer.
    pub(crate) fn answer(&mut self, task: &'static str, answer: Value) {
        self.answers.insert(task, answer);
    }
}

impl Dice {
    /// Dice of their own for each kind of data, so that none changes another.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `sides`.
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        // Xorshift: good enough for made-up data.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    /// One of these.
    pub(crate) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        let index = usize::try_from(self.roll(from.len() as u64)).unwrap_or_default();
        from[index]
    }
}

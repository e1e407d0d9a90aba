//! Doing tasks in both ways over the same servers and the same data, and holding the answers against the right one.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use host_client::{Host, LocalRelay, McpServers, Policy, Tools};
use serde::Serialize;
use serde_json::{Value, json};

use crate::agent::{Call, Conclusion, Failure, Model, Toolbox, converse};
use crate::measure::Meter;
use crate::scene::Scene;
use crate::scripted::{Pace, Scripted};
use crate::servers::Installed;
use crate::slips::{Recorder, SLIPS, SlipRuns};
use crate::task::Task;
use crate::ways::{ByProgram, ToolByTool};

/// Instructions for the model, in both ways.
const SYSTEM: &str = "You answer questions with the help of tools. Call tools that do not depend on each other in one \
    turn. When you know the answer, give it as JSON and nothing else.";

/// Everything that tasks need: data, servers, a relay.
#[derive(Debug)]
pub struct Study {
    scene: Scene,
    by_tools: ToolByTool,
    by_program: ByProgram,
    servers: McpServers,
    _relay: LocalRelay,
}

/// One task, done in all ways.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// The task's name.
    pub task: &'static str,
    /// Its kind, as in [`Kind::as_str`](crate::task::Kind::as_str).
    pub kind: &'static str,
    /// Number of tokens of the definitions of those servers that the task takes.
    pub needed_definition_tokens: u64,
    /// Tool by tool, one call in each turn.
    pub one_by_one: Meter,
    /// Tool by tool, with calls that do not depend on each other in one turn.
    pub together: Meter,
    /// By programs.
    pub programs: Meter,
}

/// One task, done by one model in one way.
#[derive(Debug)]
pub struct Attempt {
    /// Reason why the answer does not count; `None`: it counts.
    pub mistake: Option<Mistake>,
    /// Counts of what it took.
    pub meter: Meter,
}

/// Reason why an answer does not count.
#[derive(Debug, thiserror::Error)]
pub enum Mistake {
    /// There is none.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// It is not the right one.
    #[error("the answer is {answer}, and {right} is right")]
    Wrong {
        /// The model's answer.
        answer: Value,
        /// The right answer.
        right: Value,
    },
}

/// The twenty tasks.
pub fn tasks() -> Vec<Task> {
    crate::tasks::all()
}

impl Study {
    /// Installs the servers below a folder if they are not there yet, makes the data, and starts all of it.
    ///
    /// # Errors
    /// Something that it needs cannot be reached, made or started.
    pub async fn start(servers_below: &Path) -> anyhow::Result<Self> {
        let installed = Installed::below(servers_below)?;
        let scene = Scene::new(&installed)?;
        scene.reset()?;
        let tools = Tools::new();
        let servers = installed.start(&scene, &tools).await?;
        let relay = LocalRelay::start().await?;
        // Everything may run: approvals are not what is studied.
        let host = Arc::new(Host::new(tools).policy(Policy::new().allow(["*"])));
        let by_tools = ToolByTool::new(Arc::clone(&host), scene.root());
        let by_program = ByProgram::new(host, relay.client_config().await?, scene.root()).await?;
        // The first one connects, which happens once in a session.
        by_program.call(&Call::new("execute_code", json!({"code": "1"}))).await;
        Ok(Self { scene, by_tools, by_program, servers, _relay: relay })
    }

    /// Does a task in all ways, with the scripts written by hand.
    ///
    /// # Errors
    /// An answer is wrong, or what a task leaves is not the same after all of them.
    pub async fn compare(&self, task: &Task) -> anyhow::Result<Comparison> {
        let mut slow = Scripted::new(task.by_tools, Pace::OneByOne);
        let (one_by_one, left) = self.attempt_right(task, &mut slow, &self.by_tools).await.context("one by one")?;
        let mut fast = Scripted::new(task.by_tools, Pace::Together);
        let (together, same) = self.attempt_right(task, &mut fast, &self.by_tools).await.context("together")?;
        ensure!(left == same, "what is left differs:\n{left:?}\n{same:?}");
        let mut author = Scripted::new(task.by_programs, Pace::Together);
        let (programs, same) = self.attempt_right(task, &mut author, &self.by_program).await.context("by programs")?;
        ensure!(left == same, "what is left differs:\n{left:?}\n{same:?}");
        let needed = self.by_tools.only(task.servers);
        let needed_definition_tokens = needed.definitions().iter().map(|definition| definition.tokens).sum();
        let kind = task.kind.as_str();
        Ok(Comparison { task: task.name, kind, needed_definition_tokens, one_by_one, together, programs })
    }

    async fn attempt_right(
        &self,
        task: &Task,
        model: &mut dyn Model,
        toolbox: &dyn Toolbox,
    ) -> anyhow::Result<(Meter, Option<String>)> {
        let Attempt { mistake, meter } = self.attempt(task, model, toolbox).await?;
        if let Some(mistake) = mistake {
            return Err(mistake.into());
        }
        Ok((meter, task.leaves.map(|file| self.scene.left(file)).transpose()?))
    }

    /// Lets any model do a task: tool by tool or by programs, as the toolbox is.
    ///
    /// # Errors
    /// The scene cannot be put in order.
    pub async fn attempt(&self, task: &Task, model: &mut dyn Model, toolbox: &dyn Toolbox) -> anyhow::Result<Attempt> {
        self.scene.reset()?;
        let Conclusion { answer, meter } = converse(model, toolbox, SYSTEM, task.question).await;
        let right = self.scene.answer(task)?;
        let mistake = match answer {
            Ok(answer) if answer == *right => None,
            Ok(answer) => Some(Mistake::Wrong { answer, right: right.clone() }),
            Err(failure) => Some(failure.into()),
        };
        Ok(Attempt { mistake, meter })
    }

    /// Runs the programs of tasks with slips in them, one slip in each run.
    ///
    /// # Errors
    /// The scene cannot be put in order.
    pub async fn slips(&self, tasks: &[Task]) -> anyhow::Result<Vec<SlipRuns>> {
        let mut counts: Vec<_> = SLIPS.into_iter().map(|slip| (slip, SlipRuns::new(slip))).collect();
        for task in tasks {
            let recorder = Recorder::new(&self.by_program);
            self.attempt(task, &mut Scripted::new(task.by_programs, Pace::Together), &recorder).await?;
            for code in recorder.into_codes() {
                for (slip, runs) in &mut counts {
                    let Some(code) = slip.put_into(&code, task.servers) else { continue };
                    self.scene.reset()?;
                    let seen = self.by_program.call(&Call::new("execute_code", json!({"code": code}))).await;
                    runs.count(seen.run);
                }
            }
        }
        Ok(counts.into_iter().map(|(_, runs)| runs).collect())
    }

    /// Returns the toolbox of a model that works tool by tool.
    pub fn by_tools(&self) -> &ToolByTool {
        &self.by_tools
    }

    /// Returns the toolbox of a model that writes programs.
    pub fn by_program(&self) -> &ByProgram {
        &self.by_program
    }

    /// Lets the servers end in peace.
    pub async fn close(self) {
        self.servers.close().await;
    }
}

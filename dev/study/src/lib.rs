//! The same tasks over real MCP servers, done in two ways: one tool call after another, and by programs that a relay
//! runs. Measured is what passes through the model's context.
//!
//! Where the study has to choose, it chooses for tool by tool. What its scripts think costs nothing, and they never miscount;
//! they read many files in one call where a tool can. Programs pay, where no schema says what a result looks like, for a first
//! program that looks at a small one.
//!
//! The map, in the order of one task done in one way:
//! - [`task`]: what is asked; `tasks`: the twenty of them, each with both ways of doing it
//! - [`agent`]: the loop of a model and its tools, whatever the model and the tools; **a real model plugs in here**
//! - `scripted`: a model that follows a script written by hand; [`command`]: one that a program of the user asks
//! - [`ways`]: what the model has: all tools of all servers, or `execute_code`
//! - [`scene`]: the data that the tasks are about, and the right answers; `scene_files`, `scene_git`: how it is made up
//! - [`servers`]: the MCP servers: installed, started
//! - [`measure`]: bytes, tokens and times of one conversation
//! - [`slips`]: the programs of the tasks with slips in them, and the runs that the check saves
//! - [`study`]: all of it together; [`report`]: the tables

pub mod agent;
pub mod command;
pub mod measure;
pub mod report;
pub mod scene;
mod scene_files;
mod scene_git;
mod scripted;
pub mod servers;
pub mod slips;
pub mod study;
pub mod task;
mod tasks;
pub mod ways;

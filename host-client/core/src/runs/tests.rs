//! What relays send of executions that are over.

use std::sync::Arc;

use relay_proto::{TraceContext, wire};

use super::calls::RunAttempt;
use super::plan::RunPlan;
use super::prepare::{Here, prepare};
use super::{RunOptions, Runs};
use crate::call::run::DurableRun as _;
use crate::client::{Check, Client, ExecuteRequest, LazyClient};
use crate::durable::entry::Attempt;
use crate::durable::journal::RunId;
use crate::durable::record::RunRecord;
use crate::error::Error;
use crate::event::Event;
use crate::host::Host;
use crate::outcome::{OutputItem, OutputKind};
use crate::tools::Tools;

#[tokio::test]
async fn messages_of_an_execution_that_is_over_change_nothing() {
    let client = LazyClient::new(Host::new(Tools::new()), |_| std::future::pending::<Result<Client, Error>>());
    let runs = Runs::in_memory(client.clone(), RunOptions::default());
    let (id, request) = (RunId::random(), ExecuteRequest::new("return 1"));
    let plan = RunPlan::new(&request, &RunOptions::default(), (TraceContext::NONE, &[]), |_| 1);
    let record = RunRecord::read(&id, &plan.to_json().unwrap(), &[]).unwrap();
    let conversation = client.conversation();
    let here = Here { client, approver: None, check: Check::Off, conversation, span: tracing::Span::none() };
    let (run, drive) = prepare(&runs.holder, &id, plan, record, here).unwrap();
    let (calls, mut events) = (Arc::clone(&drive.calls), run.events());
    let attempt = || {
        let begun = calls.begin_attempt(Attempt { relay: "a relay".into(), build: "a build".into() }, false);
        Arc::new(RunAttempt { calls: Arc::clone(&calls), number: begun.0 })
    };
    let (old, new) = (attempt(), attempt());
    let item = |text: &str| OutputItem { kind: OutputKind::Emit, text: text.into() };
    let begun = || wire::Begun { tools: vec!["a.tool".into()], ..wire::Begun::default() };

    old.output(&[item("old")], &[], Vec::new());
    old.begun(begun());
    old.waits(wire::Waiting::default());
    assert!(calls.read(|record| record.told == 0 && record.begun.is_none()));
    assert!(calls.changes.borrow().waits.is_none());

    new.output(&[item("new")], &[], Vec::new());
    new.begun(begun());
    new.waits(wire::Waiting::default());
    assert!(calls.read(|record| record.told == 1 && record.begun.is_some()));
    assert!(calls.changes.borrow().waits.is_some());
    let Some(Event::Output(told)) = events.next().await else { panic!("nothing was told") };
    assert_eq!(told.text, "new");
}

//! A session that goes on after its connection was lost.

use std::sync::atomic::Ordering;
use std::time::Duration;

use host_client_core::{ClientConfig, ConnectionState, ErrorCode, Event, ExecuteRequest, Execution, SessionLoss};
use relay_proto::wire;
use relay_proto::wire::message::Payload;
use relay_test_support::within;

use crate::relay::{Counted, Link, Relay, call, counted, ended};

fn request() -> ExecuteRequest {
    ExecuteRequest::new("the code").always_in_sandbox()
}

async fn seven(execution: Execution) {
    assert_eq!(within(execution).await.unwrap().value().unwrap(), 7);
}

/// The point of a call's way at which its connection is cut.
#[derive(Debug, Clone, Copy)]
enum Cut {
    /// The relay has not sent the call.
    BeforeCall,
    /// The relay has sent the call, and the host did not get it.
    CallLost,
    /// The host got the call, and the relay did not get the answer.
    AnswerLost,
    /// The relay got the answer.
    AfterAnswer,
}

#[tokio::test]
async fn a_run_that_is_cut_at_every_message_makes_each_call_once() {
    for cut in [Cut::BeforeCall, Cut::CallLost, Cut::AnswerLost, Cut::AfterAnswer] {
        let (mut relay, Counted { host, ran }) = (Relay::start().await, counted());
        let (client, mut link) = relay.connect(host).await;
        let execution = client.execute(request()).await.unwrap();
        let id = relay.execution(&mut link).await;
        for number in 1..=20 {
            if matches!(cut, Cut::BeforeCall) {
                drop(link);
                link = relay.resume().await;
            }
            if matches!(cut, Cut::CallLost) {
                relay.keep(call(number, &id, "a.count"));
                drop(link);
                link = relay.resume().await;
            } else {
                relay.call(&mut link, number, &id, "a.count").await;
            }
            if matches!(cut, Cut::AnswerLost) {
                // It is read from the socket, and not handed over.
                let lost = link.message().await.unwrap();
                assert_eq!(lost.sequence, relay.received + 1);
                drop(link);
                link = relay.resume().await;
            }
            let result = relay.result(&mut link).await;
            assert_eq!((result.id, &result.result[..]), (number.to_string(), number.to_string().as_bytes()), "{cut:?}");
            if matches!(cut, Cut::AfterAnswer) {
                drop(link);
                link = relay.resume().await;
            }
        }
        relay.end(&mut link, &id).await;
        seven(execution).await;
        assert_eq!(ran.load(Ordering::SeqCst), 20, "{cut:?}");
    }
}

#[tokio::test]
async fn a_host_that_got_nothing_but_welcome_resumes() {
    let mut relay = Relay::start().await;
    let (client, link) = relay.connect(counted().host).await;
    drop(link);
    let mut link = relay.resume().await;
    let (execution, id) = tokio::join!(client.execute(request()), relay.execution(&mut link));
    relay.end(&mut link, &id).await;
    seven(execution.unwrap()).await;
}

#[tokio::test]
async fn a_lost_answer_to_resume_locks_nobody_out() {
    let mut relay = Relay::start().await;
    let (client, link) = relay.connect(counted().host).await;
    drop(link);
    for _ in 0..3 {
        // The relay's answer is lost with its connection: the pair before is shown again.
        let (_link, resume) = relay.asked().await;
        assert_eq!((resume.epoch, resume.received), (1, 1));
    }
    let mut link = relay.resume().await;
    let (execution, id) = tokio::join!(client.execute(request()), relay.execution(&mut link));
    relay.end(&mut link, &id).await;
    seven(execution.unwrap()).await;
}

#[tokio::test]
async fn the_application_sees_the_loss_and_the_return_of_the_connection() {
    let mut relay = Relay::start().await;
    let (client, mut link) = relay.connect(counted().host).await;
    let (execution, mut events) = client.execute(request()).await.unwrap().with_events();
    let id = relay.execution(&mut link).await;
    assert_eq!(client.state(), ConnectionState::Connected);
    assert_eq!(client.resume_window(), Duration::from_secs(60));
    let mut changes = client.state_changes();
    drop(link);
    let (link, _resume) = relay.asked().await;
    assert!(matches!(client.state(), ConnectionState::Reconnecting { .. }));
    assert!(matches!(within(changes.next()).await, Some(ConnectionState::Reconnecting { .. })));
    drop(link);
    let mut link = relay.resume().await;
    assert_eq!(within(changes.next()).await, Some(ConnectionState::Connected));
    relay.end(&mut link, &id).await;
    seven(execution).await;
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Event::Disconnected { reason } => {
                assert!(reason.contains("the connection to the relay was lost"), "{reason}");
                seen.push("lost");
            }
            Event::Resumed { .. } => seen.push("resumed"),
            _ => {}
        }
    }
    assert_eq!(seen, ["lost", "resumed"]);
    drop(client);
    assert_eq!(within(changes.next()).await, None);
}

#[tokio::test]
async fn an_execution_that_begins_while_there_is_no_connection_waits_for_it() {
    let mut relay = Relay::start().await;
    let (client, link) = relay.connect(counted().host).await;
    let mut changes = client.state_changes();
    drop(link);
    assert!(matches!(within(changes.next()).await, Some(ConnectionState::Reconnecting { .. })));
    let begin = client.execute(request());
    let serve = async {
        let mut link = relay.resume().await;
        let id = relay.execution(&mut link).await;
        relay.end(&mut link, &id).await;
        link
    };
    let (execution, _link) = tokio::join!(begin, serve);
    seven(execution.unwrap()).await;
}

#[tokio::test]
async fn an_execution_that_waited_in_vain_was_not_begun_and_may_be_repeated() {
    let mut relay = Relay::start().await;
    let config = ClientConfig { resume: Some(Duration::from_millis(300)), ..relay.config() };
    let (client, link) = relay.connect_with(counted().host, config, |_| {}).await;
    let mut changes = client.state_changes();
    drop(link);
    assert!(matches!(within(changes.next()).await, Some(ConnectionState::Reconnecting { .. })));
    drop(relay);
    let error = within(client.execute(request())).await.unwrap_err();
    assert!(error.is_retryable() && error.to_string().contains("nothing was run"), "{error}");
    assert_eq!(error.error_code(), Some(ErrorCode::SessionLost));
    let ConnectionState::Lost { loss, .. } = client.state() else { panic!("{:?}", client.state()) };
    assert_eq!(loss, Some(SessionLoss::Expired));
    assert!(client.is_over());
}

#[tokio::test]
async fn an_execution_that_ran_when_the_window_ended_is_lost_and_may_not_be_repeated() {
    let mut relay = Relay::start().await;
    let config = ClientConfig { resume: Some(Duration::from_millis(200)), ..relay.config() };
    let (client, mut link) = relay.connect_with(counted().host, config, |_| {}).await;
    let execution = client.execute(request()).await.unwrap();
    let id = relay.execution(&mut link).await;
    relay.call(&mut link, 1, &id, "a.count").await;
    relay.result(&mut link).await;
    drop((link, relay));
    let error = within(execution).await.unwrap_err();
    assert_eq!(error.error_code(), Some(ErrorCode::SessionLost));
    assert!(!error.is_retryable(), "{error}");
}

#[tokio::test]
async fn the_relays_window_holds_where_it_is_the_shorter_one() {
    let mut relay = Relay::start().await;
    let config = relay.config();
    let (client, link) = relay.connect_with(counted().host, config, |it| it.resume_window_ms = 100).await;
    assert_eq!(client.resume_window(), Duration::from_millis(100));
    let mut changes = client.state_changes();
    drop((link, relay));
    assert!(matches!(within(changes.next()).await, Some(ConnectionState::Reconnecting { .. })));
    let Some(ConnectionState::Lost { loss, .. }) = within(changes.next()).await else { panic!("not lost") };
    assert_eq!(loss, Some(SessionLoss::Expired));
    assert_eq!(changes.next().await, None);
}

#[tokio::test]
async fn a_session_that_cannot_be_resumed_ends_with_its_connection() {
    for is_hosts_choice in [true, false] {
        let mut relay = Relay::start().await;
        let resume = (!is_hosts_choice).then_some(Duration::from_secs(60));
        let config = ClientConfig { resume, ..relay.config() };
        let change = |welcome: &mut wire::Welcome| {
            if !is_hosts_choice {
                welcome.features.clear();
            }
        };
        let (client, mut link) = relay.connect_with(counted().host, config, change).await;
        let execution = client.execute(request()).await.unwrap();
        let id = relay.execution(&mut link).await;
        // More than a host would leave without an acknowledgement of its own, and none comes.
        for _ in 0..100 {
            relay.send(&mut link, Payload::Pong(wire::Pong::default())).await;
        }
        relay.call(&mut link, 1, &id, "a.count").await;
        let answer = link.message().await.unwrap();
        assert!(matches!(answer.payload, Some(Payload::ToolResult(_))), "{answer:?}");
        let mut changes = client.state_changes();
        drop(link);
        assert!(matches!(within(changes.next()).await, Some(ConnectionState::Lost { loss: None, .. })));
        assert_eq!(within(execution).await.unwrap_err().error_code(), Some(ErrorCode::SessionLost));
    }
}

#[tokio::test]
async fn what_came_is_acknowledged_after_64_messages_after_256_kib_and_after_a_second() {
    let mut relay = Relay::start().await;
    let (client, mut link) = relay.connect(counted().host).await;
    let execution = client.execute(request()).await.unwrap();
    let id = relay.execution(&mut link).await;
    let bare = |message: Option<wire::Message>| {
        let message = message.unwrap();
        assert_eq!((message.sequence, &message.payload), (0, &None));
        message.acknowledged
    };
    for _ in 0..64 {
        relay.send(&mut link, Payload::Pong(wire::Pong::default())).await;
    }
    assert_eq!(bare(link.message().await), 65);
    let text = "x".repeat(300 << 10);
    let items = vec![wire::OutputItem { kind: wire::OutputKind::Log.into(), text }];
    relay
        .send(&mut link, Payload::Output(wire::Output { execution_id: id.clone(), items, ..Default::default() }))
        .await;
    assert_eq!(bare(link.message().await), 66);
    let since = std::time::Instant::now();
    relay.send(&mut link, Payload::Pong(wire::Pong::default())).await;
    assert_eq!(bare(link.message().await), 67);
    assert!(since.elapsed() > Duration::from_millis(500), "it waits for others first");
    relay.end(&mut link, &id).await;
    seven(execution).await;
}

#[tokio::test]
async fn answers_that_are_not_acknowledged_hold_up_later_ones_and_no_other_work() {
    let (mut relay, Counted { host, ran }) = (Relay::start().await, counted());
    let (client, mut link) = relay.connect(host).await;
    let execution = client.execute(request()).await.unwrap();
    let id = relay.execution(&mut link).await;
    // This relay acknowledges nothing.
    let call = |number, tool| wire::Message { sequence: number + 1, ..call(number, &id, tool).into() };
    for number in 1..=5 {
        link.write(&call(number, "a.large")).await;
    }
    let mut answers = Vec::new();
    while answers.len() < 3 {
        answers.extend(link.message().await.filter(|message| message.payload.is_some()));
    }
    // The fourth has no room: 16 MiB are less than four times 4 MiB and their quotes. A tool runs nevertheless.
    link.write(&call(6, "a.count")).await;
    while ran.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let last = answers.last().unwrap().sequence;
    link.write(&wire::Message { acknowledged: last, ..wire::Message::default() }).await;
    let mut ids = Vec::new();
    while ids.len() < 3 {
        let Some(message) = link.message().await else { panic!("it closed") };
        if let Some(Payload::ToolResult(result)) = message.payload {
            assert!(message.sequence > last);
            ids.push(result.id);
        }
    }
    ids.sort();
    assert_eq!(ids, ["4", "5", "6"]);
    drop(execution);
}

#[tokio::test]
async fn a_cancellation_without_a_connection_reaches_the_relay_afterwards() {
    let mut relay = Relay::start().await;
    let (client, mut link) = relay.connect(counted().host).await;
    let execution = client.execute(request()).await.unwrap();
    let id = relay.execution(&mut link).await;
    let mut changes = client.state_changes();
    drop(link);
    assert!(matches!(within(changes.next()).await, Some(ConnectionState::Reconnecting { .. })));
    drop(execution);
    let mut link = relay.resume().await;
    match relay.next(&mut link).await {
        Some(Payload::Cancel(cancel)) => assert_eq!(cancel.execution_id, id),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_end_of_the_client_closes_so_that_the_relay_ends_the_session_at_once() {
    let mut relay = Relay::start().await;
    let (client, mut link) = relay.connect(counted().host).await;
    drop(client);
    assert_eq!(link.close_code().await, Some(1_000));

    // While it has no connection, it stops trying.
    let mut relay = Relay::start().await;
    let (client, link) = relay.connect(counted().host).await;
    let mut changes = client.state_changes();
    drop(link);
    let (mut link, _resume) = relay.asked().await;
    drop(client);
    assert!(matches!(within(changes.next()).await, Some(ConnectionState::Reconnecting { .. })));
    assert_eq!(within(changes.next()).await, None);
    assert_eq!(link.close_code().await, None);
}

#[tokio::test]
async fn a_silent_connection_counts_as_lost() {
    let mut relay = Relay::start().await;
    let config = ClientConfig { heartbeat: Duration::from_millis(20), ..relay.config() };
    let (client, link) = relay.connect_with(counted().host, config, |_| {}).await;
    // Nobody reads or writes at this end, and it stays open.
    let silent = link;
    let mut link = relay.resume().await;
    let (execution, id) = tokio::join!(client.execute(request()), relay.execution(&mut link));
    relay.end(&mut link, &id).await;
    seven(execution.unwrap()).await;
    drop::<Link>(silent);
}

#[tokio::test]
async fn a_relay_that_shuts_down_says_so_and_its_end_is_no_riddle() {
    let mut relay = Relay::start().await;
    let (client, mut link) = relay.connect(counted().host).await;
    let execution = client.execute(request()).await.unwrap();
    let id = relay.execution(&mut link).await;
    let mut changes = client.state_changes();
    relay.send(&mut link, Payload::GoAway(wire::GoAway { deadline_ms: 8_000, reason: "restart".into() })).await;
    // What runs goes on.
    relay.call(&mut link, 1, &id, "a.count").await;
    assert!(relay.result(&mut link).await.success);
    assert!(client.is_draining() && !client.is_over());
    relay.send(&mut link, ended(&id)).await;
    seven(execution).await;
    link.close(1_001).await;
    let Some(ConnectionState::Lost { loss, .. }) = within(changes.next()).await else { panic!("not lost") };
    assert_eq!(loss, Some(SessionLoss::Drained));
}

#[tokio::test]
async fn a_server_in_between_that_goes_away_is_a_lost_connection() {
    for code in [1_001, 1_011, 1_012] {
        let mut relay = Relay::start().await;
        let (client, mut link) = relay.connect(counted().host).await;
        link.close(code).await;
        let mut link = relay.resume().await;
        let (execution, id) = tokio::join!(client.execute(request()), relay.execution(&mut link));
        relay.end(&mut link, &id).await;
        seven(execution.unwrap()).await;
    }
}

//! A relay by hand, which takes the session up again as a relay does, and one that lies about it.

use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use host_client::{
    Backoff, Client, ClientConfig, ConnectionState, Effect, Error, ErrorCode, ExecuteRequest, Outcome, SessionLoss,
    ToolError,
};
use relay_proto::wire::message::Payload;
use relay_proto::{frame, wire};
use relay_test_support::within;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::{Runs, Step};

const UNACKNOWLEDGED: u64 = 16 << 20;

/// The relay's end of a session over one socket. Dropping it drops the socket, without a close.
struct Relay {
    socket: WebSocketStream<TcpStream>,
    sent: u64,
    received: u64,
}

impl Relay {
    async fn accept(listener: &TcpListener) -> WebSocketStream<TcpStream> {
        let (stream, _) = within(listener.accept()).await.unwrap();
        within(tokio_tungstenite::accept_async(stream)).await.unwrap()
    }

    async fn send(&mut self, payload: Payload) {
        self.sent += 1;
        let (sequence, acknowledged) = (self.sent, self.received);
        self.send_message(wire::Message { sequence, acknowledged, ..payload.into() }).await;
    }

    async fn send_message(&mut self, message: wire::Message) {
        // The host may have ended the session: that is what some tests are about.
        let _ = self.socket.send(Message::Binary(frame::encode(&message))).await;
    }

    /// Returns the host's next message, acknowledgements included; `None`: the host is gone.
    async fn any(&mut self) -> Option<wire::Message> {
        loop {
            match within(self.socket.next()).await {
                Some(Ok(Message::Binary(bytes))) => return Some(frame::decode(bytes).unwrap()),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                _ => return None,
            }
        }
    }

    /// Returns the host's next message but acknowledgements; its sequence has to be the next one.
    async fn next(&mut self) -> Payload {
        loop {
            let message = self.any().await.expect("the host is gone");
            let Some(payload) = message.payload else { continue };
            self.received += 1;
            assert_eq!(message.sequence, self.received, "{payload:?}");
            return payload;
        }
    }

    async fn result(&mut self) -> wire::ToolResult {
        match self.next().await {
            Payload::ToolResult(result) => result,
            other => panic!("{other:?}"),
        }
    }

    async fn call(&mut self, id: &str, tool: &str, n: usize) {
        self.send(Payload::ToolCall(wire::ToolCall {
            id: id.into(),
            tool: tool.into(),
            arguments: format!("{{\"n\":{n}}}").into_bytes().into(),
            execution_id: "1".into(),
            remaining_ms: 60_000,
            ..Default::default()
        }))
        .await;
    }

    async fn end(&mut self) {
        let data = b"\"done\"".as_slice().into();
        self.send(Payload::Result(wire::Result { data, execution_id: "1".into(), ..Default::default() })).await;
    }

    async fn is_left(&mut self) {
        while self.any().await.is_some() {}
    }
}

fn welcome() -> wire::Welcome {
    wire::Welcome {
        protocol_version: 1,
        session_id: "the session".into(),
        features: vec!["granted_tools".into(), "resume".into()],
        bindings: vec!["console".into()],
        resume_secret: vec![1; 32].into(),
        resume_window_ms: 60_000,
        epoch: 1,
        unacknowledged_bytes: UNACKNOWLEDGED,
        ..Default::default()
    }
}

fn resumed(received: u64) -> wire::Resumed {
    wire::Resumed {
        epoch: 2,
        received,
        secret: vec![2; 32].into(),
        expires_in_ms: 600_000,
        executions: vec!["1".into()],
        ..Default::default()
    }
}

/// A host that runs an execution, and the relay's end of it.
struct Scene {
    listener: TcpListener,
    client: Client,
    running: JoinHandle<Result<Outcome, Error>>,
    runs: Runs,
}

impl Scene {
    /// Starts both, up to the execution that the relay has received.
    async fn start() -> (Self, Relay) {
        let (scene, relay, _) = Self::start_with(welcome()).await;
        (scene, relay)
    }

    /// The same for a relay that welcomes the host like this; returns what the host said first, too.
    async fn start_with(welcome: wire::Welcome) -> (Self, Relay, wire::Hello) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut config = ClientConfig::new(format!("ws://{}/ws", listener.local_addr().unwrap()), "token");
        config.backoff = Backoff { first: Duration::from_millis(1), most: Duration::from_millis(20) };
        let runs = Runs::default();
        let tools = runs.tools();
        let large = |Step { n }: Step| async move { Ok::<_, ToolError>("x".repeat(n)) };
        tools.add("t.large", "Much", Effect::ReadOnly, large).unwrap();
        let connecting = tokio::spawn(Client::connect(config, tools));
        let mut relay = Relay { socket: Relay::accept(&listener).await, sent: 0, received: 0 };
        let Payload::Hello(hello) = relay.next().await else { panic!("no hello") };
        assert!(hello.features.iter().any(|feature| feature == "resume"), "{:?}", hello.features);
        relay.send(Payload::Welcome(welcome)).await;
        let client = within(connecting).await.unwrap().unwrap();
        let of_task = client.clone();
        let request = ExecuteRequest::new("the code").always_in_sandbox();
        let running = tokio::spawn(async move { of_task.run(request).await });
        assert!(matches!(relay.next().await, Payload::Execute(_)));
        (Self { listener, client, running, runs }, relay, hello)
    }

    /// Loses the socket, and returns the next one with what the host says on it.
    async fn comes_back(&self, relay: Relay) -> (Relay, wire::Resume) {
        let (sent, received) = (relay.sent, relay.received);
        drop(relay);
        let mut relay = Relay { socket: Relay::accept(&self.listener).await, sent, received };
        let message = relay.any().await.unwrap();
        assert_eq!(message.sequence, 0, "{message:?}");
        match message.payload {
            Some(Payload::Resume(resume)) => (relay, resume),
            other => panic!("{other:?}"),
        }
    }

    /// Fails unless the session is lost for this reason.
    async fn ends_as_lost(self, loss: Option<SessionLoss>, name: &str) {
        let error = within(self.running).await.unwrap().unwrap_err();
        assert!(error.code().is_some_and(|code| *code == ErrorCode::SessionLost), "{name}: {error}");
        let state = self.client.state();
        assert!(matches!(&state, ConnectionState::Lost { loss: told, .. } if *told == loss), "{name}: {state:?}");
    }
}

/// Answers resume.
async fn answer(relay: &mut Relay, payload: impl Into<Payload>) {
    relay.send_message(payload.into().into()).await;
}

fn refusal(loss: i32) -> Payload {
    let error = "it is gone".into();
    Payload::Error(wire::Error { code: "SESSION_LOST".into(), error, loss, ..Default::default() })
}

#[tokio::test]
async fn a_host_says_what_it_has_and_sends_again_what_the_relay_has_not() {
    let (scene, mut relay) = Scene::start().await;
    relay.call("1", "t.step", 0).await;
    relay.call("2", "t.step", 1).await;
    let (first, second) = (relay.result().await, relay.result().await);

    // The relay has lost the second answer, and the host none of its calls.
    let (mut relay, resume) = scene.comes_back(relay).await;
    assert_eq!((resume.session_id.as_str(), resume.epoch, &resume.secret[..]), ("the session", 1, &[1; 32][..]));
    assert_eq!((resume.received, resume.attempt), (3, 1));
    relay.received = 3;
    answer(&mut relay, Payload::Resumed(resumed(3))).await;
    assert_eq!(relay.result().await, second);

    // All of it, and with the newer secret.
    let (mut relay, resume) = scene.comes_back(relay).await;
    assert_eq!((resume.epoch, &resume.secret[..], resume.attempt), (2, &[2; 32][..], 2));
    relay.received = 3;
    answer(&mut relay, Payload::Resumed(wire::Resumed { epoch: 3, ..resumed(3) })).await;
    assert_eq!(relay.result().await, second);
    assert_ne!(first, second);
    relay.end().await;
    assert_eq!(within(scene.running).await.unwrap().unwrap().value().unwrap(), "done");
    scene.runs.assert_each_once(2);
}

/// The relay has not got the code: the host sends it again, and the relay cannot have it twice.
#[tokio::test]
async fn code_that_was_lost_on_the_way_is_sent_again_as_it_was() {
    let (scene, relay) = Scene::start().await;
    let (mut relay, resume) = scene.comes_back(relay).await;
    assert_eq!(resume.received, 1);
    relay.received = 1;
    answer(&mut relay, Payload::Resumed(wire::Resumed { executions: Vec::new(), ..resumed(1) })).await;
    let Payload::Execute(execute) = relay.next().await else { panic!("no code") };
    assert_eq!((execute.code.as_str(), execute.execution_id.as_str()), ("the code", "1"));
    relay.end().await;
    within(scene.running).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_resumed_that_was_lost_leaves_the_host_its_secret() {
    let (scene, relay) = Scene::start().await;
    let (relay, _) = scene.comes_back(relay).await;
    let (relay, again) = scene.comes_back(relay).await;
    assert_eq!((again.epoch, &again.secret[..]), (1, &[1; 32][..]));
    let (mut relay, _) = scene.comes_back(relay).await;
    answer(&mut relay, Payload::Resumed(resumed(2))).await;
    relay.end().await;
    within(scene.running).await.unwrap().unwrap();
}

#[tokio::test]
async fn every_reason_of_a_refusal_reaches_the_application() {
    let reasons = [
        (wire::SessionLoss::Unknown, SessionLoss::Unknown),
        (wire::SessionLoss::Expired, SessionLoss::Expired),
        (wire::SessionLoss::Epoch, SessionLoss::Epoch),
        (wire::SessionLoss::Gap, SessionLoss::Gap),
        (wire::SessionLoss::Moved, SessionLoss::Moved),
        (wire::SessionLoss::Drained, SessionLoss::Drained),
    ];
    for (sent, told) in reasons {
        let (scene, relay) = Scene::start().await;
        let (mut relay, _) = scene.comes_back(relay).await;
        answer(&mut relay, refusal(sent.into())).await;
        relay.is_left().await;
        scene.ends_as_lost(Some(told), &format!("{sent:?}")).await;
    }
}

#[tokio::test]
async fn a_relay_that_miscounts_what_it_received_is_left() {
    // The host has sent 3: hello, the code and one answer, of which the relay has acknowledged 3.
    for received in [4, 99, u64::MAX, 2, 0] {
        let (scene, mut relay) = Scene::start().await;
        relay.call("1", "t.step", 0).await;
        relay.result().await;
        relay.call("2", "t.wait", 1).await;
        // It acknowledges the answer, too, and the host has read it before the socket is lost.
        within(async {
            while scene.runs.of(1) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        let (mut relay, _) = scene.comes_back(relay).await;
        answer(&mut relay, Payload::Resumed(resumed(received))).await;
        relay.is_left().await;
        scene.ends_as_lost(Some(SessionLoss::Gap), &format!("received {received}")).await;
    }
}

#[tokio::test]
async fn a_relay_that_acknowledges_what_was_never_sent_is_left() {
    for acknowledged in [3, 99, u64::MAX] {
        let (scene, mut relay) = Scene::start().await;
        relay.send_message(wire::Message { acknowledged, ..Default::default() }).await;
        relay.is_left().await;
        scene.ends_as_lost(None, &format!("acknowledged {acknowledged}")).await;
    }
}

#[tokio::test]
async fn what_is_no_answer_to_resume_ends_the_session_or_the_attempt() {
    let call = wire::ToolCall { id: "1".into(), tool: "t.step".into(), execution_id: "1".into(), ..Default::default() };
    let lies: Vec<(&str, wire::Message)> = vec![
        ("a welcome", wire::Message { sequence: 1, ..Payload::Welcome(welcome()).into() }),
        ("a call", wire::Message { sequence: 2, ..Payload::ToolCall(call).into() }),
        ("no new secret", Payload::Resumed(wire::Resumed { secret: Vec::new().into(), ..resumed(2) }).into()),
        ("a short secret", Payload::Resumed(wire::Resumed { secret: vec![1; 31].into(), ..resumed(2) }).into()),
        ("an older epoch", Payload::Resumed(wire::Resumed { epoch: 1, ..resumed(2) }).into()),
    ];
    for (name, lie) in lies {
        let (scene, relay) = Scene::start().await;
        let (mut relay, _) = scene.comes_back(relay).await;
        relay.send_message(lie).await;
        relay.is_left().await;
        scene.ends_as_lost(None, name).await;
    }
}

#[tokio::test]
async fn resumed_comes_once_and_only_after_resume() {
    let (scene, mut relay) = Scene::start().await;
    answer(&mut relay, Payload::Resumed(resumed(2))).await;
    relay.is_left().await;
    scene.ends_as_lost(None, "unasked").await;

    let (scene, relay) = Scene::start().await;
    let (mut relay, _) = scene.comes_back(relay).await;
    answer(&mut relay, Payload::Resumed(resumed(2))).await;
    answer(&mut relay, Payload::Resumed(wire::Resumed { epoch: 3, ..resumed(2) })).await;
    relay.is_left().await;
    scene.ends_as_lost(None, "twice").await;
}

/// A call that comes again gets its first answer again, over whichever socket; another one of the same id ends the session.
#[tokio::test]
async fn a_call_that_comes_again_runs_once() {
    let (scene, mut relay) = Scene::start().await;
    relay.call("1", "t.step", 0).await;
    let first = relay.result().await;
    let (mut relay, _) = scene.comes_back(relay).await;
    answer(&mut relay, Payload::Resumed(resumed(3))).await;
    for _ in 0..3 {
        relay.call("1", "t.step", 0).await;
        assert_eq!(relay.result().await, first);
    }
    scene.runs.assert_each_once(1);
    relay.call("1", "t.step", 1).await;
    relay.is_left().await;
    scene.runs.assert_each_once(1);
    scene.ends_as_lost(None, "another call of the same id").await;
}

/// A message that the host has received already is out of order.
#[tokio::test]
async fn a_relay_that_sends_what_the_host_has_is_left() {
    let (scene, mut relay) = Scene::start().await;
    relay.call("1", "t.step", 0).await;
    relay.result().await;
    let (mut relay, resume) = scene.comes_back(relay).await;
    assert_eq!(resume.received, 2);
    answer(&mut relay, Payload::Resumed(resumed(3))).await;
    relay.sent = 1;
    relay.call("1", "t.step", 0).await;
    relay.is_left().await;
    scene.runs.assert_each_once(1);
    scene.ends_as_lost(None, "a sequence that was there").await;
}

#[tokio::test]
async fn a_host_that_has_nothing_to_say_acknowledges_within_a_second() {
    let (scene, mut relay) = Scene::start().await;
    let output = || Payload::Output(wire::Output { execution_id: "1".into(), ..Default::default() });
    relay.send(output()).await;
    let sent = Instant::now();
    let message = relay.any().await.unwrap();
    assert_eq!((message.sequence, message.acknowledged, message.payload), (0, 2, None));
    assert!(sent.elapsed() < Duration::from_secs(3), "{:?}", sent.elapsed());
    // After 64 messages it does not wait for the second.
    let sent = Instant::now();
    for _ in 0..128 {
        relay.send(output()).await;
    }
    let message = relay.any().await.unwrap();
    assert_eq!((message.sequence, message.payload), (0, None));
    assert!((66..=130).contains(&message.acknowledged), "{}", message.acknowledged);
    assert!(sent.elapsed() < Duration::from_secs(1), "{:?}", sent.elapsed());
    relay.end().await;
    within(scene.running).await.unwrap().unwrap();
}

/// The host keeps answers until the relay has them, and makes no more than it may keep.
#[tokio::test]
async fn a_relay_that_never_acknowledges_is_sent_no_more_than_is_kept() {
    let (scene, mut relay) = Scene::start().await;
    const CALLS: usize = 40;
    for id in 1..=CALLS {
        relay.call(&id.to_string(), "t.large", 1_000_000).await;
    }
    let (mut bytes, mut answers) = (0, 0);
    // What the relay acknowledges stays 2: the code. The first answer may take its time.
    let mut next = Some(relay.any().await);
    while let Some(message) = next {
        match message.unwrap().payload {
            Some(Payload::ToolResult(result)) => {
                assert!(result.success, "{result:?}");
                (bytes, answers) = (bytes + result.result.len() as u64, answers + 1);
            }
            None => {}
            other => panic!("{other:?}"),
        }
        next = tokio::time::timeout(Duration::from_millis(500), relay.any()).await.ok();
    }
    assert!(answers > 0 && bytes <= UNACKNOWLEDGED + (2 << 20), "{answers} answers of {bytes} bytes");
    // The acknowledgement alone sets it going.
    while answers < CALLS {
        relay.send_message(wire::Message { acknowledged: 2 + answers as u64, ..Default::default() }).await;
        while let Ok(message) = tokio::time::timeout(Duration::from_millis(100), relay.any()).await {
            answers += usize::from(message.unwrap().payload.is_some());
        }
    }
    relay.received = 2 + CALLS as u64;
    relay.end().await;
    within(scene.running).await.unwrap().unwrap();
}

fn welcome_with_credit() -> wire::Welcome {
    let mut welcome = welcome();
    welcome.features.push("credit".into());
    wire::Welcome { credit: Some(wire::Credit { count: 8, bytes: 1 << 20 }), ..welcome }
}

#[tokio::test]
async fn a_relay_that_sends_more_calls_than_it_was_granted_is_left() {
    let (scene, mut relay, hello) = Scene::start_with(welcome_with_credit()).await;
    let granted = hello.credit.unwrap();
    assert!((1..100_000).contains(&granted.count), "{granted:?}");
    for id in 0..granted.count {
        relay.call(&(id + 1).to_string(), "t.wait", 0).await;
    }
    relay.call(&(granted.count + 1).to_string(), "t.wait", 1).await;
    relay.is_left().await;
    assert_eq!(scene.runs.of(1), 0, "the call that was too many did not run");
    scene.ends_as_lost(None, "one call too many").await;
}

#[tokio::test]
async fn a_host_grants_again_what_it_has_answered() {
    let (scene, mut relay, hello) = Scene::start_with(welcome_with_credit()).await;
    let mut left = hello.credit.unwrap();
    for id in 1..=left.count * 2 {
        assert!(left.count > 0, "call {id} can never be sent");
        left.count -= 1;
        relay.call(&id.to_string(), "t.step", usize::try_from(id - 1).unwrap()).await;
        let mut is_answered = false;
        while !is_answered || left.count == 0 {
            match relay.next().await {
                Payload::ToolResult(result) => is_answered = result.success,
                Payload::Credit(more) => left.count += more.count,
                other => panic!("{other:?}"),
            }
        }
    }
    relay.end().await;
    within(scene.running).await.unwrap().unwrap();
}

/// Code waits on the host until the relay grants it.
#[tokio::test]
async fn a_host_sends_no_more_code_than_it_was_granted() {
    let credit = Some(wire::Credit { count: 1, bytes: 1 << 20 });
    let (scene, mut relay, _) = Scene::start_with(wire::Welcome { credit, ..welcome_with_credit() }).await;
    let client = scene.client.clone();
    let second = tokio::spawn(async move { client.run(ExecuteRequest::new("the second").always_in_sandbox()).await });
    // The relay goes on with the first, and hears of no other code.
    for id in 1..=3 {
        relay.call(&id.to_string(), "t.step", id - 1).await;
        loop {
            match relay.next().await {
                Payload::ToolResult(_) => break,
                Payload::Credit(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(!second.is_finished());
    relay.send(Payload::Credit(wire::Credit { count: 1, bytes: 100 })).await;
    let execute = loop {
        match relay.next().await {
            Payload::Execute(execute) => break execute,
            Payload::Credit(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((execute.code.as_str(), execute.execution_id.as_str()), ("the second", "2"));
    relay.end().await;
    within(scene.running).await.unwrap().unwrap();
}

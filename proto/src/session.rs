//! Rules of a session that both ends apply: features, heartbeat, and the time for approvals.

use std::time::Duration;

/// Protocol version that `hello` and `welcome` carry.
pub const PROTOCOL_VERSION: u32 = 1;

/// Default interval between two WebSocket pings of one peer.
pub const DEFAULT_HEARTBEAT: Duration = Duration::from_secs(15);

/// Number of heartbeats after which a silent peer is closed.
pub const SILENT_HEARTBEATS: u32 = 3;

/// Factor by which all approvals of one execution together may take longer than one approval, which may take
/// `approval_ms`.
pub const TOTAL_APPROVAL_FACTOR: u32 = 4;

/// Maximum length in bytes of the message of a failed tool call. The relay cuts a longer one.
pub const MAX_FAILURE_BYTES: usize = 8 << 10;

/// Header of the WebSocket's request by which a host says that it only wants to resume a session: the relay lets it in
/// although its subject has no place for another session.
pub const RESUME_HEADER: &str = "relay-resume";

/// Names of the features that `hello` and `welcome` may list.
///
/// A host lists in `hello` those of `resume`, `credit` and `go_away` that it wants; they are on in a session if both peers
/// list them. The relay offers all others to every host.
pub mod feature {
    /// `execute` names a time within which the execution has to begin.
    pub const BEGIN_WITHIN: &str = "begin_within";
    /// Each peer says how much the other may send.
    pub const CREDIT: &str = "credit";
    /// `execute` carries the steps of an execution that can run again on another relay.
    pub const DURABLE: &str = "durable";
    /// The relay announces its end with `go_away`.
    pub const GO_AWAY: &str = "go_away";
    /// A session outlives its connection: `resume` goes on with it.
    pub const RESUME: &str = "resume";
    /// The host reports the state of open calls with `call_state`.
    pub const CALL_STATE: &str = "call_state";
    /// `welcome` and `renewed` list the patterns of the tools that the token allows.
    pub const GRANTED_TOOLS: &str = "granted_tools";
    /// `execute` says in which form the code gets integers that no number holds.
    pub const LARGE_INTEGERS: &str = "large_integers";
    /// `execute` carries sources of functions that run beside the code.
    pub const LOCAL_TOOLS: &str = "local_tools";
    /// The host shows a newer token with `renew`.
    pub const RENEW: &str = "renew";
    /// `execute` carries a seed and a time, which make an execution repeatable.
    pub const REPEATABLE: &str = "repeatable";
    /// The host replaces its tools with `tools_changed`.
    pub const TOOLS_CHANGED: &str = "tools_changed";
    /// Executions and tool calls carry a W3C trace context.
    pub const TRACEPARENT: &str = "traceparent";

    /// Lists every feature of this version.
    pub const ALL: [&str; 13] = [
        BEGIN_WITHIN,
        CALL_STATE,
        CREDIT,
        DURABLE,
        GO_AWAY,
        GRANTED_TOOLS,
        LARGE_INTEGERS,
        LOCAL_TOOLS,
        RENEW,
        REPEATABLE,
        RESUME,
        TOOLS_CHANGED,
        TRACEPARENT,
    ];
}

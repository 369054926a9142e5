//! What programs and people ask a running router: one line of JSON there, one back.

use super::config::AppDescription;
use super::control::{Learning, Usage};
use super::programs::Count;
use crate::gtp::Form;
use crate::rule::Direction;
use crate::rule::check::Mistake;
use crate::rule::wire::TrafficFilter;
use crate::session::Authority;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The version of what is said here; another one is refused.
pub const VERSION: u32 = 1;
/// Longest question, in bytes: a full set of rules.
pub const QUESTION_BYTES_MAX: u64 = 8 << 20;

/// A question.
#[derive(Debug, Deserialize, Serialize)]
pub struct Question {
    /// [`VERSION`].
    pub version: u32,
    /// What.
    #[serde(flatten)]
    pub ask: Ask,
}

/// What can be asked.
#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum Ask {
    /// How the router is.
    Status,
    /// Its rules, with their counts.
    Rules,
    /// Replace all rules: a list of TrafficRule.
    SetRules {
        /// The list.
        rules: serde_json::Value,
        /// Rates that rules share, besides those of the configuration.
        #[serde(default)]
        limits: Vec<RuleLimit>,
    },
    /// Sessions by their clients, from one on.
    Sessions {
        /// How many at most.
        #[serde(default = "many")]
        limit: usize,
        /// Only this client.
        #[serde(default)]
        client: Option<String>,
    },
    /// Have a session, as the operator.
    AddSession(SessionTold),
    /// Forget a session the operator or traffic gave.
    RemoveSession {
        /// Whose.
        client: String,
    },
    /// Set a client's tags.
    Tag {
        /// Whose.
        client: String,
        /// Which; none removes them.
        tags: Vec<String>,
    },
    /// Have an app besides those of the configuration, in this process and the next ones. Asked again, all
    /// stays as it is; with another description it takes the place of the one of its name.
    AddApp {
        /// Its name.
        name: String,
        /// What the configuration would say of it.
        app: AppDescription,
    },
    /// Let an app go that was added; no rule that is active may lead to it. Asked again, nothing happens.
    RemoveApp {
        /// Its name.
        name: String,
    },
    /// What would become of a packet, and why.
    Trace(Traced),
    /// What happens: one line for each event, until somebody hangs up.
    Follow {
        /// The last number that is known.
        #[serde(default)]
        after: u64,
    },
    /// What happened, from a number on.
    Events {
        /// The last number that is known.
        #[serde(default)]
        after: u64,
    },
}

const fn many() -> usize {
    100
}

/// A rate that some rules have together: what they match beyond it is dropped.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RuleLimit {
    /// Which, by their identifiers; those that are not there do not count.
    pub rules: Vec<String>,
    /// Of what they match only what one of these accepts as it goes, or with source and destination
    /// exchanged; none is all of it. Addresses, ports and protocols alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filter: Vec<TrafficFilter>,
    /// The rate, as the link counts it.
    pub bits_per_second: u64,
}

/// A session the operator tells.
#[derive(Debug, Deserialize, Serialize)]
pub struct SessionTold {
    /// The client: its address, and in a network that has a name `ADDRESS@NETWORK`. All questions
    /// and answers write clients so.
    pub client: String,
    /// Tunnel identifiers, from the client and to it.
    pub teids: [u32; 2],
    /// Base station and core.
    pub ends: [IpAddr; 2],
    /// QoS flow.
    #[serde(default)]
    pub qfi: u8,
    /// How packets are wrapped.
    pub form: Form,
}

/// A packet somebody wonders about.
#[derive(Debug, Deserialize, Serialize)]
pub struct Traced {
    /// The client; of an IPv6 one an address.
    pub client: String,
    /// The other end.
    pub server: IpAddr,
    /// Protocol number.
    pub protocol: u8,
    /// Ports of client and server, where the protocol has them.
    pub ports: Option<[u16; 2]>,
    /// To the client in place of from it.
    pub downlink: bool,
    /// Type of service or traffic class.
    #[serde(default)]
    pub traffic_class: u8,
}

/// An answer.
#[derive(Debug, Serialize)]
pub struct Answer<T> {
    /// [`VERSION`].
    pub version: u32,
    /// What was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<T>,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Mistakes of rules, each with its place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mistakes: Vec<Mistake>,
}

/// How the router is.
#[derive(Debug, Serialize)]
pub struct Status {
    /// Which set of rules.
    pub generation: u64,
    /// Rules, active and not.
    pub rules: usize,
    /// Sessions.
    pub sessions: usize,
    /// Interfaces of the wire.
    pub ports: [String; 2],
    /// Why the wire goes on without programs, where an interface of it is gone or is another one.
    pub off_wire: Option<String>,
    /// Whether it took over from another process.
    pub adopted: bool,
    /// Apps, and whether they are alive.
    pub apps: BTreeMap<String, bool>,
    /// How long ago an app last got a packet that no rule leads to it any more, in milliseconds: of a
    /// connection that began with it. Apps that got none lately are not there.
    pub kept_ms: BTreeMap<String, u64>,
    /// Those of them that were added.
    pub added: Vec<String>,
    /// What was learnt.
    pub learning: Learning,
    /// Packets by where they came from and why they went where they went.
    pub counters: BTreeMap<&'static str, BTreeMap<&'static str, Count>>,
    /// Copies of signalling that were read, that could not be, and that came from somebody else than the
    /// configuration says.
    pub pfcp: [u64; 3],
}

/// What became of an app.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct AppChanged {
    /// Whether anything did: what was so already is not done again.
    pub changed: bool,
}

/// A rule with its count.
#[derive(Debug, Serialize)]
pub struct RuleShown {
    /// Its identifier.
    pub id: String,
    /// Whether it takes part.
    pub active: bool,
    /// What it matched.
    pub count: Count,
}

/// A session.
#[derive(Debug, Serialize)]
pub struct SessionShown {
    /// Whose.
    pub client: String,
    /// Who says so.
    pub authority: Authority,
    /// Base station and core.
    pub ends: [String; 2],
    /// Tunnel identifiers.
    pub teids: [u32; 2],
    /// QoS flow.
    pub qfi: u8,
    /// How packets are wrapped.
    pub form: Form,
    /// Tags.
    pub tags: Vec<String>,
    /// Use of apps.
    pub usage: Option<Usage>,
}

/// Why a packet goes where it goes.
#[derive(Debug, Serialize)]
pub struct Trace {
    /// Its way.
    pub direction: Direction,
    /// Each step in words.
    pub steps: Vec<String>,
    /// The reason, as counters name it.
    pub reason: &'static str,
}

/// Something that happened.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    /// Its number.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// What.
    pub what: &'static str,
    /// To whom.
    pub subject: String,
}

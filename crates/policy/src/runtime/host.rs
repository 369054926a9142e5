//! What a running policy asks of the node. Every question has an answer without I/O that waits.

use super::lifetime::Defaults;
use super::view::Answer;
use crate::modules::dynamic::{Made, Making};
use crate::program::StorageFact as Fact;
use crate::types::{Action, State};
use crate::variables::Message;
use freshet_http::message::{RequestHead, ResponseHead};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// What is asked about a storage.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StorageQuestion {
    /// Bytes that are free.
    FreeSpace,
    /// Bytes in use.
    UsedSpace,
    /// Whether it works.
    Happy,
}

impl From<Fact> for StorageQuestion {
    fn from(fact: Fact) -> Self {
        match fact {
            Fact::FreeSpace => Self::FreeSpace,
            Fact::UsedSpace => Self::UsedSpace,
            Fact::Happy => Self::Happy,
        }
    }
}

/// How objects are made to leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Purge {
    /// At once.
    Hard,
    /// They become stale; seconds, negative ones leave what is there.
    Soft {
        /// Time to live left.
        ttl: f64,
        /// Grace from then on.
        grace: f64,
        /// Keep from then on.
        keep: f64,
    },
}

/// Something a policy did, for those who watch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    /// A state is entered.
    Call(State),
    /// A state is left with this action, or with the policy's failure.
    Return(Action),
    /// An address was compared with a list that logs.
    Acl {
        /// The list.
        name: &'a str,
        /// The entry that decided, as it is written.
        entry: Option<&'a str>,
        /// Whether the address is in the list.
        matched: bool,
    },
    /// A header field was set.
    FieldSet {
        /// Of which message.
        message: Message,
        /// Name.
        name: &'a str,
        /// Value.
        value: &'a [u8],
    },
    /// A header field was removed.
    FieldUnset {
        /// Of which message.
        message: Message,
        /// Name.
        name: &'a str,
        /// The value it had.
        value: &'a [u8],
    },
    /// A line of a message other than a field was set: `url`, `method`, `proto`, `status`,
    /// `reason`.
    LineSet {
        /// Of which message.
        message: Message,
        /// Which line.
        line: &'static str,
        /// Its new text.
        value: &'a [u8],
    },
    /// A response was made anew.
    Response(&'a ResponseHead),
    /// How long a response lives, or that it is not kept, was set.
    Lifetime {
        /// What it is now.
        answer: &'a Answer,
        /// When the origin made it, seconds since 1970.
        origin: f64,
    },
    /// A response is to be passed for so many seconds.
    HitForPass {
        /// How long.
        seconds: f64,
        /// When the origin made it, seconds since 1970.
        origin: f64,
    },
    /// A text was added to what is hashed.
    Hash(&'a [u8]),
    /// `std.log`
    Log(&'a [u8]),
    /// What is said for whoever looks for a mistake.
    Debug(&'a [u8]),
    /// The same, where it is not about this request.
    Aside(&'a str),
    /// `std.timestamp`
    Timestamp(&'a [u8]),
    /// What a module says of what it was told: a mistake, or what it does otherwise than told.
    Said {
        /// Whether it is a mistake.
        is_error: bool,
        /// The whole of it.
        text: &'a str,
    },
    /// The policy failed.
    Error(&'a str),
}

/// How a client's connection sends.
#[derive(Clone, Copy, Debug)]
pub enum Control<'a> {
    /// Packets have this mark, the traffic class of their IP header (`std.set_ip_tos`).
    TypeOfService(u8),
    /// By this algorithm (`tcp.congestion_algorithm`).
    CongestionControl(&'a str),
    /// No faster than so many bytes a second (`tcp.set_socket_pace`).
    Pace(u64),
}

/// What the kernel knows of a TCP connection. Round trips are in µs, windows in segments, the rest in bytes or
/// segments.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs, reason = "they are called as in tcp(7)")]
pub struct ConnectionFacts {
    pub snd_mss: u32,
    pub rcv_mss: u32,
    pub lost: u32,
    pub retrans: u32,
    pub pmtu: u32,
    pub rtt: u32,
    pub rttvar: u32,
    pub snd_cwnd: u32,
    pub advmss: u32,
    pub reordering: u32,
}

/// A database that says something of addresses.
pub trait Places: fmt::Debug + Send + Sync {
    /// What is at a path into an address's record, as text; `None` where there is no such thing.
    fn look_up(&self, address: IpAddr, path: &str) -> Option<String>;
}

/// One that knows of none.
#[derive(Debug)]
struct Nowhere;

impl Places for Nowhere {
    fn look_up(&self, _: IpAddr, _: &str) -> Option<String> {
        None
    }
}

/// The node, for a policy that runs in it.
pub trait Host {
    /// Whether a declared backend is healthy, and when that last changed (seconds since 1970).
    fn backend_health(&self, backend: u32) -> (bool, f64);

    /// The backend of a director at a host and a port, made where there is none yet; its number.
    ///
    /// # Errors
    /// Why there is none.
    fn make_backend(
        &mut self,
        director: u32,
        making: &Arc<Making>,
        host: &str,
        port: u16,
    ) -> Result<u32, String> {
        let _ = (director, making, host, port);
        Err("no backends are made here".into())
    }

    /// What is known of a backend that was made, while it is kept.
    fn made_backend(&self, number: u32) -> Option<Made> {
        let _ = number;
        None
    }

    /// A number nobody can foresee.
    fn random(&mut self) -> u64;

    /// A random number of 31 bits; where numbers are repeated, one of what [`Host::random`] takes two of.
    fn random_short(&mut self) -> u32 {
        (self.random() >> 33) as u32
    }

    /// Whether anybody watches; [`Host::trace`] is called only then.
    fn is_traced(&self) -> bool {
        false
    }

    /// Tells those who watch.
    fn trace(&mut self, event: Event<'_>) {
        let _ = event;
    }

    /// A line for the system's log.
    fn syslog(&mut self, priority: i64, text: &[u8]) {
        let _ = (priority, text);
    }

    /// Writes what the player that sent a request says of itself by a key of CTA-5004; whether it
    /// says anything.
    fn player_says(&mut self, request: &RequestHead, key: &str, out: &mut Vec<u8>) -> bool {
        let _ = (request, key, out);
        false
    }

    /// Writes what a manifest says of what a request asks for, as far as that is known: its `class`, `kind`,
    /// `sequence` or `bitrate`; whether it says anything.
    fn manifest_says(&mut self, request: &RequestHead, key: &str, out: &mut Vec<u8>) -> bool {
        let _ = (request, key, out);
        false
    }

    /// `server.hostname`
    fn hostname(&self) -> &str {
        "localhost"
    }

    /// `server.identity`
    fn identity(&self) -> &str {
        self.hostname()
    }

    /// Lifetimes where a response says nothing.
    fn lifetimes(&self) -> Defaults {
        Defaults::default()
    }

    /// Adds a ban.
    ///
    /// # Errors
    /// What is wrong with it.
    fn ban(&mut self, ban: &str) -> Result<(), String> {
        let _ = ban;
        Err("bans are not kept here".into())
    }

    /// Makes the objects of the request's key leave; how many there were.
    fn purge(&mut self, how: Purge) -> u64 {
        let _ = how;
        0
    }

    /// Makes the objects with a tag leave; how many there were.
    fn purge_tag(&mut self, tag: &[u8], soft: bool) -> u64 {
        let _ = (tag, soft);
        0
    }

    /// A small file's bytes, remembered from the first time they were asked for.
    fn file(&mut self, path: &str) -> Option<Arc<[u8]>> {
        let _ = path;
        None
    }

    /// The MaxMind database in a file, for as long as the policy is loaded.
    ///
    /// # Errors
    /// Why it cannot be used.
    fn places(&mut self, path: &str) -> Result<Arc<dyn Places>, String> {
        let _ = path;
        Ok(Arc::new(Nowhere))
    }

    /// Whether there is a file.
    fn file_exists(&mut self, path: &str) -> bool {
        let _ = path;
        false
    }

    /// A variable of the process' environment.
    fn environment(&mut self, name: &str) -> Option<String> {
        let _ = name;
        None
    }

    /// The address of a name, where it is known without waiting.
    fn resolve(&mut self, host: &str) -> Option<IpAddr> {
        host.parse().ok()
    }

    /// A storage's figures; truth is 1.
    fn storage(&self, storage: u32, question: StorageQuestion) -> i64 {
        let _ = (storage, question);
        0
    }

    /// Asks for the request's body to be kept, `bytes_max` at most, in a storage; whether it will
    /// be.
    fn cache_request_body(&mut self, bytes_max: u64, storage: Option<u32>) -> bool {
        let _ = (bytes_max, storage);
        false
    }

    /// The request's body, where it is kept and all there.
    fn request_body(&self) -> Option<Arc<[u8]>> {
        None
    }

    /// Changes how the client's connection sends; whether that worked.
    fn control_connection(&mut self, control: Control<'_>) -> bool {
        let _ = control;
        false
    }

    /// What the kernel knows of the client's connection, as far as it is a TCP connection.
    fn connection(&self) -> Option<ConnectionFacts> {
        None
    }

    /// Waits, for tests only (`vtc.sleep`).
    fn test_sleep(&mut self, seconds: f64) {
        let _ = seconds;
    }

    /// Waits at a test's barrier (`vtc.barrier_sync`); whether it was reached.
    fn test_barrier(&mut self, address: &str, timeout: f64) -> bool {
        let _ = (address, timeout);
        false
    }
}

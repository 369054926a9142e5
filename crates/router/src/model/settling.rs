//! Rules were replaced a moment ago: a connection of TCP that began before stays where it is.

use crate::packet::{Fragment, Packet};
use crate::rule::compile::Target;
use crate::rule::{Act, Rule};
use std::collections::HashMap;

/// Flags of TCP.
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// A connection: its network, addresses and ports.
type Connection = (u16, [u128; 2], [u16; 2]);

/// Rules that settle.
#[derive(Debug)]
pub(super) struct Settling {
    /// The rules before.
    pub(super) before: Vec<Rule>,
    /// What connections began with that had packets meanwhile.
    begun: HashMap<Connection, Option<Target>>,
}

/// Flags of a TCP packet; none where it is too short to have some, or a later fragment.
pub(super) fn tcp_flags(frame: &[u8], packet: &Packet) -> u8 {
    let place = packet.transport_at + 13;
    let is_there =
        place < packet.at + packet.bytes && !matches!(packet.fragment, Fragment::Later(_));
    frame.get(place).copied().filter(|_| is_there).unwrap_or_default()
}

impl Settling {
    /// Rules that settle, which were these before.
    pub(super) fn after(before: Vec<Rule>) -> Self {
        Self { before, begun: HashMap::new() }
    }

    /// What a packet of a connection meets, of what it would `now` and would have `before`.
    pub(super) fn target(
        &mut self,
        key: Connection,
        flags: u8,
        now: Option<Target>,
        before: Option<Target>,
        is_alive: impl Fn(u8) -> bool,
    ) -> Option<Target> {
        // One whose app is dead begins at the core, and stays there.
        let begin = |target: Option<Target>| {
            target.map(|mut target| {
                if target.act > Act::Drop as u8 && !is_alive(target.app) {
                    target.act = Act::Pass as u8;
                }
                target
            })
        };
        // Only an app that answers is another end than the core's.
        let end = |target: Option<Target>| {
            target.filter(|target| target.act == Act::Breakout as u8).map(|target| target.app)
        };
        if flags & (SYN | ACK) == SYN {
            self.begun.insert(key, begin(now));
            return now;
        }
        let begun = match self.begun.get(&key) {
            Some(begun) => *begun,
            None => {
                let begun = begin(before);
                if end(begun) != end(now) {
                    self.begun.insert(key, begun);
                }
                begun
            }
        };
        if end(begun) == end(now) { now } else { begun }
    }
}

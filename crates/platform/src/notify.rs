//! Notifications on their way: each is delivered once, or given up after [`ATTEMPTS_MAX`] attempts.
//!
//! Those of one client for one host go one after the other, in their order, so that a host that does not
//! answer, or refuses what one client has sent there, delays nobody else; each may have
//! [`NOTICES_PER_HOST_MAX`] that wait.

use crate::callback::Target;
use crate::limits::{ATTEMPTS_MAX, DELIVERIES_MAX, NOTICES_MAX, NOTICES_PER_HOST_MAX, RETRY_MS};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};

/// A notification.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// Path of the subscription, to say whose it is.
    pub subscription: String,
    /// The client whose subscription it is; nobody where it is the platform's.
    pub owner: Option<String>,
    /// Where to.
    pub target: Target,
    /// What is sent.
    pub body: Value,
}

/// What became of notifications.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Serialize)]
pub struct Notified {
    /// The client took them.
    pub delivered: u64,
    /// The client did not, however often it was asked.
    pub given_up: u64,
    /// There was no room for them.
    pub dropped: u64,
}

impl Notice {
    /// What it waits behind: others of its client for the same host.
    fn line(&self) -> Line {
        (self.owner.clone(), self.target.authority())
    }
}

/// A client, and a host by its authority.
type Line = (Option<String>, String);

/// Notifications that wait, by client and host.
#[derive(Debug, Default)]
pub struct Queue {
    hosts: BTreeMap<Line, Host>,
    waiting: usize,
    under_way: usize,
    /// What became of those before.
    pub notified: Notified,
}

#[derive(Debug, Default)]
struct Host {
    waiting: VecDeque<Notice>,
    attempts: u32,
    due_ms: u64,
    is_asked: bool,
}

impl Queue {
    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Has a notification delivered. One that finds no room is dropped and counted.
    pub fn push(&mut self, notice: Notice) {
        let line = notice.line();
        let host = self.hosts.entry(line.clone()).or_default();
        if self.waiting >= NOTICES_MAX || host.waiting.len() >= NOTICES_PER_HOST_MAX {
            self.notified.dropped += 1;
            if host.waiting.is_empty() && !host.is_asked {
                self.hosts.remove(&line);
            }
            return;
        }
        host.waiting.push_back(notice);
        self.waiting += 1;
    }

    /// The next one to deliver now: what came of it is told with [`Queue::done`].
    pub fn next(&mut self, now_ms: u64) -> Option<Notice> {
        if self.under_way >= DELIVERIES_MAX {
            return None;
        }
        let host = self.hosts.values_mut().filter(|host| !host.is_asked && host.due_ms <= now_ms);
        let host = host.min_by_key(|host| host.due_ms)?;
        let notice = host.waiting.front()?.clone();
        host.is_asked = true;
        host.attempts += 1;
        self.under_way += 1;
        Some(notice)
    }

    /// When [`Queue::next`] has something again, unless something is pushed or done before.
    pub fn due_ms(&self) -> Option<u64> {
        let hosts = self.hosts.values().filter(|host| !host.is_asked);
        hosts.map(|host| host.due_ms).min().filter(|_| self.under_way < DELIVERIES_MAX)
    }

    /// Tells whether the client took a notification of [`Queue::next`].
    pub fn done(&mut self, notice: &Notice, is_taken: bool, now_ms: u64) {
        let line = notice.line();
        let Some(host) = self.hosts.get_mut(&line).filter(|host| host.is_asked) else { return };
        host.is_asked = false;
        self.under_way -= 1;
        let is_over = is_taken || host.attempts >= ATTEMPTS_MAX;
        if !is_over {
            host.due_ms = now_ms + (RETRY_MS << (host.attempts - 1));
            return;
        }
        if is_taken {
            self.notified.delivered += 1;
        } else {
            self.notified.given_up += 1;
        }
        host.waiting.pop_front();
        self.waiting -= 1;
        (host.attempts, host.due_ms) = (0, now_ms);
        if host.waiting.is_empty() {
            self.hosts.remove(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(host: &str, number: u64) -> Notice {
        let target = Target::read(&format!("http://{host}/")).unwrap();
        Notice { subscription: String::new(), owner: None, target, body: number.into() }
    }

    #[test]
    fn a_client_that_is_refused_delays_and_drops_nothing_of_another_at_its_host() {
        let of =
            |owner: &str, number| Notice { owner: Some(owner.to_owned()), ..notice("a", number) };
        let mut queue = Queue::default();
        for number in 0..NOTICES_PER_HOST_MAX as u64 {
            queue.push(of("one", number));
        }
        let other = of("other", 1);
        queue.push(other.clone());
        assert_eq!(queue.notified.dropped, 0);
        let refused = queue.next(0).unwrap();
        queue.done(&refused, false, 0);
        assert_eq!(queue.next(0), Some(other));
    }

    #[test]
    fn a_host_gets_its_notifications_in_their_order_and_delays_nobody_else() {
        let mut queue = Queue::default();
        for (host, number) in [("a", 1), ("a", 2), ("b", 3)] {
            queue.push(notice(host, number));
        }
        let numbers: Vec<_> =
            std::iter::from_fn(|| queue.next(0)).map(|notice| notice.body).collect();
        assert_eq!(numbers, [1, 3]);
        queue.done(&notice("b", 0), true, 0);
        queue.done(&notice("a", 0), false, 0);
        assert_eq!((queue.next(RETRY_MS - 1), queue.due_ms()), (None, Some(RETRY_MS)));
        assert_eq!(queue.next(RETRY_MS).unwrap().body, 1);
        queue.done(&notice("a", 0), true, RETRY_MS);
        assert_eq!(queue.next(RETRY_MS).unwrap().body, 2);
        queue.done(&notice("a", 0), true, RETRY_MS);
        assert_eq!(queue.notified, Notified { delivered: 3, given_up: 0, dropped: 0 });
        assert!(queue.hosts.is_empty() && queue.due_ms().is_none());
    }

    #[test]
    fn attempts_have_an_end() {
        let mut queue = Queue::default();
        queue.push(notice("a", 1));
        queue.push(notice("a", 2));
        let (mut now_ms, mut attempts) = (0, 0);
        while queue.notified.given_up == 0 {
            assert_eq!(queue.next(now_ms).unwrap().body, 1);
            queue.done(&notice("a", 0), false, now_ms);
            attempts += 1;
            now_ms = queue.due_ms().unwrap();
        }
        assert_eq!(attempts, ATTEMPTS_MAX);
        assert_eq!(queue.next(now_ms).unwrap().body, 2);
    }

    #[test]
    fn a_flood_is_bounded() {
        let mut queue = Queue::default();
        for number in 0..2 * NOTICES_PER_HOST_MAX as u64 {
            queue.push(notice("a", number));
        }
        assert_eq!(queue.notified.dropped, NOTICES_PER_HOST_MAX as u64);
        for number in 0..2 * NOTICES_MAX as u64 {
            queue.push(notice(&format!("h{number}"), number));
        }
        assert_eq!(queue.waiting, NOTICES_MAX);
        assert_eq!(std::iter::from_fn(|| queue.next(0)).count(), DELIVERIES_MAX);
        assert!(queue.hosts.len() <= NOTICES_MAX);
    }
}

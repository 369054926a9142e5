//! What happened, kept for whoever asks and pushed to whoever follows.

use super::answers::{Refusal, line};
use super::wall_ms;
use crate::kernel::protocol::Event;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

/// Events kept for whoever asks.
const EVENTS_MAX: usize = 1024;
/// Connections that events are pushed to.
const FOLLOWERS_MAX: usize = 16;

/// The last events.
#[derive(Debug, Default)]
pub(super) struct Events {
    kept: VecDeque<Event>,
    /// The newest one's number.
    newest: u64,
    /// Connections that events are pushed to, each with the last it got.
    followers: Vec<(UnixStream, u64)>,
}

impl Events {
    /// Something happened to somebody.
    pub(super) fn add(&mut self, what: &'static str, subject: String) {
        self.newest += 1;
        if self.kept.len() == EVENTS_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(Event { number: self.newest, at_ms: wall_ms(), what, subject });
    }

    /// Those behind a number.
    pub(super) fn after(&self, number: u64) -> Vec<&Event> {
        self.kept.iter().filter(|event| event.number > number).collect()
    }

    /// Pushes events to whoever follows them. Who does not take them is let go.
    pub(super) fn push(&mut self) {
        let (events, newest) = (&self.kept, self.newest);
        self.followers.retain_mut(|(stream, last)| {
            let newer = events.iter().filter(|event| event.number > *last);
            let lines: Vec<u8> = newer.flat_map(|event| line(Ok(event))).collect();
            *last = newest;
            lines.is_empty() || stream.write(&lines).is_ok_and(|sent| sent == lines.len())
        });
    }

    /// Has a connection follow events from now on.
    pub(super) fn follow(&mut self, stream: UnixStream, after: u64) {
        // Those that hung up: they say nothing else.
        self.followers.retain(|(stream, _)| {
            let mut nothing = [0; 1];
            !matches!((&*stream).read(&mut nothing), Ok(0))
        });
        let is_room = self.followers.len() < FOLLOWERS_MAX;
        if is_room && stream.set_nonblocking(true).is_ok() {
            self.followers.push((stream, after));
        } else {
            let why = format!("{FOLLOWERS_MAX} follow already, which is the most");
            let _ = (&stream).write_all(&line::<()>(Err(Refusal::words(why))));
        }
    }
}

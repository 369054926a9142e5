//! A worker's connections to one origin.

use super::driver::Driver;
use super::session::Session;
use crate::capacity::Permit;
use crate::definition::Origin;
use crate::error::OriginError;
use freshet_net::stream::Stream as Socket;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::task::spawn_local;

/// Connections that carry many exchanges, and one that may be being opened.
#[derive(Default)]
pub(crate) struct Sessions {
    open: Vec<Session>,
    dialing: Option<Rc<Dial>>,
    /// Rung when there may be room.
    pub(crate) room: Rc<Notify>,
    /// Exchanges that wait for it.
    pub(crate) waiting: usize,
}

/// A connection that is being opened, for all who wait for it.
#[derive(Default)]
pub(crate) struct Dial {
    pub(crate) done: Notify,
    pub(crate) failure: RefCell<Option<OriginError>>,
}

impl Sessions {
    /// Those that take exchanges, now or later.
    pub(crate) fn usable(&mut self) -> impl Iterator<Item = &Session> {
        self.open.retain(Session::is_usable);
        self.open.iter()
    }

    /// Drops those that are over; whether any are left, or wanted.
    pub(crate) fn is_needed(&mut self) -> bool {
        self.usable().next().is_some() || self.dialing.is_some() || self.waiting > 0
    }

    /// How many have no exchanges.
    pub(crate) fn idle_len(&self) -> usize {
        self.open.iter().filter(|session| session.is_usable() && session.is_idle()).count()
    }

    /// Takes no more exchanges on any.
    pub(crate) fn retire(&mut self) {
        for session in self.open.drain(..) {
            session.retire();
        }
    }

    /// The same of those that lead to where the origin is no more.
    pub(crate) fn retire_elsewhere(&mut self) {
        self.open.retain(|session| {
            let is_current = session.0.origin.is_at(session.0.remote.as_ref());
            if !is_current {
                session.retire();
            }
            is_current
        });
    }

    /// The same of the one that was opened first.
    pub(crate) fn retire_oldest(&mut self) {
        if !self.open.is_empty() {
            self.open.remove(0).retire();
        }
    }

    /// The connection that is being opened.
    pub(crate) fn dialing(&self) -> Option<Rc<Dial>> {
        self.dialing.clone()
    }

    /// Notes that one is being opened.
    pub(crate) fn begin_dial(&mut self) -> Rc<Dial> {
        let dial = Rc::<Dial>::default();
        self.dialing = Some(Rc::clone(&dial));
        dial
    }

    /// It is not any more.
    pub(crate) fn end_dial(&mut self, dial: &Rc<Dial>) {
        if self.dialing.as_ref().is_some_and(|other| Rc::ptr_eq(other, dial)) {
            self.dialing = None;
        }
        dial.done.notify_waiters();
    }

    /// Takes a connection in, whose driver is a task from now on.
    pub(crate) fn add(&mut self, origin: &Arc<Origin>, socket: Socket, permit: Permit) -> Session {
        let session = Session::new(origin, &socket, &self.room);
        spawn_local(Driver::new(&session, socket, Some(permit)));
        self.open.push(session.clone());
        session
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        self.retire();
    }
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").field("open", &self.open.len()).finish_non_exhaustive()
    }
}

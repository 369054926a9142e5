//! Connections that wait to be accepted.

use super::End;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Mutex, PoisonError};
use std::task::{Poll, Waker};

/// The connections that came to an address, in order, and who waits for the next.
#[derive(Debug, Default)]
pub(crate) struct Queue(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    connections: VecDeque<End>,
    acceptor: Option<Waker>,
}

impl Queue {
    pub(super) fn push(&self, connection: End) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.connections.push_back(connection);
        let acceptor = waiting.acceptor.take();
        drop(waiting);
        if let Some(acceptor) = acceptor {
            acceptor.wake();
        }
    }

    pub(crate) async fn accept(&self) -> End {
        poll_fn(|cx| {
            let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match waiting.connections.pop_front() {
                Some(connection) => Poll::Ready(connection),
                None => {
                    waiting.acceptor = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

//! Interim responses (1xx), and work that may send some before it is done.

use freshet_http::message::ResponseHead;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Interim responses (1xx) on their way to a client; all clones are one queue.
#[derive(Clone, Default)]
pub struct Interim(Rc<RefCell<InterimQueue>>);

#[derive(Default)]
struct InterimQueue {
    heads: VecDeque<ResponseHead>,
    waker: Option<Waker>,
}

/// Interim responses kept for a client that reads slowly; further ones are dropped, which they may
/// be at any time (RFC 9110 §15.2).
const INTERIM_HEADS_MAX: usize = 8;

impl Interim {
    /// Queues an interim response.
    pub fn send(&self, head: ResponseHead) {
        let mut queue = self.0.borrow_mut();
        if queue.heads.len() < INTERIM_HEADS_MAX {
            queue.heads.push_back(head);
        }
        if let Some(waker) = queue.waker.take() {
            waker.wake();
        }
    }

    /// The next one, as a poll.
    #[inline]
    pub fn poll_next(&self, cx: &mut Context<'_>) -> Poll<ResponseHead> {
        let mut queue = self.0.borrow_mut();
        match queue.heads.pop_front() {
            Some(head) => Poll::Ready(head),
            None => {
                queue.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// A piece of work that may send interim responses before it is done.
pub struct Working<'a, F: Future> {
    work: Pin<&'a mut F>,
    interim: &'a Interim,
    done: Option<F::Output>,
}

/// What a piece of work came to next.
pub enum Either<T> {
    /// It is done, and all its interim responses were seen.
    Done(T),
    /// It sent an interim response.
    Interim(ResponseHead),
}

impl<'a, F: Future> Working<'a, F> {
    /// Watches `work`, which sends to `interim`.
    pub fn new(work: Pin<&'a mut F>, interim: &'a Interim) -> Self {
        Self { work, interim, done: None }
    }

    /// Waits for the next interim response, or for the end.
    pub async fn next(&mut self) -> Either<F::Output>
    where
        F::Output: Unpin,
    {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The same as a poll.
    #[inline]
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Either<F::Output>> {
        if self.done.is_none()
            && let Poll::Ready(done) = self.work.as_mut().poll(cx)
        {
            self.done = Some(done);
        }
        // Both may come in one turn: the interim response goes first.
        if let Poll::Ready(head) = self.interim.poll_next(cx) {
            return Poll::Ready(Either::Interim(head));
        }
        self.done.take().map_or(Poll::Pending, |done| Poll::Ready(Either::Done(done)))
    }
}

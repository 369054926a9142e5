//! Several addresses tried one after another, the next one starting while the last still hangs:
//! "happy eyeballs" (RFC 8305 §5), so that a dead address or family costs a quarter of a second
//! and not a connect timeout.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Head start of an attempt over the next; the Connection Attempt Delay RFC 8305 §5 recommends.
pub(crate) const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// A race without a winner.
#[derive(Debug, PartialEq)]
pub(crate) struct Lost<E> {
    /// The address and error of the attempt that failed last; `None` when `deadline` came first.
    pub(crate) error: Option<(SocketAddr, E)>,
    /// The address that was begun last.
    pub(crate) address: Option<SocketAddr>,
}

/// Tries `addresses` in order with `dial` until one answers, starting the next after a failure or
/// [`ATTEMPT_DELAY`], until `deadline`. Losers are dropped. `note` hears how each attempt ended.
pub(crate) async fn race<T, E, F: Future<Output = Result<T, E>>>(
    addresses: &[SocketAddr],
    deadline: Instant,
    dial: impl Fn(SocketAddr) -> F,
    note: impl Fn(SocketAddr, bool),
) -> Result<(SocketAddr, T), Lost<E>> {
    let mut waiting = addresses.iter().copied();
    let mut running: Vec<(SocketAddr, Pin<Box<F>>)> = Vec::new();
    let mut lost = Lost { error: None, address: None };
    let mut timer = std::pin::pin!(sleep_until(deadline));
    let mut start_next = true;
    poll_fn(|cx| {
        loop {
            if start_next {
                start_next = false;
                let next = waiting.next();
                if let Some(address) = next {
                    running.push((address, Box::pin(dial(address))));
                    lost.address = Some(address);
                }
                let patience = Instant::now() + ATTEMPT_DELAY;
                let until = if waiting.len() > 0 { patience.min(deadline) } else { deadline };
                timer.as_mut().reset(until);
            }
            let mut index = 0;
            let mut failed = false;
            while let Some((address, attempt)) = running.get_mut(index) {
                let address = *address;
                match attempt.as_mut().poll(cx) {
                    Poll::Ready(Ok(winner)) => {
                        note(address, false);
                        return Poll::Ready(Ok((address, winner)));
                    }
                    Poll::Ready(Err(error)) => {
                        note(address, true);
                        drop(running.swap_remove(index));
                        lost.error = Some((address, error));
                        failed = true;
                    }
                    Poll::Pending => index += 1,
                }
            }
            if running.is_empty() && waiting.len() == 0 {
                return Poll::Ready(Err(()));
            }
            start_next = failed && waiting.len() > 0;
            if start_next {
                continue;
            }
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if Instant::now() >= deadline {
                running.iter().for_each(|(address, _)| note(*address, true));
                lost.error = None;
                return Poll::Ready(Err(()));
            }
            start_next = true;
        }
    })
    .await
    .map_err(|()| lost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::future::pending;

    /// What an address does: answers or fails after so many milliseconds, or hangs.
    enum Act {
        Answers(u64),
        Fails(u64),
        Hangs,
    }

    fn address(index: usize) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], u16::try_from(index).unwrap()))
    }

    type Notes = Vec<(usize, bool)>;

    async fn run(acts: &[Act], limit_ms: u64) -> (Result<usize, Lost<&'static str>>, u64, Notes) {
        let start = Instant::now();
        let addresses: Vec<_> = (0..acts.len()).map(address).collect();
        let notes = RefCell::new(Vec::new());
        let dial = async |address: SocketAddr| match acts[usize::from(address.port())] {
            Act::Answers(ms) => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Ok(usize::from(address.port()))
            }
            Act::Fails(ms) => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Err("no")
            }
            Act::Hangs => pending().await,
        };
        let note = |address: SocketAddr, failed| {
            notes.borrow_mut().push((usize::from(address.port()), failed));
        };
        let deadline = start + Duration::from_millis(limit_ms);
        let result = race(&addresses, deadline, dial, note).await.map(|(_, winner)| winner);
        (result, start.elapsed().as_millis() as u64, notes.into_inner())
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_wins_when_it_answers() {
        let (result, took_ms, notes) = run(&[Act::Answers(5), Act::Answers(0)], 3000).await;
        assert_eq!((result, took_ms, notes), (Ok(0), 5, vec![(0, false)]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_hanging_address_costs_its_head_start_only() {
        let (result, took_ms, _) = run(&[Act::Hangs, Act::Hangs, Act::Answers(7)], 3000).await;
        assert_eq!((result, took_ms), (Ok(2), 507));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_starts_the_next_at_once() {
        let acts = [Act::Fails(1), Act::Fails(1), Act::Answers(1)];
        let (result, took_ms, notes) = run(&acts, 3000).await;
        assert_eq!((result, took_ms), (Ok(2), 3));
        assert_eq!(notes, [(0, true), (1, true), (2, false)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_first_still_wins_over_a_slower_second() {
        let (result, took_ms, _) = run(&[Act::Answers(300), Act::Answers(100)], 3000).await;
        assert_eq!((result, took_ms), (Ok(0), 300));
    }

    #[tokio::test(start_paused = true)]
    async fn all_refused_is_the_last_refusal_and_all_hanging_is_the_deadline() {
        let (result, took_ms, _) = run(&[Act::Fails(1), Act::Fails(2)], 3000).await;
        let lost = result.unwrap_err();
        assert_eq!((lost.error, took_ms), (Some((address(1), "no")), 3));
        let (result, took_ms, notes) = run(&[Act::Fails(1), Act::Hangs], 400).await;
        let lost = result.unwrap_err();
        assert_eq!((lost.error, lost.address, took_ms), (None, Some(address(1)), 400));
        assert_eq!(notes, [(0, true), (1, true)]);
        let (result, took_ms, _) = run(&[], 400).await;
        assert_eq!((result.unwrap_err().address, took_ms), (None, 0));
    }
}

//! How long a client may keep us waiting for the body of its request.

use freshet_config::limits::Limits;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// What a client is given to send a body in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Terms {
    /// `limits.body_timeout`: how long it may be waited for, besides what its bytes bring.
    pub(super) timeout: Duration,
    /// `limits.body_rate_min`: bytes that bring a second. With 0 any byte brings all of the time.
    pub(super) rate_min: u64,
}

impl Terms {
    /// What is configured.
    pub(super) fn of(limits: &Limits) -> Self {
        Self { timeout: limits.body_timeout, rate_min: limits.body_rate_min }
    }
}

/// The time a client has left. Waiting for it uses time up and each byte brings some back, up to
/// what it had at first: so silence ends a body, and a byte now and then does not keep it.
#[derive(Debug)]
struct Credit {
    terms: Terms,
    left: Duration,
}

impl Credit {
    /// It was waited for.
    fn spend(&mut self, waited: Duration) {
        self.left = self.left.saturating_sub(waited);
    }

    /// Bytes of content came.
    fn earn(&mut self, bytes: usize) {
        let Terms { timeout, rate_min } = self.terms;
        self.left = match (bytes as u64).saturating_mul(1_000_000).checked_div(rate_min) {
            Some(micros) => self.left.saturating_add(Duration::from_micros(micros)).min(timeout),
            None => timeout,
        };
    }
}

/// Waits for a client as long as it has time left. Only the time in which somebody wants bytes and
/// there are none counts: an origin that does not take what has come is not the client's fault.
pub(super) struct Patience {
    credit: Credit,
    /// Since when it is waited for.
    since: Option<Instant>,
    /// Made when something has to be waited for.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    pub(super) fn new(terms: Terms) -> Self {
        Self { credit: Credit { terms, left: terms.timeout }, since: None, timer: None }
    }

    /// From now on each byte brings all of the time back.
    pub(super) fn be_paid_by_any_byte(&mut self) {
        self.credit.terms.rate_min = 0;
    }

    /// Nothing has come. Ready when the time is over.
    pub(super) fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.since.is_none() {
            let now = Instant::now();
            self.since = Some(now);
            let end = now + self.credit.left;
            match &mut self.timer {
                Some(timer) => timer.as_mut().reset(end),
                None => self.timer = Some(Box::pin(sleep_until(end))),
            }
        }
        match &mut self.timer {
            Some(timer) => timer.as_mut().poll(cx),
            None => Poll::Ready(()),
        }
    }

    /// So many bytes of content have come. What brings none is not told.
    pub(super) fn came(&mut self, bytes: usize) {
        if let Some(since) = self.since.take() {
            self.credit.spend(since.elapsed());
        }
        self.credit.earn(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a client is waited for to the end that sends `bytes` after each `pause`, `times`
    /// times.
    fn lasts(rate_min: u64, bytes: usize, pause: Duration, times: u32) -> bool {
        let terms = Terms { timeout: Duration::from_secs(30), rate_min };
        let mut credit = Credit { terms, left: terms.timeout };
        (0..times).all(|_| {
            credit.spend(pause);
            let is_waited_for = !credit.left.is_zero();
            credit.earn(bytes);
            is_waited_for
        })
    }

    #[test]
    fn bytes_pay_for_the_time_that_they_take_and_no_more() {
        let second = Duration::from_secs(1);
        // At the rate and above it for as long as it takes, also with pauses.
        assert!(lasts(500, 500, second, 10_000));
        assert!(lasts(500, 14_500, 29 * second, 1000));
        // A byte now and then is as good as silence.
        assert!(lasts(500, 1, 10 * second, 2));
        assert!(!lasts(500, 1, 10 * second, 4));
        assert!(!lasts(500, 490, second, 10_000));
        assert!(!lasts(500, 1 << 20, 31 * second, 1));
        // Without a rate only silence ends it.
        assert!(lasts(0, 1, 29 * second, 1000));
        assert!(!lasts(0, 1, 31 * second, 1));
    }
}

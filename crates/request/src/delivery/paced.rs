//! A response's body that is given out no faster than a rule allows.

use super::ResponseBody;
use freshet_config::bandwidth::Pace;
use freshet_site::pieces::{BodyBroken, Chunk, Holding, Without};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// What is saved up while nothing could be sent, and the longest step: a client that was slow for a
/// moment makes up for it, and one that was away for long does not get a flood.
const BURST: Duration = Duration::from_millis(250);
/// The shortest wait: each costs a turn of the worker.
const STEP: Duration = Duration::from_millis(20);

/// A body with a rate.
pub struct Paced {
    inner: ResponseBody,
    pace: Pace,
    /// Bytes that may be given out now, of what had come together by `since`.
    allowed: u64,
    since: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Paced {
    pub(crate) fn new(inner: ResponseBody, pace: Pace) -> Self {
        Self { inner, pace, allowed: pace.free_bytes, since: None, sleep: None }
    }

    /// Bytes of a time.
    fn bytes_of(&self, time: Duration) -> u64 {
        let bytes = u128::from(self.pace.rate.get()) * time.as_micros() / 1_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// The time of so many bytes.
    fn time_of(&self, bytes: u64) -> Duration {
        let micros = u128::from(bytes) * 1_000_000 / u128::from(self.pace.rate.get());
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// Adds what has come together. The first step at the rate comes at once.
    fn fill_up(&mut self, now: Instant) {
        let since = self.since.unwrap_or_else(|| now.checked_sub(STEP).unwrap_or(now));
        let earned = self.bytes_of(now.saturating_duration_since(since));
        let most = self.bytes_of(BURST).max(self.allowed).max(1);
        let is_full = earned >= most - self.allowed;
        self.allowed = self.allowed.saturating_add(earned).min(most);
        // What is less than a byte still counts.
        self.since = Some(if is_full { now } else { since + self.time_of(earned) });
    }

    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        bytes_max: usize,
    ) -> Poll<Result<Option<Chunk>, BodyBroken>> {
        // A wait is for a step's worth, however little is left: small ones would be many.
        let least = self.bytes_of(STEP).clamp(1, (bytes_max as u64).max(1));
        if self.allowed < least {
            self.fill_up(Instant::now());
        }
        while self.allowed < least {
            let missing = self.time_of(least - self.allowed) + Duration::from_micros(1);
            let until = self.since.unwrap_or_else(Instant::now) + missing;
            let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(until)));
            if sleep.deadline() != until {
                sleep.as_mut().reset(until);
            }
            ready!(sleep.as_mut().poll(cx));
            self.fill_up(Instant::now());
        }
        let most = bytes_max.min(usize::try_from(self.allowed).unwrap_or(usize::MAX));
        let next = ready!(self.inner.poll_next(cx, most));
        if let Ok(Some(chunk)) = &next {
            self.allowed = self.allowed.saturating_sub(chunk.as_ref().len() as u64);
            self.let_go();
        }
        Poll::Ready(next)
    }

    /// Keeps nothing in memory between its steps, where what is dropped meanwhile can be had again: a
    /// slow pace is no way to hold memory of a node.
    fn let_go(&mut self) {
        if self.since.is_none() {
            return;
        }
        let is_there_again = |holding: Holding| holding.without == Without::GoesOn;
        if self.inner.holding(0).is_some_and(is_there_again) {
            self.inner.loosen();
        }
    }

    /// The body as it comes.
    pub(crate) fn inner(&self) -> &ResponseBody {
        &self.inner
    }

    /// The same, to be changed.
    pub(crate) fn inner_mut(&mut self) -> &mut ResponseBody {
        &mut self.inner
    }

    /// Takes back the last `bytes`, which were not sent.
    pub(crate) fn rewind(&mut self, bytes: usize) {
        self.inner.rewind(bytes);
        self.allowed = self.allowed.saturating_add(bytes as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use std::num::NonZeroU64;

    async fn read(
        rate: u64,
        free_bytes: u64,
        length: usize,
        bytes_max: usize,
    ) -> (Duration, usize) {
        let pace = Pace { rate: NonZeroU64::new(rate).unwrap(), free_bytes };
        let body = ResponseBody::Inline(Bytes::from(vec![0; length]));
        let mut body = ResponseBody::Paced(Box::new(Paced::new(body, pace)));
        let (begun, mut bytes) = (Instant::now(), 0);
        while let Some(chunk) = body.next(bytes_max).await.expect("it is whole") {
            assert!(chunk.as_ref().len() <= bytes_max);
            bytes += chunk.as_ref().len();
        }
        (begun.elapsed(), bytes)
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_takes_the_time_its_rate_says() {
        for (rate, free_bytes, length, seconds) in [
            (1_000_000, 0, 10_000_000, 10.0),
            (1_000_000, 9_000_000, 10_000_000, 1.0),
            (1_000_000, 20_000_000, 10_000_000, 0.0),
            (100, 0, 1_000, 10.0),
            (1, 0, 5, 5.0),
            (u64::MAX, 0, 10_000_000, 0.0),
        ] {
            for bytes_max in [1, 1_500, 1 << 20] {
                if bytes_max == 1 && length > 1_000 {
                    continue;
                }
                let (took, bytes) = read(rate, free_bytes, length, bytes_max).await;
                assert_eq!(bytes, length);
                let wrong_by = (took.as_secs_f64() - seconds).abs();
                assert!(
                    wrong_by <= 0.3_f64.max(1.1 / rate as f64),
                    "{rate} {free_bytes}: {took:?}"
                );
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_client_did_not_take_for_long_does_not_come_at_once() {
        let pace = Pace { rate: NonZeroU64::new(1_000_000).unwrap(), free_bytes: 0 };
        let body = ResponseBody::Inline(Bytes::from(vec![0; 10_000_000]));
        let mut body = ResponseBody::Paced(Box::new(Paced::new(body, pace)));
        body.next(1 << 20).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let chunk = body.next(usize::MAX).await.unwrap().expect("there is more");
        assert_eq!(chunk.as_ref().len(), 250_000);
    }
}

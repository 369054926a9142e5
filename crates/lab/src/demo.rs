//! The live figures of a demonstration: what viewers see and what the origin still has to do.

use crate::origin::Totals;
use crate::viewers::{Figures, Latency};
use std::fmt;
use std::time::Duration;

/// What happened in one interval, one line of it per second on a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Second {
    /// Live channels on offer.
    pub channels: u32,
    /// Titles on demand on offer.
    pub titles: u32,
    /// Viewers that watch something.
    pub viewers: u64,
    /// Responses to viewers per second.
    pub requests_per_second: f64,
    /// Bits of bodies to viewers per second.
    pub bits_per_second: f64,
    /// Times from a request to the head of its response.
    pub first_byte: Latency,
    /// Times that a buffer ran dry.
    pub late: u64,
    /// Errors of all kinds that viewers met.
    pub errors: u64,
    /// Requests that reached the origin, per second.
    pub origin_requests_per_second: f64,
    /// Bits of bodies that left the origin per second.
    pub origin_bits_per_second: f64,
}

impl Second {
    /// The share of bytes that did not come from the origin, 0 to 1; `None` when nothing was sent.
    pub fn byte_hit_ratio(&self) -> Option<f64> {
        let sent = self.bits_per_second > 0.0;
        sent.then(|| (1.0 - self.origin_bits_per_second / self.bits_per_second).clamp(0.0, 1.0))
    }
}

impl fmt::Display for Second {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} channels, {} titles, {} viewers: {:.2} Gbit/s, {:.0} requests/s, \
             first byte p50 {} p99 {}, {} late, {} errors; origin {:.2} Gbit/s",
            self.channels,
            self.titles,
            self.viewers,
            self.bits_per_second / 1e9,
            self.requests_per_second,
            Micros(self.first_byte.p50_us),
            Micros(self.first_byte.p99_us),
            self.late,
            self.errors,
            self.origin_bits_per_second / 1e9,
        )?;
        match self.byte_hit_ratio() {
            Some(ratio) => write!(f, ", {:.1} % of bytes from the cache", ratio * 100.0),
            None => Ok(()),
        }
    }
}

/// Microseconds as people read them.
struct Micros(u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            micros @ 0..1000 => write!(f, "{micros} µs"),
            micros @ 1000..1_000_000 => write!(f, "{:.1} ms", micros as f64 / 1e3),
            micros => write!(f, "{:.2} s", micros as f64 / 1e6),
        }
    }
}

/// Makes [`Second`]s of counters that only grow.
#[derive(Clone, Debug)]
pub struct Sampler {
    channels: u32,
    titles: u32,
    viewers: Figures,
    origin: Totals,
}

impl Sampler {
    /// A sampler for an origin with these programmes; both counters begin at zero.
    pub fn new(channels: u32, titles: u32) -> Self {
        Self { channels, titles, viewers: Figures::default(), origin: Totals::default() }
    }

    /// What happened since the last call, which was `elapsed` (> 0) ago. `first_byte` is of what
    /// [`crate::viewers::Viewers::take_interval`] returned for the same time.
    pub fn sample(
        &mut self,
        viewers: Figures,
        first_byte: Latency,
        origin: Totals,
        elapsed: Duration,
    ) -> Second {
        let seconds = elapsed.as_secs_f64().max(1e-6);
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let errors = |figures: &Figures| figures.errors.total();
        let second = Second {
            channels: self.channels,
            titles: self.titles,
            viewers: viewers.watching,
            requests_per_second: rate(viewers.responses, self.viewers.responses),
            bits_per_second: rate(viewers.body_bytes, self.viewers.body_bytes) * 8.0,
            first_byte,
            late: viewers.late.saturating_sub(self.viewers.late),
            errors: errors(&viewers).saturating_sub(errors(&self.viewers)),
            origin_requests_per_second: rate(origin.requests, self.origin.requests),
            origin_bits_per_second: rate(origin.body_bytes, self.origin.body_bytes) * 8.0,
        };
        (self.viewers, self.origin) = (viewers, origin);
        second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_the_difference_of_two_counts() {
        let mut sampler = Sampler::new(4, 12);
        let figures = |responses, body_bytes| Figures {
            watching: 9,
            responses,
            body_bytes,
            ..Figures::default()
        };
        let origin = |body_bytes| Totals { body_bytes, ..Totals::default() };
        let latency = Latency { count: 3, p50_us: 250, p99_us: 12_345, ..Latency::default() };
        let two = Duration::from_secs(2);
        sampler.sample(figures(100, 1_000_000), latency, origin(0), two);
        let second = sampler.sample(figures(300, 501_000_000), latency, origin(50_000_000), two);
        assert_eq!(
            second.to_string(),
            "4 channels, 12 titles, 9 viewers: 2.00 Gbit/s, 100 requests/s, \
             first byte p50 250 µs p99 12.3 ms, 0 late, 0 errors; origin 0.20 Gbit/s, \
             90.0 % of bytes from the cache"
        );
    }

    #[test]
    fn silence_has_no_hit_ratio() {
        let mut sampler = Sampler::new(1, 0);
        let second = sampler.sample(
            Figures::default(),
            Latency::default(),
            Totals::default(),
            Duration::ZERO,
        );
        assert_eq!(second.byte_hit_ratio(), None);
    }
}

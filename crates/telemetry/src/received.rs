//! What players say of responses they got (CTA-5004-B, response mode).

use freshet_base::counter::Counter;
use freshet_media::cmcd::Response;

/// Counts of one worker.
#[derive(Debug, Default)]
pub struct Received {
    responses: Counter,
    failed: Counter,
    first_bytes: Counter,
    first_byte_ms: Counter,
    last_bytes: Counter,
    last_byte_ms: Counter,
}

/// The sum of these over all workers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ReceivedSums {
    /// Reports of responses.
    pub responses: u64,
    /// Of these, of those that did not come, or came with an error.
    pub failed: u64,
    first_bytes: u64,
    first_byte_ms: u64,
    last_bytes: u64,
    last_byte_ms: u64,
}

impl Received {
    /// Counts what a player says of one.
    pub fn note(&self, response: &Response) {
        self.responses.increment();
        self.failed.add(u64::from(response.is_failed));
        if let Some(ms) = response.first_byte_ms {
            self.first_bytes.increment();
            self.first_byte_ms.add(ms.into());
        }
        if let Some(ms) = response.last_byte_ms {
            self.last_bytes.increment();
            self.last_byte_ms.add(ms.into());
        }
    }

    /// Adds what was counted.
    pub fn add_to(&self, sums: &mut ReceivedSums) {
        sums.responses += self.responses.value();
        sums.failed += self.failed.value();
        sums.first_bytes += self.first_bytes.value();
        sums.first_byte_ms += self.first_byte_ms.value();
        sums.last_bytes += self.last_bytes.value();
        sums.last_byte_ms += self.last_byte_ms.value();
    }
}

impl ReceivedSums {
    /// Mean time from a request to the first byte, in seconds, of those that say it.
    pub fn first_byte_s(&self) -> f64 {
        self.first_byte_ms as f64 / self.first_bytes.max(1) as f64 / 1000.0
    }

    /// The same to the last byte.
    pub fn last_byte_s(&self) -> f64 {
        self.last_byte_ms as f64 / self.last_bytes.max(1) as f64 / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_of_those_that_say_it() {
        let received = Received::default();
        for (is_failed, first_byte_ms, last_byte_ms) in
            [(false, Some(100), Some(1000)), (true, Some(300), None), (true, None, None)]
        {
            received.note(&Response { is_failed, first_byte_ms, last_byte_ms });
        }
        let mut sums = ReceivedSums::default();
        assert_eq!((sums.first_byte_s(), sums.last_byte_s()), (0.0, 0.0));
        received.add_to(&mut sums);
        received.add_to(&mut sums);
        assert_eq!((sums.responses, sums.failed), (6, 4));
        assert_eq!((sums.first_byte_s(), sums.last_byte_s()), (0.2, 1.0));
    }
}

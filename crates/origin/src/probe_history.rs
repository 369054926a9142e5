//! What became of an origin's probes, step by step: what operators are shown of them.

use crate::error::ProbeFailure;
use freshet_net::address::PeerAddress;
use std::time::Duration;

/// How far a probe came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(usize)]
pub enum Step {
    /// Connected over IPv4.
    Ipv4,
    /// Connected over IPv6.
    Ipv6,
    /// Connected to a Unix socket.
    Unix,
    /// The request could not be sent.
    NotSent,
    /// The request was sent.
    Sent,
    /// No answer could be read.
    NotReceived,
    /// An answer came.
    Received,
    /// The answer is a good one.
    Good,
}

/// Bytes that are kept of an answer's first line.
const LINE_BYTES_MAX: usize = 128;
/// Good probes over which their time is averaged.
const AVERAGED_MAX: f64 = 4.0;

impl Step {
    /// All of them, in the order in which they are shown, with a mark and a name for each.
    pub const ALL: [(Self, char, &'static str); 8] = [
        (Self::Ipv4, '4', "Good IPv4"),
        (Self::Ipv6, '6', "Good IPv6"),
        (Self::Unix, 'U', "Good UNIX"),
        (Self::NotSent, 'x', "Error Xmit"),
        (Self::Sent, 'X', "Good Xmit"),
        (Self::NotReceived, 'r', "Error Recv"),
        (Self::Received, 'R', "Good Recv"),
        (Self::Good, 'H', "Happy"),
    ];

    pub(crate) fn connected(peer: Option<PeerAddress>) -> Self {
        match peer {
            Some(PeerAddress::Tcp(address)) if address.is_ipv6() => Self::Ipv6,
            Some(PeerAddress::Tcp(_)) => Self::Ipv4,
            _ => Self::Unix,
        }
    }
}

/// One probe.
#[derive(Clone, Debug, Default)]
pub struct Attempt {
    /// A bit for each [`Step`].
    steps: u8,
    /// First line of the answer, or why there is none.
    pub answer: String,
    /// How long it took.
    pub took: Duration,
}

impl Attempt {
    pub(crate) fn reach(&mut self, step: Step) {
        self.steps |= 1 << step as usize;
    }

    /// Whether it came that far.
    pub fn reached(&self, step: Step) -> bool {
        self.steps >> step as usize & 1 == 1
    }

    /// Notes what came so far.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.reach(Step::Received);
        let line = bytes.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
        let line = line.get(..LINE_BYTES_MAX).unwrap_or(line);
        self.answer = String::from_utf8_lossy(line).into_owned();
    }

    /// Notes why it is not good, where no answer says it.
    pub(crate) fn fail(&mut self, why: &ProbeFailure) {
        if self.reached(Step::Received) {
            return;
        }
        if self.reached(Step::Sent) {
            self.reach(Step::NotReceived);
        }
        self.answer = why.to_string();
    }
}

/// The last 64 probes of an origin.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// For each step, which probes came that far; the last one in bit 0.
    rows: [u64; Step::ALL.len()],
    /// Probes the average is of.
    averaged: f64,
    average_seconds: f64,
}

impl History {
    /// Before the first probe, with these taken for good.
    pub(crate) fn of_good(good: u64) -> Self {
        let mut history = Self { averaged: f64::from(good.count_ones()), ..Self::default() };
        history.averaged = history.averaged.min(AVERAGED_MAX);
        history.rows[Step::Good as usize] = good;
        history
    }

    pub(crate) fn push(&mut self, attempt: &Attempt) {
        for (step, _, _) in Step::ALL {
            let row = &mut self.rows[step as usize];
            *row = *row << 1 | u64::from(attempt.reached(step));
        }
        if attempt.reached(Step::Good) {
            self.averaged = (self.averaged + 1.0).min(AVERAGED_MAX);
            let off = attempt.took.as_secs_f64() - self.average_seconds;
            self.average_seconds += off / self.averaged;
        }
    }

    /// Which of the last 64 probes came as far as `step`; the last one in bit 0.
    pub fn row(&self, step: Step) -> u64 {
        self.rows[step as usize]
    }

    /// Seconds that good probes took of late, on average.
    pub fn average_seconds(&self) -> f64 {
        self.average_seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_kept_for_each_probe_and_good_ones_are_averaged() {
        let mut history = History::of_good(0b11);
        let mut good = Attempt::default();
        for step in [Step::Ipv4, Step::Sent, Step::Good] {
            good.reach(step);
        }
        good.receive(b"HTTP/1.1 200 OK\r\nDate:");
        good.took = Duration::from_secs(3);
        history.push(&good);
        assert_eq!(good.answer, "HTTP/1.1 200 OK");
        let mut silent = Attempt::default();
        silent.reach(Step::Sent);
        silent.fail(&ProbeFailure::OriginTimeout { limit: Duration::from_secs(2) });
        history.push(&silent);
        assert_eq!(history.row(Step::Good), 0b1110);
        assert_eq!(history.row(Step::Sent), 0b11);
        assert_eq!((history.row(Step::Received), history.row(Step::NotReceived)), (0b10, 0b01));
        // Two that were assumed to be good took no time.
        assert!((history.average_seconds() - 1.0).abs() < 1e-9);
    }
}

//! What policies draw at random, and how a test has it repeated.

use freshet_base::random;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Whether numbers are those of [`SEQUENCE`].
static IS_REPEATED: AtomicBool = AtomicBool::new(false);
static SEQUENCE: Mutex<Option<Sequence>> = Mutex::new(None);

/// Has every number from now on be one of the sequence that `seed` begins, as random(3) has it.
pub fn repeat_from(seed: u32) {
    *SEQUENCE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Sequence::new(seed));
    IS_REPEATED.store(true, Relaxed);
}

/// A number nobody can foresee, unless a test has asked for a sequence.
pub(super) fn draw() -> u64 {
    // Two of 31 bits are one of 62.
    repeated(|sequence| u64::from(sequence.next()) << 33 | u64::from(sequence.next()) << 2)
        .unwrap_or_else(random::number)
}

/// One of 31 bits.
pub(super) fn draw_short() -> u32 {
    repeated(Sequence::next).unwrap_or_else(|| (random::number() >> 33) as u32)
}

/// What is next in the sequence a test has asked for.
fn repeated<T>(next: impl FnOnce(&mut Sequence) -> T) -> Option<T> {
    if !IS_REPEATED.load(Relaxed) {
        return None;
    }
    SEQUENCE.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(next)
}

/// The additive generator of random(3): x³¹ + x³ + 1.
#[derive(Debug)]
struct Sequence {
    state: [u32; 31],
    front: usize,
    rear: usize,
}

impl Sequence {
    fn new(seed: u32) -> Self {
        let mut state = [seed; 31];
        for at in 1..state.len() {
            state[at] = park_miller(state[at - 1]);
        }
        let mut sequence = Self { state, front: 3, rear: 0 };
        for _ in 0..10 * state.len() {
            sequence.next();
        }
        sequence
    }

    /// The next number, of 31 bits.
    fn next(&mut self) -> u32 {
        let sum = self.state[self.front].wrapping_add(self.state[self.rear]);
        self.state[self.front] = sum;
        self.front = (self.front + 1) % self.state.len();
        self.rear = (self.rear + 1) % self.state.len();
        sum >> 1
    }
}

/// 7⁵ x mod (2³¹ − 1), from 0 on: Park and Miller, Communications of the ACM 31 (10), p. 1195.
fn park_miller(x: u32) -> u32 {
    let x = u64::from(x % 0x7fff_fffe) + 1;
    u32::try_from(x * 16_807 % 0x7fff_ffff).unwrap_or(1) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_one_varnish_draws_in_tests() {
        let mut sequence = Sequence::new(1);
        let mut next = || {
            let high = f64::from(sequence.next()) / f64::from(1_u32 << 31);
            high + f64::from(sequence.next()) / 2_f64.powi(62)
        };
        let drawn: Vec<String> = (0..4).map(|_| format!("{:.3}", next())).collect();
        assert_eq!(drawn, ["0.656", "0.039", "0.292", "0.636"]);
    }
}

//! What stands in the place of the clock and of chance on a thread that runs a simulated world.
//!
//! Without the feature `simulation` none of this is there, and nobody asks.

use crate::clock::UnixMillis;
use crate::splitmix::{mixed, next};
use std::cell::Cell;
use std::sync::OnceLock;
use std::time::Instant;

/// The wall clock of a world.
pub type Clock = fn() -> UnixMillis;

thread_local! {
    static CLOCK: Cell<Option<Clock>> = const { Cell::new(None) };
    static CHANCE: Cell<u64> = const { Cell::new(0) };
}

/// From now on this thread reads this clock, and what is drawn by chance follows from `seed`. It ends
/// when the result is dropped.
#[must_use]
pub fn begin(clock: Clock, seed: u64) -> Begun {
    CLOCK.set(Some(clock));
    CHANCE.set(mixed(seed));
    Begun(())
}

/// A thread's simulation, until it is dropped.
#[derive(Debug)]
pub struct Begun(());

impl Drop for Begun {
    fn drop(&mut self) {
        CLOCK.set(None);
    }
}

/// The clock of this thread's world, where it has one.
pub(crate) fn clock() -> Option<Clock> {
    CLOCK.get()
}

/// What instants of worlds are counted from: only their differences mean something.
pub(crate) fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

/// A number drawn in this thread's world, where it has one.
pub(crate) fn drawn() -> Option<u64> {
    clock().map(|_| {
        let mut state = CHANCE.get();
        let number = next(&mut state);
        CHANCE.set(state);
        number
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::secret;

    #[test]
    fn a_world_has_its_own_time_and_chance_as_long_as_it_lasts() {
        let drawn: Vec<_> = [1, 1, 2]
            .map(|seed| {
                let _world = begin(|| UnixMillis(7), seed);
                assert_eq!(UnixMillis::now(), UnixMillis(7));
                [secret(), secret()]
            })
            .into();
        assert_eq!(drawn[0], drawn[1]);
        assert_ne!(drawn[0], drawn[2]);
        assert_ne!(drawn[0][0], drawn[0][1]);
        assert_ne!(UnixMillis::now(), UnixMillis(7));
        assert_ne!(secret(), secret());
    }
}

//! What stands in the place of the clock and of chance on a thread that runs a simulated world.
//!
//! Without the feature `simulation` none of this is there, and nobody asks.

use crate::clock::UnixMillis;
use std::cell::Cell;
use std::time::Instant;

/// The clocks of a world.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// The wall clock.
    pub wall: fn() -> UnixMillis,
    /// The monotonic one.
    pub monotonic: fn() -> Instant,
}

thread_local! {
    static CLOCKS: Cell<Option<Clocks>> = const { Cell::new(None) };
    static CHANCE: Cell<u64> = const { Cell::new(0) };
}

/// From now on this thread reads these clocks, and what is drawn by chance follows from `seed`. It ends
/// when the result is dropped.
#[must_use]
pub fn begin(clocks: Clocks, seed: u64) -> Begun {
    CLOCKS.set(Some(clocks));
    CHANCE.set(mixed(seed));
    Begun(())
}

/// A thread's simulation, until it is dropped.
#[derive(Debug)]
pub struct Begun(());

impl Drop for Begun {
    fn drop(&mut self) {
        CLOCKS.set(None);
    }
}

/// The clocks of this thread's world, where it has one.
pub(crate) fn clocks() -> Option<Clocks> {
    CLOCKS.get()
}

/// A number drawn in this thread's world, where it has one.
pub(crate) fn drawn() -> Option<u64> {
    clocks().map(|_| {
        CHANCE.set(CHANCE.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        mixed(CHANCE.get())
    })
}

/// SplitMix64's last step: numbers that are near become numbers that are not.
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::secret;

    #[test]
    fn a_world_has_its_own_time_and_chance_as_long_as_it_lasts() {
        let clocks = Clocks { wall: || UnixMillis(7), monotonic: Instant::now };
        let drawn: Vec<_> = [1, 1, 2]
            .map(|seed| {
                let _world = begin(clocks, seed);
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

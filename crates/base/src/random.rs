//! Randomness for what nobody outside may foresee, as where keys are in a table. Not for keys of
//! cryptography: those are made where they are used.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;

/// 16 bytes that only this process has.
pub fn secret() -> [u8; 16] {
    let mut bytes = [0; 16];
    for half in bytes.chunks_exact_mut(8) {
        half.copy_from_slice(&number().to_ne_bytes());
    }
    bytes
}

/// A number of 64 bits that nobody outside can foresee.
pub fn number() -> u64 {
    #[cfg(feature = "simulation")]
    if let Some(drawn) = crate::simulation::drawn() {
        return drawn;
    }
    RandomState::new().hash_one(0_u8)
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_two_are_the_same() {
        assert_ne!(super::secret(), super::secret());
    }
}

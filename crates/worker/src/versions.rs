//! Which versions of a configuration that others send this node runs, for its metrics.

use std::sync::{Mutex, PoisonError};

/// Numbers of versions; 0 is none.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Numbers {
    /// The one it starts with, and runs unless it is trying another.
    pub kept: u64,
    /// The one it tries.
    pub trying: u64,
    /// The one it refused last.
    pub refused: u64,
}

/// What is known of them; nothing where nobody sends any.
#[derive(Debug, Default)]
pub struct Versions(Mutex<Option<Numbers>>);

impl Versions {
    /// From now on they are so.
    pub fn set(&self, numbers: Numbers) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(numbers);
    }

    /// How they are.
    pub fn numbers(&self) -> Option<Numbers> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

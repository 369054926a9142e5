//! Which content goes to which disk: by class, length and lifetime.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// What may go to a disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Takes {
    /// What the disk is called, and others beside it.
    pub class: Arc<str>,
    /// Lengths of bodies.
    pub bytes: RangeInclusive<u64>,
    /// Shortest lifetime.
    pub lifetime_min: Duration,
}

/// What is to be written.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// The only disks it may go to; any where this is `None`.
    pub class: Option<Arc<str>>,
    /// Length of the body, where it is known.
    pub bytes: Option<u64>,
    /// How long it lives.
    pub lifetime: Duration,
    /// Of which share it is, by [`share_of`](super::share_of); 0 of none.
    pub share: u64,
}

impl Takes {
    /// Whether what is wished for may go there. What has no known length may be of any.
    pub fn accepts(&self, wish: &Wish) -> bool {
        let fits = match wish.bytes {
            Some(bytes) => self.bytes.contains(&bytes),
            None => *self.bytes.end() == u64::MAX,
        };
        fits && wish.lifetime >= self.lifetime_min
            && wish.class.as_ref().is_none_or(|class| *class == self.class)
    }
}

impl Default for Takes {
    fn default() -> Self {
        Self { class: "disk".into(), bytes: 0..=u64::MAX, lifetime_min: Duration::ZERO }
    }
}

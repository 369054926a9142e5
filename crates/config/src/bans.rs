//! How bans are worked off.

use std::time::Duration;

/// How the lurker works.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BanSettings {
    /// How old a ban is when the lurker takes it up: until then requests do most of the work.
    pub lurker_age: Duration,
    /// Rest between two pieces of its work; zero means that it does none.
    pub lurker_sleep: Duration,
    /// Whether a ban takes the place of an older one that says the same.
    pub drops_duplicates: bool,
    /// How many bans an object may be behind: the lurker drops what is behind more instead of testing it, so
    /// that the list, and the tests of a request, have an end. `None` for any number.
    pub behind_max: Option<usize>,
}

impl Default for BanSettings {
    fn default() -> Self {
        Self {
            lurker_age: Duration::from_secs(60),
            lurker_sleep: Duration::from_millis(10),
            drops_duplicates: true,
            behind_max: None,
        }
    }
}

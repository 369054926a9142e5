//! Ways to run the queues, among which the traffic decides.
//!
//! No one way is best for all traffic. What is asked for twice within minutes and never again
//! wants a long small queue, a scan over more than fits wants a short one, and where sizes differ
//! by a thousand it is their sizes that matter most. Each tactic is a setting of the same queues,
//! so changing from one to another moves nothing.

/// What a cache is to have the most of.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Objective {
    /// Hits. A small object is worth more than a large one, since more of them fit: after
    /// GreedyDual-Size-Frequency (Cherkasova, HPL-98-69R1) an object's credit is its uses divided
    /// by its size. For interfaces and pages.
    Requests,
    /// Bytes served from the cache, which is what an origin's link sees. Sizes do not matter: a
    /// byte of a large object is worth as much as one of a small one. For video and downloads.
    #[default]
    Bytes,
}

impl Objective {
    /// The word for it in configuration and interfaces.
    pub fn code(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Bytes => "bytes",
        }
    }
}

/// How an entry gets into the main queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Admission {
    /// By this many uses while it was in the small queue, or by coming back soon after it left
    /// it: S3-FIFO (Yang et al., SOSP 2023).
    Uses(u8),
    /// By more uses than the entry that is next to leave the main queue, as far back as ghosts
    /// remember: the idea of TinyLFU (Einziger et al., ToS 2017) without its sketch. Where a loop
    /// is longer than the cache this keeps a part of it, and the others replace all by all.
    Contest,
    /// At once; there is no small queue. With sizes that is GreedyDual-Size-Frequency.
    Direct,
}

/// What an entry that was used gets to stay in the main queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Worth {
    /// Credit for its uses since it last got some, three at most: quick to forget.
    Recent,
    /// Credit for all uses since it came.
    Total,
}

/// One way to run the queues.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tactic {
    /// Its name, for figures and reports.
    pub name: &'static str,
    /// The part of all bytes that the small queue may have, 0 to 1.
    pub small_share: f64,
    /// How an entry gets into the main queue.
    pub admission: Admission,
    /// What its uses are worth there.
    pub worth: Worth,
}

/// The tactics that are tried. Each is the
/// only one within half a point of the best known policy on some trace and size of cache that
/// `bench/hit-ratio` looks at, or the one that wins by most.
pub const TACTICS: [Tactic; 8] = {
    use Admission::{Contest, Direct, Uses};
    use Worth::{Recent, Total};
    const fn tactic(
        name: &'static str,
        small_share: f64,
        admission: Admission,
        worth: Worth,
    ) -> Tactic {
        Tactic { name, small_share, admission, worth }
    }
    [
        tactic("two-uses-10", 0.1, Uses(2), Recent),
        tactic("one-use-25", 0.25, Uses(1), Recent),
        tactic("one-use-1", 0.01, Uses(1), Recent),
        tactic("one-use-75", 0.75, Uses(1), Recent),
        tactic("one-use-25-total", 0.25, Uses(1), Total),
        tactic("direct-total", 0.0, Direct, Total),
        tactic("contest-10-total", 0.1, Contest, Total),
        tactic("contest-1", 0.01, Contest, Recent),
    ]
};

/// The index of the tactic to begin with. Where sizes matter they matter more than anything else.
pub(crate) const fn first(objective: Objective) -> usize {
    match objective {
        Objective::Requests => 5,
        Objective::Bytes => 0,
    }
}

impl Tactic {
    /// The tactic to begin with.
    pub fn first(objective: Objective) -> Self {
        TACTICS[first(objective)]
    }
}

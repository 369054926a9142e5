//! What is counted of look-ups and of what comes and goes.

use freshet_http::reason::Reason;

/// Why a look-up was not a hit; the names are those of RFC 9211 §2.2.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MissWhy {
    /// Nothing of this resource is stored.
    UriMiss,
    /// Other variants are stored.
    VaryMiss,
    /// What is stored must be validated.
    Stale,
    /// The caller ignored what is stored, because of what the request says.
    Request,
}

impl MissWhy {
    /// The decision as it is told to people. The caller knows more of a stale object and may name
    /// it more exactly.
    pub fn reason(self) -> Reason {
        match self {
            Self::UriMiss => Reason::Miss,
            Self::VaryMiss => Reason::MissVary,
            Self::Stale => Reason::MissExpired,
            Self::Request => Reason::MissRequest,
        }
    }
}

/// Counts kept per shard under its lock.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Look-ups.
    pub lookups: u64,
    /// Look-ups answered from a fresh object.
    pub hits: u64,
    /// Look-ups answered from a stale object that is being refreshed.
    pub hits_stale: u64,
    /// Look-ups that found nothing of the resource and were to fetch it.
    pub misses_uri: u64,
    /// Look-ups that found only variants for other requests and were to fetch theirs.
    pub misses_vary: u64,
    /// Look-ups that found an object that has to be validated, and were to do it.
    pub misses_stale: u64,
    /// Look-ups whose caller would not have what was found.
    pub misses_ignored: u64,
    /// Look-ups that were to fetch without waiting because of a hit-for-miss marker.
    pub hits_for_miss: u64,
    /// Look-ups that joined a fetch under way.
    pub waits: u64,
    /// Look-ups that could not join because too many waited.
    pub waits_refused: u64,
    /// Background refreshes begun.
    pub refreshes: u64,
    /// Objects inserted.
    pub inserted: u64,
    /// Those of them that nobody had asked for yet.
    pub inserted_ahead: u64,
    /// Of these, those that left before anybody asked for them.
    pub left_unasked: u64,
    /// Objects replaced by newer ones of the same variant.
    pub replaced: u64,
    /// Objects evicted because their resource has [`crate::VARIANTS_MAX`] variants.
    pub variants_evicted: u64,
    /// Objects validated by the origin and kept.
    pub validated: u64,
    /// Responses not inserted because they were purged while they were fetched.
    pub refused_purged: u64,
    /// Objects purged, softly or not.
    pub purged: u64,
    /// Objects evicted to make room.
    pub evicted: u64,
    /// Objects the owner took out, as those that became too large.
    pub forgotten: u64,
}

impl Counters {
    pub(crate) fn count_miss(&mut self, why: MissWhy) {
        match why {
            MissWhy::UriMiss => self.misses_uri += 1,
            MissWhy::VaryMiss => self.misses_vary += 1,
            MissWhy::Stale => self.misses_stale += 1,
            MissWhy::Request => self.misses_ignored += 1,
        }
    }

    /// Requests for what is stored, or could be.
    pub(crate) fn storable_requests(&self) -> u64 {
        self.hits + self.hits_stale + self.inserted - self.inserted_ahead + self.validated
    }

    /// Adds what another has counted.
    pub(crate) fn add(&mut self, other: &Self) {
        let Self {
            lookups,
            hits,
            hits_stale,
            misses_uri,
            misses_vary,
            misses_stale,
            misses_ignored,
            hits_for_miss,
            waits,
            waits_refused,
            refreshes,
            inserted,
            inserted_ahead,
            left_unasked,
            replaced,
            variants_evicted,
            validated,
            refused_purged,
            purged,
            evicted,
            forgotten,
        } = other;
        self.lookups += lookups;
        self.hits += hits;
        self.hits_stale += hits_stale;
        self.misses_uri += misses_uri;
        self.misses_vary += misses_vary;
        self.misses_stale += misses_stale;
        self.misses_ignored += misses_ignored;
        self.hits_for_miss += hits_for_miss;
        self.waits += waits;
        self.waits_refused += waits_refused;
        self.refreshes += refreshes;
        self.inserted += inserted;
        self.inserted_ahead += inserted_ahead;
        self.left_unasked += left_unasked;
        self.replaced += replaced;
        self.variants_evicted += variants_evicted;
        self.validated += validated;
        self.refused_purged += refused_purged;
        self.purged += purged;
        self.evicted += evicted;
        self.forgotten += forgotten;
    }
}

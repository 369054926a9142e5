//! Whether clients fare worse than before.

use serde::{Deserialize, Serialize};

/// What a node has counted since its start.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Counts {
    /// Requests answered.
    pub requests: u64,
    /// Those answered with a 5xx.
    pub errors: u64,
    /// Those answered from what is stored.
    pub hits: u64,
}

/// How much worse it may become.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Band {
    /// Points of percent that the share of errors may rise by.
    pub errors_points: u8,
    /// Points of percent that the share of hits may fall by.
    pub hits_points: u8,
    /// With fewer requests than these nothing is concluded.
    pub requests_min: u64,
}

impl Default for Band {
    /// Two points of errors are more than chance with a hundred requests. The share of hits falls by
    /// itself where few requests are for many objects.
    fn default() -> Self {
        Self { errors_points: 2, hits_points: 20, requests_min: 100 }
    }
}

impl Counts {
    /// What was counted since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(before.requests),
            errors: self.errors.saturating_sub(before.errors),
            hits: self.hits.saturating_sub(before.hits),
        }
    }

    /// So many of a hundred requests.
    fn percent(self, part: u64) -> f64 {
        100.0 * part as f64 / self.requests.max(1) as f64
    }
}

impl Band {
    /// Compares what was counted with the new configuration with what was counted before it.
    ///
    /// # Errors
    /// What has become worse than it may.
    pub fn judge(self, before: Counts, with: Counts) -> Result<(), String> {
        if with.requests < self.requests_min {
            return Ok(());
        }
        // Who had no requests had no errors either.
        let (was, is) = (before.percent(before.errors), with.percent(with.errors));
        let of = with.requests;
        if is > was + f64::from(self.errors_points) {
            return Err(format!(
                "{is:.1} % of {of} responses were errors (5xx), {was:.1} % before"
            ));
        }
        let (was, is) = (before.percent(before.hits), with.percent(with.hits));
        if before.requests >= self.requests_min && is < was - f64::from(self.hits_points) {
            return Err(format!("{is:.1} % of {of} requests were hits, {was:.1} % before"));
        }
        Ok(())
    }
}

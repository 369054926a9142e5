//! Whether a client is where it says it is: its word, say by satellites, against what the network measures.
//!
//! Two explanations of the measurements compete. By the one, the client is where it claims to be; by the
//! other it is anywhere, as the [`Filter`](super::filter::Filter) has it. Each says beforehand how likely the next
//! measurement is. The logarithms of the two likelihoods are subtracted, and what is against the claim is summed up
//! since it was least: a CUSUM (Page, 1954). An honest client's sum keeps falling back to nothing, as nobody knows
//! better where it is. A claim is explained in the surroundings that are expected and in harder ones, and doubted
//! when it is likely in neither: a network that is not as expected is no lie of its clients.

use super::propagation::{EXPECTED, HARDER};
use super::tracks::{Measurement, Tracks};

/// The sum from which on a claim is doubted: honest clients of the study pass it once in a thousand
/// seconds or less.
pub(crate) const DOUBT: f64 = 9.0;
/// The sum grows no further, so that a client that is honest again is believed again in the same time.
const SUM_MAX: f64 = 2.0 * DOUBT;
/// No client of a mobile network is faster, in metres a second: 500 km/h, as for high-speed trains (3GPP TR 38.913
/// §7.11).
pub(crate) const SPEED_MAX_M_S: f64 = 139.0;

/// What is known of a client's claims.
#[derive(Clone, Debug)]
pub(crate) struct Claims {
    explanations: [Explanation; 2],
    last_m: Option<[f64; 2]>,
}

/// A client that is where it claims, in some surroundings.
#[derive(Clone, Debug)]
struct Explanation {
    tracks: Tracks,
    /// What speaks against it.
    sum: f64,
}

/// What a claim is found to be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// Nothing speaks against it.
    Consistent,
    /// The network's measurements do.
    Doubted,
    /// Nothing moves so fast.
    TooFast,
}

impl Claims {
    pub(crate) fn new() -> Self {
        let explanations = [EXPECTED, HARDER]
            .map(|surroundings| Explanation { tracks: Tracks::new(1, surroundings), sum: 0.0 });
        Self { explanations, last_m: None }
    }

    /// After a gap the next claim is the first of a series; what speaks against the last one stays.
    pub(crate) fn begin_again(&mut self) {
        let mut fresh = Self::new();
        for (new, old) in fresh.explanations.iter_mut().zip(&self.explanations) {
            new.sum = old.sum;
        }
        *self = fresh;
    }

    /// A claim, with what was measured at its time. `log` is the logarithm of the measurement's likelihood wherever
    /// the client is. The first claim of a series counts for nothing, as nothing is known to compare it by.
    pub(crate) fn check(&mut self, claimed_m: [f64; 2], measurement: &Measurement, log: f64) {
        let moved_m = self.last_m.map(|[x, y]| (claimed_m[0] - x).hypot(claimed_m[1] - y));
        self.last_m = Some(claimed_m);
        for Explanation { tracks, sum } in &mut self.explanations {
            let mut claimed = [0.0];
            tracks.update(measurement, &[claimed_m], moved_m.unwrap_or(0.0), &mut claimed);
            if moved_m.is_some() {
                *sum = (*sum + log - claimed[0]).clamp(0.0, SUM_MAX);
            }
        }
    }

    /// What speaks against the claims, where [`DOUBT`] is 1; 2 at most.
    pub(crate) fn evidence(&self) -> f64 {
        self.explanations.iter().map(|one| one.sum).fold(f64::INFINITY, f64::min) / DOUBT
    }
}

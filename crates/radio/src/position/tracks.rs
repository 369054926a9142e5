//! What stands between each site and a client besides the distance, followed along the client's way:
//! shadowing of the power, and how much longer than straight the way of the signal is.
//!
//! Both change slowly, so that measurements a second apart are not independent: who took them to be so
//! would be far too sure. Each is followed by a scalar Kalman filter, whose variance and gain are the same
//! wherever the client is thought to be, and whose mean is one for each place (Rao-Blackwellisation; Doucet,
//! de Freitas, Murphy and Russell, 2000).

use super::propagation::{
    ADVANCE_NOISE_M, CORRELATION_M, POWER_NOISE_DB, Surroundings, power_dbm, way_m,
};

/// Sites that are followed for one client: the ones measured last.
const TRACKS_MAX: usize = 12;
/// How many deviations a measurement counts at most: what no model foresees is not taken for proof.
const SURPRISE_MAX: f64 = 4.0;
/// The least way between two measurements, in metres: arms and leaves move where a client does not.
const MOVED_M_MIN: f64 = 0.5;

/// Power of a cell at a client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Heard {
    /// Which site: the same number for the same one.
    pub(crate) site: u32,
    /// Where it is.
    pub(crate) site_m: [f64; 2],
    /// What the power is at the first metre.
    pub(crate) first_metre_dbm: f64,
    /// The measured power.
    pub(crate) rsrp_dbm: f64,
}

/// The round trip to the serving cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Advance {
    /// Which site.
    pub(crate) site: u32,
    /// Where it is.
    pub(crate) site_m: [f64; 2],
    /// The measured distance.
    pub(crate) range_m: f64,
    /// In steps of so much.
    pub(crate) step_m: f64,
}

/// What is measured of a client at a time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Measurement {
    /// Cells it hears.
    pub(crate) heard: Vec<Heard>,
    /// Its timing advance, where it is known.
    pub(crate) advance: Option<Advance>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Shadowing,
    Excess,
}

impl Kind {
    /// Mean and deviation before anything is measured.
    fn begin(self, surroundings: Surroundings) -> (f64, f64) {
        let Surroundings { shadowing_db, excess_m } = surroundings;
        match self {
            Self::Shadowing => (0.0, shadowing_db),
            // Of the size of a normal number: √(2/π) and √(1 − 2/π) of its deviation.
            Self::Excess => (0.797_88 * excess_m, 0.602_81 * excess_m),
        }
    }
}

#[derive(Clone, Debug)]
struct Track {
    kind: Kind,
    site: u32,
    variance: f64,
    /// One for each place.
    means: Vec<f32>,
    /// When it was measured last, in updates.
    last: u64,
}

/// All tracks of one client, for a number of places it may be at.
#[derive(Clone, Debug)]
pub(super) struct Tracks {
    tracks: Vec<Track>,
    surroundings: Surroundings,
    places: usize,
    updates: u64,
}

impl Tracks {
    pub(super) fn new(places: usize, surroundings: Surroundings) -> Self {
        Self { tracks: Vec::new(), surroundings, places, updates: 0 }
    }

    /// Takes a measurement in, `moved_m` after the last one. To each of `logs` the logarithm of the measurement's
    /// likelihood at the place is added.
    pub(super) fn update(
        &mut self,
        measurement: &Measurement,
        places_m: &[[f64; 2]],
        moved_m: f64,
        logs: &mut [f64],
    ) {
        self.updates += 1;
        let keeps = (-moved_m.max(MOVED_M_MIN) / CORRELATION_M).exp();
        for track in &mut self.tracks {
            let (mean, deviation) = track.kind.begin(self.surroundings);
            track.variance =
                keeps * keeps * (track.variance - deviation * deviation) + deviation * deviation;
            let pull = ((1.0 - keeps) * mean) as f32;
            track.means.iter_mut().for_each(|one| *one = *one * keeps as f32 + pull);
        }
        for heard in &measurement.heard {
            let noise = POWER_NOISE_DB * POWER_NOISE_DB;
            // Shadowing is what is missing of the power.
            self.weigh(Kind::Shadowing, heard.site, noise, places_m, logs, |place_m| {
                power_dbm(heard.first_metre_dbm, way_m(heard.site_m, place_m)) - heard.rsrp_dbm
            });
        }
        if let Some(advance) = &measurement.advance {
            // Steps are as good as noise, evenly spread over one.
            let noise = ADVANCE_NOISE_M * ADVANCE_NOISE_M + advance.step_m * advance.step_m / 12.0;
            self.weigh(Kind::Excess, advance.site, noise, places_m, logs, |place_m| {
                advance.range_m - way_m(advance.site_m, place_m)
            });
        }
        if self.tracks.len() > TRACKS_MAX {
            self.tracks.sort_by_key(|track| std::cmp::Reverse(track.last));
            self.tracks.truncate(TRACKS_MAX);
        }
    }

    fn weigh(
        &mut self,
        kind: Kind,
        site: u32,
        noise: f64,
        places_m: &[[f64; 2]],
        logs: &mut [f64],
        measured: impl Fn([f64; 2]) -> f64,
    ) {
        let known = self.tracks.iter().position(|track| track.kind == kind && track.site == site);
        let index = known.unwrap_or_else(|| {
            let (mean, deviation) = kind.begin(self.surroundings);
            let means = vec![mean as f32; self.places];
            let variance = deviation * deviation;
            self.tracks.push(Track { kind, site, variance, means, last: 0 });
            self.tracks.len() - 1
        });
        let track = &mut self.tracks[index];
        track.last = self.updates;
        let spread = track.variance + noise;
        let gain = track.variance / spread;
        track.variance *= noise / spread;
        let constant = 0.5 * (std::f64::consts::TAU * spread).ln();
        let deviation = spread.sqrt();
        for ((place_m, mean), log) in places_m.iter().zip(&mut track.means).zip(logs) {
            let surprise = measured(*place_m) - f64::from(*mean);
            let counted = (surprise / deviation).clamp(-SURPRISE_MAX, SURPRISE_MAX);
            *log -= 0.5 * counted * counted + constant;
            *mean += (gain * surprise) as f32;
        }
    }

    /// Has the place at each index be as the one that `from` has there.
    pub(super) fn choose(&mut self, from: &[usize]) {
        for track in &mut self.tracks {
            track.means = from.iter().map(|index| track.means[*index]).collect();
        }
    }
}

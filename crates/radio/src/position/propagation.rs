//! How a signal weakens with distance, and what of a measurement is chance.
//!
//! Urban macro cells without line of sight, 3GPP TR 38.901 §7.4.1: path loss
//! `13.54 + 39.08 log d + 20 log f − 0.6 (h − 1.5)` with d in metres between the antennas, f in GHz and h of a client at
//! 1.5 m, shadowing of 6 dB that is another one after 50 m (table 7.5-6).

/// Deviation of shadowing, in dB.
pub(crate) const SHADOWING_DB: f64 = 6.0;
/// The way after which shadowing, and what a signal goes beside the straight way, have changed: by a
/// factor e, in metres.
pub(crate) const CORRELATION_M: f64 = 50.0;
/// Deviation of a measured power, in dB: half of the 4 dB and more that 3GPP TS 38.133 §10.1 allows.
pub(crate) const POWER_NOISE_DB: f64 = 2.0;
/// Deviation of a measured round trip, as a distance in metres, besides its steps.
pub(crate) const ADVANCE_NOISE_M: f64 = 15.0;
/// How much longer than the straight way the first way of a signal is, in metres: the size of a normal
/// number of this deviation.
pub(crate) const EXCESS_M: f64 = 60.0;
/// What stands between sites and clients in a kind of place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Surroundings {
    /// Deviation of shadowing, in dB.
    pub(crate) shadowing_db: f64,
    /// How much longer than the straight way the first way of a signal is, in metres: the size of a normal
    /// number of this deviation.
    pub(crate) excess_m: f64,
}

/// What estimates expect.
pub(crate) const EXPECTED: Surroundings =
    Surroundings { shadowing_db: SHADOWING_DB, excess_m: EXCESS_M };
/// What is thinkable: half more of shadowing, twice as much more of the way.
pub(crate) const HARDER: Surroundings =
    Surroundings { shadowing_db: 1.5 * SHADOWING_DB, excess_m: 2.0 * EXCESS_M };
/// A step of the timing advance of NR with subcarriers of 30 kHz, in metres of distance (3GPP TS 38.213 §4.2).
pub(crate) const ADVANCE_STEP_NR_M: f64 = 39.0;
/// A step of the timing advance of LTE (3GPP TS 36.211 §8).
pub(crate) const ADVANCE_STEP_LTE_M: f64 = 78.125;
/// The frequency where none is said, in GHz.
pub(crate) const FREQUENCY_GHZ: f64 = 3.5;
/// How much higher than a client's an antenna is: 25 m and 1.5 m (table 7.4.1-1).
const ANTENNA_M: f64 = 23.5;
/// Decibels by the factor of ten of a distance.
const SLOPE_DB: f64 = 39.08;
/// Nearer than this, no formula holds.
const DISTANCE_M_MIN: f64 = 10.0;

/// The straight way between the antennas of a site and a client, in metres.
pub(crate) fn way_m(site_m: [f64; 2], client_m: [f64; 2]) -> f64 {
    let away_m = (site_m[0] - client_m[0]).hypot(site_m[1] - client_m[1]);
    away_m.max(DISTANCE_M_MIN).hypot(ANTENNA_M)
}

/// What the power would be at the first metre, in dBm, of a cell that sends `power_dbm` with its antenna's
/// gain.
pub(crate) fn first_metre_dbm(power_dbm: f64, frequency_ghz: f64) -> f64 {
    power_dbm - 13.54 - 20.0 * frequency_ghz.log10()
}

/// The power without shadowing after a way, in dBm.
pub(crate) fn power_dbm(first_metre_dbm: f64, way_m: f64) -> f64 {
    first_metre_dbm - SLOPE_DB * way_m.log10()
}

/// The distance over the ground after which there is this power without shadowing, in metres.
pub(crate) fn distance_m(first_metre_dbm: f64, power_dbm: f64) -> f64 {
    let way_m = 10_f64.powf((first_metre_dbm - power_dbm) / SLOPE_DB);
    (way_m * way_m - ANTENNA_M * ANTENNA_M).max(DISTANCE_M_MIN * DISTANCE_M_MIN).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_of_a_power_is_the_one_it_has_there() {
        let first_dbm = first_metre_dbm(18.0, FREQUENCY_GHZ);
        for distance in [30.0, 250.0, 1700.0] {
            let power = power_dbm(first_dbm, way_m([0.0, 0.0], [distance, 0.0]));
            assert!((distance_m(first_dbm, power) - distance).abs() < 1e-6);
        }
        // At 250 m: 13.54 + 39.08 log 251.1 + 20 log 3.5 = 118.2 dB.
        let loss_db = 18.0 - power_dbm(first_dbm, way_m([0.0, 0.0], [250.0, 0.0]));
        assert!((loss_db - 118.2).abs() < 0.1, "{loss_db}");
    }
}

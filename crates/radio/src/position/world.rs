//! A radio network that is none: sites on a hexagonal grid and clients that walk and drive among them, with
//! what would be measured of them. The same seed gives the same network.

use super::propagation::{
    ADVANCE_NOISE_M, ADVANCE_STEP_NR_M, CORRELATION_M, EXCESS_M, FREQUENCY_GHZ, POWER_NOISE_DB,
    SHADOWING_DB, first_metre_dbm, power_dbm, way_m,
};
use super::tracks::{Advance, Heard, Measurement};
use crate::random::Random;

/// Power of a reference signal at the antenna, with its gain, in dBm.
pub(crate) const POWER_DBM: f64 = 18.0;
/// Cells of which a client reports the power, the strongest ones.
pub(crate) const HEARD: usize = 6;
/// A neighbour has to be this much stronger before a client changes to it.
const HYSTERESIS_DB: f64 = 3.0;
/// How often a client turns a corner, in times a second.
const CORNERS_PER_S: f64 = 1.0 / 30.0;

/// What a network is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Rings of sites around the one in the middle.
    pub(crate) rings: i32,
    /// Metres between neighbouring sites.
    pub(crate) site_distance_m: f64,
    /// Clients turn at this distance from the middle, in metres.
    pub(crate) radius_m: f64,
    /// Steps of the timing advance, in metres.
    pub(crate) advance_step_m: f64,
    /// Deviation of shadowing, in dB.
    pub(crate) shadowing_db: f64,
    /// How much longer than the straight way signals go, in metres: the size of a normal number of this deviation.
    pub(crate) excess_m: f64,
}

impl Layout {
    /// Sites of a city so far apart, with what the estimates expect of it.
    pub(crate) const fn new(rings: i32, site_distance_m: f64) -> Self {
        Self {
            rings,
            site_distance_m,
            radius_m: 1.5 * site_distance_m,
            advance_step_m: ADVANCE_STEP_NR_M,
            shadowing_db: SHADOWING_DB,
            excess_m: EXCESS_M,
        }
    }
}

/// A network.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) layout: Layout,
    /// Where sites are, in metres from the middle, which is the first.
    pub(crate) sites: Vec<[f64; 2]>,
    pub(crate) random: Random,
}

/// A client.
#[derive(Clone, Debug)]
pub(crate) struct Walker {
    pub(crate) place_m: [f64; 2],
    velocity_m_s: [f64; 2],
    /// Of each site, in dB.
    shadowing: Vec<f64>,
    /// Of each site, of whose size the excess of the way is.
    excess: Vec<f64>,
    /// The serving site.
    pub(crate) site: usize,
}

impl World {
    pub(crate) fn new(layout: Layout, seed: u64) -> Self {
        let rings = layout.rings;
        let mut sites = Vec::new();
        for q in -rings..=rings {
            for r in (-rings).max(-q - rings)..=rings.min(-q + rings) {
                // Axial coordinates of a hexagonal grid.
                let [q, r] = [q, r].map(f64::from);
                let height = 3_f64.sqrt() / 2.0;
                sites.push([q + r / 2.0, r * height].map(|length| length * layout.site_distance_m));
            }
        }
        sites.sort_by(|one, other| order(one).total_cmp(&order(other)));
        Self { layout, sites, random: Random::new(seed) }
    }

    /// A client somewhere within, who moves with 1 to 15 m/s.
    pub(crate) fn walker(&mut self) -> Walker {
        let place_m = [0, 1].map(|_| (self.random.uniform() - 0.5) * self.layout.radius_m);
        let (sin, cos) = (self.random.uniform() * std::f64::consts::TAU).sin_cos();
        let speed = 1.0 + 14.0 * self.random.uniform();
        let [shadowing, excess] = [self.layout.shadowing_db, self.layout.excess_m]
            .map(|deviation| self.sites.iter().map(|_| deviation * self.random.normal()).collect());
        let velocity_m_s = [speed * cos, speed * sin];
        let mut walker = Walker { place_m, velocity_m_s, shadowing, excess, site: 0 };
        walker.site = self.strongest(&walker);
        walker
    }

    /// Moves a client for a time, in seconds.
    pub(crate) fn walk(&mut self, walker: &mut Walker, passed_s: f64) {
        let Layout { shadowing_db, excess_m, radius_m, .. } = self.layout;
        let random = &mut self.random;
        let step = walker.velocity_m_s.map(|speed| speed * passed_s);
        for (place, step) in walker.place_m.iter_mut().zip(step) {
            *place += step;
        }
        let [x, y] = walker.place_m;
        let [dx, dy] = walker.velocity_m_s;
        let is_leaving = x.hypot(y) > radius_m && x * dx + y * dy > 0.0;
        let is_corner = random.uniform() < 1.0 - (-CORNERS_PER_S * passed_s).exp();
        if is_leaving || is_corner {
            let aside = 0.5 * (random.uniform() - 0.5);
            let turn = match (is_leaving, random.uniform() < 0.5) {
                (true, _) => std::f64::consts::PI,
                (false, true) => std::f64::consts::FRAC_PI_2,
                (false, false) => -std::f64::consts::FRAC_PI_2,
            };
            let (sin, cos) = (turn + aside).sin_cos();
            walker.velocity_m_s = [dx * cos - dy * sin, dx * sin + dy * cos];
        }
        let keeps = (-step[0].hypot(step[1]) / CORRELATION_M).exp();
        let fresh = (1.0 - keeps * keeps).sqrt();
        for value in &mut walker.shadowing {
            *value = keeps * *value + fresh * shadowing_db * random.normal();
        }
        for value in &mut walker.excess {
            *value = keeps * *value + fresh * excess_m * random.normal();
        }
        let best = self.strongest(walker);
        if self.power_dbm(walker, best) > self.power_dbm(walker, walker.site) + HYSTERESIS_DB {
            walker.site = best;
        }
    }

    /// What is measured of a client now: powers in whole dB (3GPP TS 38.133 §10.1.6) and the timing advance of
    /// the serving site.
    pub(crate) fn measure(&mut self, walker: &Walker) -> Measurement {
        let first_metre_dbm = first_metre_dbm(POWER_DBM, FREQUENCY_GHZ);
        let mut heard: Vec<Heard> = (0..self.sites.len())
            .map(|site| {
                let noise = POWER_NOISE_DB * self.random.normal();
                let rsrp_dbm = (self.power_dbm(walker, site) + noise).round();
                let site_m = self.sites[site];
                Heard { site: site as u32, site_m, first_metre_dbm, rsrp_dbm }
            })
            .collect();
        // The serving cell is always among them.
        let is_serving = |one: &Heard| one.site == walker.site as u32;
        heard.sort_by(|one, other| {
            let order = is_serving(other).cmp(&is_serving(one));
            order.then(other.rsrp_dbm.total_cmp(&one.rsrp_dbm))
        });
        heard.truncate(HEARD);
        let excess_m = walker.excess[walker.site].abs();
        let site_m = self.sites[walker.site];
        let range_m =
            way_m(site_m, walker.place_m) + excess_m + ADVANCE_NOISE_M * self.random.normal();
        let step_m = self.layout.advance_step_m;
        let range_m = (range_m.max(0.0) / step_m).round() * step_m;
        let advance = Some(Advance { site: walker.site as u32, site_m, range_m, step_m });
        Measurement { heard, advance }
    }

    /// The power of a site at a client, in dBm.
    pub(crate) fn power_dbm(&self, walker: &Walker, site: usize) -> f64 {
        let way_m = way_m(self.sites[site], walker.place_m);
        power_dbm(first_metre_dbm(POWER_DBM, FREQUENCY_GHZ), way_m) - walker.shadowing[site]
    }

    fn strongest(&self, walker: &Walker) -> usize {
        let powers = (0..self.sites.len()).map(|site| (site, self.power_dbm(walker, site)));
        powers.max_by(|one, other| one.1.total_cmp(&other.1)).map_or(0, |(site, _)| site)
    }
}

/// Sites from the middle out, and around it from the east.
fn order([x, y]: &[f64; 2]) -> f64 {
    x.hypot(*y).round() * 10.0 + y.atan2(*x).rem_euclid(std::f64::consts::TAU)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_world_is_a_grid_with_clients_that_stay_in_it() {
        let mut world = World::new(Layout::new(2, 500.0), 3);
        assert_eq!((world.sites.len(), world.sites[0]), (19, [0.0, 0.0]));
        let between = |one: [f64; 2], other: [f64; 2]| (one[0] - other[0]).hypot(one[1] - other[1]);
        for (index, site) in world.sites.iter().enumerate() {
            let others = world.sites.iter().enumerate().filter(|(other, _)| *other != index);
            let nearest = others.map(|(_, other)| between(*site, *other)).fold(f64::MAX, f64::min);
            assert!((nearest - 500.0).abs() < 1e-6, "{site:?}: {nearest}");
        }
        let mut walker = world.walker();
        for _ in 0..2000 {
            world.walk(&mut walker, 1.0);
            assert!(walker.place_m[0].hypot(walker.place_m[1]) < 800.0);
            let measured = world.measure(&walker);
            assert_eq!(measured.heard.len(), HEARD);
            assert_eq!(measured.heard[0].site as usize, walker.site);
        }
    }
}

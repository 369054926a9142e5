//! A radio network that is none: seven sites on a hexagonal grid and clients that walk and drive among
//! them. The same seed gives the same network.
//!
//! Path loss is that of urban macro cells without line of sight at 3.5 GHz (3GPP TR 38.901 §7.4.1), with
//! shadowing that changes with the distance walked.

mod others;

use super::{Bearer, Cell, Client, Radio};
use serde_json::Value;

/// Where it is said to be.
const CENTRE: [f64; 2] = [60.170, 24.940];
/// Metres between neighbouring sites.
const SITE_DISTANCE_M: f64 = 500.0;
/// Clients turn at this distance from the middle.
const RADIUS_M: f64 = 750.0;
/// A neighbour has to be this much stronger before a client changes to it.
const HYSTERESIS_DB: f64 = 3.0;
const SHADOWING_DB: f64 = 6.0;
const SHADOWING_M: f64 = 50.0;
/// Power of a reference signal at the antenna, with its gain.
const POWER_DBM: f64 = 18.0;
/// The step of a timing advance of NR, subcarriers of 30 kHz.
const ADVANCE_STEP_M: f64 = 39.0;
const METRES_PER_DEGREE: f64 = 111_195.0;
/// Longest step of a walk: a simulator that was not asked for a while does not jump.
const STEP_S_MAX: f64 = 5.0;

/// The simulator.
#[derive(Clone, Debug)]
pub struct Simulator {
    random: u64,
    sites: Vec<[f64; 2]>,
    walkers: Vec<Walker>,
    last_ms: Option<u64>,
    begun_ms: Option<u64>,
}

#[derive(Clone, Debug)]
struct Walker {
    position_m: [f64; 2],
    velocity_m_s: [f64; 2],
    /// Of each site, in dB.
    shadowing: Vec<f64>,
    cell: usize,
}

impl Simulator {
    /// A network with so many clients, at most 250.
    pub fn new(seed: u64, clients: usize) -> Self {
        let ring = (0..6).map(|corner| {
            let angle = f64::from(corner) * std::f64::consts::FRAC_PI_3;
            [SITE_DISTANCE_M * angle.cos(), SITE_DISTANCE_M * angle.sin()]
        });
        let sites: Vec<[f64; 2]> = std::iter::once([0.0, 0.0]).chain(ring).collect();
        let mut simulator =
            Self { random: seed, sites, walkers: Vec::new(), last_ms: None, begun_ms: None };
        for _ in 0..clients.min(250) {
            let position_m = [0, 1].map(|_| (simulator.uniform() - 0.5) * RADIUS_M);
            let (angle, speed) =
                (simulator.uniform() * std::f64::consts::TAU, 1.0 + 14.0 * simulator.uniform());
            let velocity_m_s = [speed * angle.cos(), speed * angle.sin()];
            let shadowing =
                (0..simulator.sites.len()).map(|_| SHADOWING_DB * simulator.normal()).collect();
            let mut walker = Walker { position_m, velocity_m_s, shadowing, cell: 0 };
            walker.cell = simulator.strongest(&walker);
            simulator.walkers.push(walker);
        }
        simulator
    }

    /// Moves everybody to a time, and tells what there is.
    pub fn report(&mut self, now_ms: u64) -> Radio {
        let passed_ms = now_ms.saturating_sub(self.last_ms.unwrap_or(now_ms));
        self.last_ms = Some(now_ms);
        self.begun_ms.get_or_insert(now_ms);
        let step_s = (passed_ms as f64 / 1000.0).min(STEP_S_MAX);
        let mut walkers = std::mem::take(&mut self.walkers);
        let clients = walkers.iter_mut().enumerate().map(|(index, walker)| {
            self.walk(walker, step_s);
            self.client(index, walker)
        });
        let clients = clients.collect();
        self.walkers = walkers;
        let cells = self.sites.iter().enumerate().map(|(index, site)| Cell {
            id: cell_id(index),
            zone: if site[1] >= -1.0 { "north" } else { "south" }.to_owned(),
            position: position(*site),
        });
        let plmn = ["001".to_owned(), "01".to_owned()];
        Radio { source: "simulator".to_owned(), plmn, cells: cells.collect(), clients }
    }

    /// What the networks beside it tell at the time of the last report, by their feeds.
    pub fn others(&self) -> [(&'static str, Value); 3] {
        let now_ms = self.last_ms.unwrap_or(0);
        let run_s = now_ms.saturating_sub(self.begun_ms.unwrap_or(now_ms)) / 1000;
        let positions: Vec<[f64; 2]> =
            self.walkers.iter().map(|walker| walker.position_m).collect();
        [
            ("wlan", others::wlan(&positions, now_ms)),
            ("fixed", others::fixed(now_ms, run_s)),
            ("v2x", others::vehicles(&self.sites)),
        ]
    }

    fn walk(&mut self, walker: &mut Walker, step_s: f64) {
        let step = walker.velocity_m_s.map(|speed| speed * step_s);
        for (place, step) in walker.position_m.iter_mut().zip(step) {
            *place += step;
        }
        let [x, y] = walker.position_m;
        let is_leaving = x * walker.velocity_m_s[0] + y * walker.velocity_m_s[1] > 0.0;
        if x.hypot(y) > RADIUS_M && is_leaving {
            let [dx, dy] = walker.velocity_m_s;
            // Back, and a little aside.
            let (sin, cos) = (std::f64::consts::PI + 0.5 * (self.uniform() - 0.5)).sin_cos();
            walker.velocity_m_s = [dx * cos - dy * sin, dx * sin + dy * cos];
        }
        let keeps = (-step[0].hypot(step[1]) / SHADOWING_M).exp();
        for index in 0..walker.shadowing.len() {
            let fresh = SHADOWING_DB * (1.0 - keeps * keeps).sqrt() * self.normal();
            walker.shadowing[index] = keeps * walker.shadowing[index] + fresh;
        }
        let best = self.strongest(walker);
        if self.rsrp(walker, best) > self.rsrp(walker, walker.cell) + HYSTERESIS_DB {
            walker.cell = best;
        }
    }

    fn client(&mut self, index: usize, walker: &Walker) -> Client {
        let rsrp_dbm = self.rsrp(walker, walker.cell);
        let others: f64 =
            (0..self.sites.len()).map(|site| 10_f64.powf(self.rsrp(walker, site) / 10.0)).sum();
        let rsrq_db = (rsrp_dbm - 10.0 * others.log10() - 10.8).clamp(-19.5, -3.0);
        let noise = [self.normal(), self.normal()].map(|noise| 40.0 * noise);
        let seen = [walker.position_m[0] + noise[0], walker.position_m[1] + noise[1]];
        let distance_m = self.distance_m(walker, walker.cell);
        let number = index as u32 + 1;
        Client {
            address: [10, 45, 0, number as u8 + 1].into(),
            cell: cell_id(walker.cell),
            bearer: Bearer {
                id: 5,
                qci: 9,
                teids: [0x100 + number, 0x200 + number],
                ends: [[10, 3, 0, walker.cell as u8 + 1].into(), [10, 3, 0, 240].into()],
            },
            rsrp_dbm: Some(rsrp_dbm),
            rsrq_db: Some(rsrq_db),
            timing_advance_m: Some((distance_m / ADVANCE_STEP_M).round() * ADVANCE_STEP_M),
            position: position(seen),
            // Two deviations of the noise on each axis hold 86 % of positions.
            accuracy_m: 80.0,
        }
    }

    fn strongest(&self, walker: &Walker) -> usize {
        let powers = (0..self.sites.len()).map(|site| (site, self.rsrp(walker, site)));
        powers.max_by(|one, other| one.1.total_cmp(&other.1)).map_or(0, |(site, _)| site)
    }

    fn distance_m(&self, walker: &Walker, site: usize) -> f64 {
        let [x, y] = self.sites[site];
        (walker.position_m[0] - x).hypot(walker.position_m[1] - y).max(10.0)
    }

    fn rsrp(&self, walker: &Walker, site: usize) -> f64 {
        // 13.54 + 39.08 log d + 20 log f − 0.6 (h − 1.5), with f in GHz and the client's h at 1.5 m.
        let loss = 13.54
            + 39.08 * self.distance_m(walker, site).hypot(23.5).log10()
            + 20.0 * 3.5_f64.log10();
        POWER_DBM - loss - walker.shadowing[site]
    }

    /// SplitMix64 (Steele, Lea and Flood, 2014).
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

fn cell_id(index: usize) -> String {
    format!("{:07x}", 0x001_0100 + index)
}

fn position([x, y]: [f64; 2]) -> [f64; 2] {
    let longitude = METRES_PER_DEGREE * CENTRE[0].to_radians().cos();
    [CENTRE[0] + y / METRES_PER_DEGREE, CENTRE[1] + x / longitude]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::radio::distance_m;

    #[test]
    fn a_seed_is_a_network_in_which_clients_move_and_change_cells() {
        let run = |seed| {
            let mut simulator = Simulator::new(seed, 12);
            (0..600).map(|second| simulator.report(second * 1000)).collect::<Vec<_>>()
        };
        let reports = run(7);
        assert_eq!(reports, run(7));
        assert_ne!(reports, run(8));
        let changes =
            reports.windows(2).flat_map(|pair| pair[0].clients.iter().zip(&pair[1].clients));
        let changes = changes.filter(|(before, after)| before.cell != after.cell).count();
        // Twelve clients, ten minutes, at 8 m/s on average: a cell each minute or so, and no ping-pong.
        assert!((30..600).contains(&changes), "{changes}");
        for client in reports.iter().flat_map(|report| &report.clients) {
            let [rsrp_dbm, rsrq_db] = [client.rsrp_dbm, client.rsrq_db].map(Option::unwrap);
            assert!((-140.0..-44.0).contains(&rsrp_dbm), "{client:?}");
            assert!((-19.5..=-3.0).contains(&rsrq_db), "{client:?}");
        }
        assert!(reports.iter().all(|report| report.mistake().is_none()));
    }

    #[test]
    fn what_is_said_of_a_position_is_nearly_so_accurate() {
        let mut simulator = Simulator::new(3, 100);
        let (mut within, mut all) = (0, 0);
        for second in 0..100 {
            let report = simulator.report(second * 1000);
            for (walker, client) in simulator.walkers.iter().zip(&report.clients) {
                all += 1;
                within += usize::from(
                    distance_m(position(walker.position_m), client.position) <= client.accuracy_m,
                );
            }
        }
        let share = f64::from(within as u32) / f64::from(all as u32);
        assert!((share - 0.865).abs() < 0.02, "{share}");
    }
}

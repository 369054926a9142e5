//! A radio network that is none: seven sites on a hexagonal grid and clients that walk and drive among
//! them. The same seed gives the same network.
//!
//! Path loss is that of urban macro cells without line of sight at 3.5 GHz (3GPP TR 38.901 §7.4.1), with
//! shadowing that changes with the distance walked.

mod others;

use crate::position::Plane;
use crate::position::propagation::ADVANCE_STEP_NR_M;
use crate::position::world::{Layout, POWER_DBM, Walker, World};
use crate::{Bearer, Cell, Client, Neighbour, Radio};
use serde_json::Value;

/// Where it is said to be.
const CENTRE: [f64; 2] = [60.170, 24.940];
/// Metres between neighbouring sites.
const SITE_DISTANCE_M: f64 = 500.0;
/// Longest step of a walk: a simulator that was not asked for a while does not jump.
const STEP_S_MAX: f64 = 5.0;
/// Clients there may be: they have addresses of one network of 24 bits.
pub const CLIENTS_MAX: usize = 250;

/// The simulator.
#[derive(Clone, Debug)]
pub struct Simulator {
    world: World,
    walkers: Vec<Walker>,
    last_ms: Option<u64>,
    begun_ms: Option<u64>,
}

impl Simulator {
    /// A network with so many clients, at most [`CLIENTS_MAX`].
    pub fn new(seed: u64, clients: usize) -> Self {
        let mut world = World::new(Layout::new(1, SITE_DISTANCE_M), seed);
        let walkers = (0..clients.min(CLIENTS_MAX)).map(|_| world.walker()).collect();
        Self { world, walkers, last_ms: None, begun_ms: None }
    }

    /// Moves everybody to a time, and tells what there is. Where clients are it does not say: that is estimated
    /// by what is measured of them.
    pub fn report(&mut self, now_ms: u64) -> Radio {
        let passed_ms = now_ms.saturating_sub(self.last_ms.unwrap_or(now_ms));
        self.last_ms = Some(now_ms);
        self.begun_ms.get_or_insert(now_ms);
        let step_s = (passed_ms as f64 / 1000.0).min(STEP_S_MAX);
        let world = &mut self.world;
        let clients = self.walkers.iter_mut().enumerate().map(|(index, walker)| {
            world.walk(walker, step_s);
            client(world, index, walker)
        });
        let clients = clients.collect();
        let cells = self.world.sites.iter().enumerate().map(|(index, site)| Cell {
            id: cell_id(index),
            zone: if site[1] >= -1.0 { "north" } else { "south" }.to_owned(),
            position: position(*site),
            power_dbm: Some(POWER_DBM),
            frequency_mhz: None,
            advance_step_m: Some(ADVANCE_STEP_NR_M),
        });
        let plmn = ["001".to_owned(), "01".to_owned()];
        Radio { source: "simulator".to_owned(), plmn, cells: cells.collect(), clients }
    }

    /// Where clients really are, in degrees, in the order of reports: what an estimate can be held against.
    pub fn truth(&self) -> Vec<[f64; 2]> {
        self.walkers.iter().map(|walker| position(walker.place_m)).collect()
    }

    /// What the networks beside it tell at the time of the last report, by their feeds.
    pub fn others(&self) -> [(&'static str, Value); 3] {
        let now_ms = self.last_ms.unwrap_or(0);
        let run_s = now_ms.saturating_sub(self.begun_ms.unwrap_or(now_ms)) / 1000;
        let positions: Vec<[f64; 2]> = self.walkers.iter().map(|walker| walker.place_m).collect();
        [
            ("wlan", others::wlan(&positions, now_ms)),
            ("fixed", others::fixed(now_ms, run_s)),
            ("v2x", others::vehicles(&self.world.sites)),
        ]
    }
}

fn client(world: &mut World, index: usize, walker: &Walker) -> Client {
    let measured = world.measure(walker);
    let sites = 0..world.sites.len();
    let others: f64 = sites.map(|site| 10_f64.powf(world.power_dbm(walker, site) / 10.0)).sum();
    let power_dbm = world.power_dbm(walker, walker.site);
    let rsrq_db = (power_dbm - 10.0 * others.log10() - 10.8).clamp(-19.5, -3.0);
    let number = index as u32 + 1;
    // The serving cell is the first of those heard.
    let neighbours = measured
        .heard
        .iter()
        .skip(1)
        .map(|heard| Neighbour { cell: cell_id(heard.site as usize), rsrp_dbm: heard.rsrp_dbm });
    Client {
        address: [10, 45, 0, number as u8 + 1].into(),
        cell: cell_id(walker.site),
        bearer: Bearer {
            id: 5,
            qci: 9,
            teids: [0x100 + number, 0x200 + number],
            ends: [[10, 3, 0, walker.site as u8 + 1].into(), [10, 3, 0, 240].into()],
        },
        rsrp_dbm: measured.heard.first().map(|heard| heard.rsrp_dbm),
        rsrq_db: Some(rsrq_db),
        timing_advance_m: measured.advance.map(|advance| advance.range_m),
        neighbours: neighbours.collect(),
        secondary_cells: Vec::new(),
        position: None,
        accuracy_m: None,
        confidence_percent: None,
        ellipse: None,
    }
}

fn cell_id(index: usize) -> String {
    format!("{:07x}", 0x001_0100 + index)
}

fn position(place_m: [f64; 2]) -> [f64; 2] {
    Plane::new(CENTRE).degrees(place_m)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}

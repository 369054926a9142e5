//! Positions of the platform's clients: estimated where the radio network gives measurements and no position
//! of its own, kept for a while when a client has left, and held against what apps claim of them.

use super::{Advance, CONFIDENCE, Claims, Filter, Heard, Measurement, PARTICLES, Plane};
use super::{SPEED_MAX_M_S, Verdict};
use crate::position::propagation::{ADVANCE_STEP_NR_M, FREQUENCY_GHZ, first_metre_dbm};
use crate::{Cell, Client, Place, Radio, distance_m};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Clients that are followed by their measurements, at most: each costs a tenth of a millisecond for each report,
/// and 50 KB. Others are where their cells are.
const FOLLOWED_MAX: usize = 1024;
/// How long it is known where a client was, in milliseconds.
const KEPT_MS: u64 = 3_600_000;
/// Clients that have left and of whom it is known, with those that have not, at most.
const KEPT_MAX: usize = 8192;
/// Clients an estimate may move away from where it began, in metres, before its plane is another.
const PLANE_M: f64 = 50_000.0;
/// Claims that are followed, of all clients of the platform.
pub const CLAIMS_MAX: usize = 1024;
/// How long a claim counts for, in milliseconds; a series of claims has one at least so often.
const CLAIM_MS: u64 = 2_500;
/// How long what speaks against claims is known after the last one, in milliseconds.
const CLAIM_KEPT_MS: u64 = 60_000;
/// A single claim is doubted when it is further off than so many times what the network's position may be.
const ACCURACIES_MAX: f64 = 2.0;
/// Where a cell has no neighbour, its clients may be so far away, in metres.
const CELL_M: f64 = 1000.0;

/// Where a device claims to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Claim {
    /// Latitude and longitude, in degrees.
    pub position: [f64; 2],
    /// How far off that may be by its own word, in metres.
    pub accuracy_m: f64,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
}

/// What became of claims.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// Whether it is believed.
    pub verdict: Verdict,
    /// What speaks against a series of claims, where 1 is enough to doubt it.
    pub evidence: f64,
    /// How far the claim is from the network's position, in metres.
    pub apart_m: f64,
    /// Where the network has the device.
    pub place: Place,
}

#[derive(Clone, Debug)]
struct Known {
    place: Place,
    at_ms: u64,
    followed: Option<(Plane, Filter)>,
}

/// A series of claims of one device, by one client of the platform.
#[derive(Clone, Debug)]
struct Series {
    last: Claim,
    is_too_fast: bool,
    claims: Claims,
    /// When it was held against a report last.
    held_ms: Option<u64>,
}

/// All of it.
#[derive(Debug, Default)]
pub struct Positions {
    clients: BTreeMap<IpAddr, Known>,
    series: BTreeMap<(String, IpAddr), Series>,
}

impl Positions {
    /// Takes a report in: its clients have places afterwards.
    pub fn take(&mut self, radio: &mut Radio, now_ms: u64) {
        self.series.retain(|_, one| now_ms.saturating_sub(one.last.at_ms) <= CLAIM_KEPT_MS);
        let claimed: BTreeSet<IpAddr> = self.series.keys().map(|(_, address)| *address).collect();
        let cells: BTreeMap<&str, &Cell> =
            radio.cells.iter().map(|cell| (cell.id.as_str(), cell)).collect();
        let mut followed = 0;
        for client in &mut radio.clients {
            let Some(cell) = cells.get(client.cell.as_str()) else { continue };
            let before = self.clients.remove(&client.address);
            let mut now = None;
            let is_wanted = client.position.is_none() || claimed.contains(&client.address);
            if is_wanted && followed < FOLLOWED_MAX {
                let step = follow(client, cell, &cells, before, now_ms);
                if let Some(step) = &step {
                    followed += 1;
                    for ((_, address), series) in &mut self.series {
                        if *address == client.address {
                            series.hold(step, now_ms);
                        }
                    }
                }
                now = step.map(|step| (step.plane, step.filter));
            }
            let place = client.place().unwrap_or_else(|| match &now {
                Some((plane, filter)) => {
                    let estimate = filter.estimate();
                    Place {
                        position: plane.degrees(estimate.place_m),
                        accuracy_m: estimate.radius_m,
                        confidence_percent: Some((CONFIDENCE * 100.0).round() as u8),
                        ellipse: Some(estimate.ellipse()),
                    }
                }
                None => around(client, cell, &radio.cells),
            });
            client.position = Some(place.position);
            client.accuracy_m = Some(place.accuracy_m);
            client.confidence_percent = place.confidence_percent;
            client.ellipse = place.ellipse;
            self.clients.insert(client.address, Known { place, at_ms: now_ms, followed: now });
        }
        self.forget(now_ms);
    }

    fn forget(&mut self, now_ms: u64) {
        self.clients.retain(|_, known| {
            if known.at_ms != now_ms {
                known.followed = None;
            }
            now_ms.saturating_sub(known.at_ms) <= KEPT_MS
        });
        if self.clients.len() > KEPT_MAX {
            let mut times: Vec<u64> = self.clients.values().map(|known| known.at_ms).collect();
            times.sort_unstable();
            let oldest_ms = times[times.len() - KEPT_MAX];
            self.clients.retain(|_, known| known.at_ms >= oldest_ms);
        }
    }

    /// Where a client was last, and when, in milliseconds since 1970.
    pub fn last(&self, address: IpAddr) -> Option<(Place, u64)> {
        self.clients.get(&address).map(|known| (known.place, known.at_ms))
    }

    /// Whether there is room for claims of one more device.
    pub fn has_room(&self, who: &str, address: IpAddr) -> bool {
        self.series.len() < CLAIMS_MAX || self.series.contains_key(&(who.to_owned(), address))
    }

    /// A client of the platform says where a device claims to be.
    pub fn claim(&mut self, who: &str, address: IpAddr, claim: Claim) {
        let series = self.series.entry((who.to_owned(), address)).or_insert_with(|| Series {
            last: claim,
            is_too_fast: false,
            claims: Claims::new(),
            held_ms: None,
        });
        series.is_too_fast = is_too_fast(series.last, claim);
        series.last = claim;
    }

    /// What became of a device's claims. With `claim`, as if it had been taken in.
    pub fn judge(&self, who: &str, address: IpAddr, claim: Option<Claim>) -> Option<Judged> {
        let series = self.series.get(&(who.to_owned(), address));
        let last = claim.or_else(|| series.map(|series| series.last))?;
        let place = self.clients.get(&address)?.place;
        let apart_m = distance_m(last.position, place.position);
        let evidence = series.map_or(0.0, |series| series.claims.evidence());
        let is_too_fast = match (claim, series) {
            (Some(claim), Some(series)) => is_too_fast(series.last, claim),
            (None, Some(series)) => series.is_too_fast,
            (_, None) => false,
        };
        let is_far = apart_m > ACCURACIES_MAX * place.accuracy_m + last.accuracy_m;
        let verdict = match (is_too_fast, is_far || evidence > 1.0) {
            (true, _) => Verdict::TooFast,
            (_, true) => Verdict::Doubted,
            _ => Verdict::Consistent,
        };
        Some(Judged { verdict, evidence, apart_m, place })
    }
}

/// Whether nothing could have gone from one claim to the next.
fn is_too_fast(before: Claim, after: Claim) -> bool {
    let passed_s = after.at_ms.saturating_sub(before.at_ms) as f64 / 1000.0;
    let allowed_m = SPEED_MAX_M_S * passed_s + before.accuracy_m + after.accuracy_m;
    distance_m(before.position, after.position) > allowed_m
}

/// A client that was followed for one more report.
struct Step {
    plane: Plane,
    filter: Filter,
    measurement: Measurement,
    /// The logarithm of the measurement's likelihood.
    log: f64,
}

fn follow(
    client: &Client,
    cell: &Cell,
    cells: &BTreeMap<&str, &Cell>,
    before: Option<Known>,
    now_ms: u64,
) -> Option<Step> {
    let passed_s =
        before.as_ref().map_or(0.0, |known| now_ms.saturating_sub(known.at_ms) as f64 / 1000.0);
    let known = before.and_then(|known| known.followed).filter(|(plane, _)| {
        let [x, y] = plane.place_m(cell.position);
        x.hypot(y) <= PLANE_M
    });
    let plane = known.as_ref().map_or_else(|| Plane::new(cell.position), |(plane, _)| *plane);
    let measurement = measurement(client, cell, cells, plane);
    let values = measurement.heard.len() + usize::from(measurement.advance.is_some());
    if values == 0 {
        return None;
    }
    match known {
        Some((plane, mut filter)) => {
            let log = filter.step(passed_s, &measurement);
            Some(Step { plane, filter, measurement, log })
        }
        None => {
            let seed = u64::from(crc32c::crc32c(client.address.to_string().as_bytes()));
            let filter = Filter::new(&measurement, PARTICLES, seed)?;
            Some(Step { plane, filter, measurement, log: 0.0 })
        }
    }
}

fn measurement(
    client: &Client,
    serving: &Cell,
    cells: &BTreeMap<&str, &Cell>,
    plane: Plane,
) -> Measurement {
    let site = |cell: &Cell| crc32c::crc32c(cell.id.as_bytes());
    let own = client.rsrp_dbm.map(|rsrp_dbm| (serving, rsrp_dbm));
    let others = client
        .neighbours
        .iter()
        .filter_map(|one| Some((*cells.get(one.cell.as_str())?, one.rsrp_dbm)));
    let heard = own.into_iter().chain(others).filter_map(|(cell, rsrp_dbm)| {
        let frequency_ghz = cell.frequency_mhz.map_or(FREQUENCY_GHZ, |mhz| mhz / 1000.0);
        Some(Heard {
            site: site(cell),
            site_m: plane.place_m(cell.position),
            // Without the power that is sent, what arrives says nothing of a distance.
            first_metre_dbm: first_metre_dbm(cell.power_dbm?, frequency_ghz),
            rsrp_dbm,
        })
    });
    let advance = client.timing_advance_m.map(|range_m| Advance {
        site: site(serving),
        site_m: plane.place_m(serving.position),
        range_m,
        step_m: serving.advance_step_m.unwrap_or(ADVANCE_STEP_NR_M),
    });
    Measurement { heard: heard.collect(), advance }
}

/// Somewhere around the cell: as far as the timing advance says, or as the next cell is.
fn around(client: &Client, cell: &Cell, cells: &[Cell]) -> Place {
    let apart = cells.iter().map(|other| distance_m(cell.position, other.position));
    // Sectors of one site are at one place.
    let next_m = apart.filter(|apart_m| *apart_m > 1.0).fold(f64::INFINITY, f64::min);
    let cell_m = if next_m.is_finite() { next_m } else { CELL_M };
    let step_m = cell.advance_step_m.unwrap_or(ADVANCE_STEP_NR_M);
    let accuracy_m = client.timing_advance_m.map_or(cell_m, |range_m| range_m + step_m);
    Place { position: cell.position, accuracy_m, confidence_percent: None, ellipse: None }
}

impl Series {
    /// Holds the last claim against what was measured.
    fn hold(&mut self, step: &Step, now_ms: u64) {
        if now_ms.saturating_sub(self.last.at_ms) > CLAIM_MS {
            return;
        }
        let passed_ms = self.held_ms.map(|held_ms| now_ms.saturating_sub(held_ms));
        self.held_ms = Some(now_ms);
        // A gap in a series: what was known of the way between is lost for the one explanation, not for the other.
        if passed_ms.is_none_or(|passed_ms| passed_ms > CLAIM_MS) {
            self.claims.begin_again();
        }
        let claimed_m = step.plane.place_m(self.last.position);
        self.claims.check(claimed_m, &step.measurement, step.log);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::Simulator;

    #[test]
    fn the_platforms_estimates_are_as_good_as_they_say() {
        let mut simulator = Simulator::new(3, 20);
        let mut positions = Positions::default();
        let (mut errors, mut within) = (Vec::new(), 0);
        for second in 0..120 {
            let mut radio = simulator.report(second * 1000);
            positions.take(&mut radio, second * 1000);
            for (client, truth) in radio.clients.iter().zip(simulator.truth()) {
                let place = client.place().unwrap();
                let error_m = distance_m(place.position, truth);
                errors.push(error_m);
                within += usize::from(error_m <= place.accuracy_m);
            }
        }
        errors.sort_by(f64::total_cmp);
        assert!(errors[errors.len() / 2] < 90.0, "{}", errors[errors.len() / 2]);
        let share = within as f64 / errors.len() as f64;
        assert!((0.85..1.0).contains(&share), "{share}");
    }

    fn report(clients: usize, now_ms: u64) -> Radio {
        let mut radio = Simulator::new(1, 1).report(now_ms);
        let one = radio.clients[0].clone();
        radio.clients = (0..clients)
            .map(|index| Client {
                address: IpAddr::from((index as u128).to_be_bytes()),
                ..one.clone()
            })
            .collect();
        radio
    }

    #[test]
    fn what_is_kept_of_clients_is_bounded() {
        let mut positions = Positions::default();
        let mut radio = report(FOLLOWED_MAX + 10, 0);
        positions.take(&mut radio, 0);
        let followed = |positions: &Positions| {
            positions.clients.values().filter(|known| known.followed.is_some()).count()
        };
        assert_eq!(followed(&positions), FOLLOWED_MAX);
        // Who is not followed is around its cell, by its timing advance.
        let last = radio.clients.last().unwrap().place().unwrap();
        assert_eq!(last.confidence_percent, None);
        positions.take(&mut report(0, 1), 1);
        assert_eq!((followed(&positions), positions.clients.len()), (0, FOLLOWED_MAX + 10));
        positions.take(&mut report(0, KEPT_MS + 1), KEPT_MS + 1);
        assert!(positions.clients.is_empty());
    }

    #[test]
    fn claims_are_of_so_many_devices_and_forgotten() {
        let mut positions = Positions::default();
        positions.take(&mut report(1, 0), 0);
        let claim = Claim { position: [60.0, 25.0], accuracy_m: 10.0, at_ms: 0 };
        let address = |index: usize| IpAddr::from((index as u128).to_be_bytes());
        for index in 0..CLAIMS_MAX {
            assert!(positions.has_room("a", address(index)));
            positions.claim("a", address(index), claim);
        }
        assert!(positions.has_room("a", address(0)) && !positions.has_room("b", address(0)));
        positions.take(&mut report(1, CLAIM_KEPT_MS + 1), CLAIM_KEPT_MS + 1);
        assert!(positions.has_room("b", address(0)));
    }

    #[test]
    fn without_measurements_a_client_is_around_its_cell() {
        let mut radio = report(1, 0);
        let client = &mut radio.clients[0];
        (client.rsrp_dbm, client.timing_advance_m) = (None, None);
        client.neighbours.clear();
        let mut positions = Positions::default();
        positions.take(&mut radio, 0);
        let place = radio.clients[0].place().unwrap();
        // As far as the next site is.
        assert!((place.accuracy_m - 500.0).abs() < 2.0, "{place:?}");
    }
}

//! What a radio network tells: cells, and clients in them with their bearers and what is measured of them.
//! It is told as a whole each time; [`crate::simulator`] is one.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};

/// Cells and clients a report may have.
pub const CELLS_MAX: usize = 1024;
/// Clients a report may have.
pub const CLIENTS_MAX: usize = 4096;
/// Other cells a client may have the power of.
pub const NEIGHBOURS_MAX: usize = 32;
/// Other cells that may serve a client at once (3GPP TS 36.331: 32 carriers with the first).
pub const SECONDARY_CELLS_MAX: usize = 31;
/// Hexadecimal digits of a cell's identity in NR, which has 36 bits.
const NR_DIGITS: usize = 9;
/// Longest distance of a timing advance, in metres: that of NR with subcarriers of 15 kHz ends at 300 km.
const ADVANCE_M_MAX: f64 = 300_000.0;

/// A report: all there is, as of now.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Radio {
    /// Who says so: it stands beside every answer that rests on it.
    pub source: String,
    /// Mobile country and network code.
    pub plmn: [String; 2],
    /// Cells.
    pub cells: Vec<Cell>,
    /// Clients.
    pub clients: Vec<Client>,
}

/// A cell.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cell {
    /// Its identity: 28 bits of LTE or 36 of NR, in hexadecimal.
    pub id: String,
    /// The zone it is in.
    pub zone: String,
    /// Latitude and longitude of its antenna, in degrees of WGS 84.
    pub position: [f64; 2],
    /// Power of its reference signal with the antenna's gain, in dBm, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_dbm: Option<f64>,
    /// Its frequency, in MHz; 3500 where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frequency_mhz: Option<f64>,
    /// Steps of its timing advance, in metres; 39 (NR, 30 kHz) where it is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advance_step_m: Option<f64>,
}

/// Power of a cell beside the serving one.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Neighbour {
    /// The cell.
    pub cell: String,
    /// Power of its reference signal at the client, in dBm.
    pub rsrp_dbm: f64,
}

/// A client.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Client {
    /// Its address in the network.
    pub address: std::net::IpAddr,
    /// The cell that serves it.
    pub cell: String,
    /// Its bearer: identity, class, and tunnel identifiers of base station and core.
    pub bearer: Bearer,
    /// Power of the serving cell's reference signal, in dBm, where it is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rsrp_dbm: Option<f64>,
    /// Its quality, in dB, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rsrq_db: Option<f64>,
    /// Distance by the round trip, in metres, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing_advance_m: Option<f64>,
    /// Power of other cells, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<Neighbour>,
    /// Cells that serve it besides, where carriers are aggregated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secondary_cells: Vec<String>,
    /// Latitude and longitude, in degrees of WGS 84, where the network estimates it; else the platform does, by the
    /// measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<[f64; 2]>,
    /// How far off that may be, in metres.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy_m: Option<f64>,
    /// How likely it is no further off, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence_percent: Option<u8>,
    /// The ellipse that it is as likely in, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ellipse: Option<Ellipse>,
}

/// An ellipse around a position (3GPP TS 23.032 §5.3).
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Ellipse {
    /// Half of its longer axis, in metres.
    pub semi_major_m: f64,
    /// Half of its shorter axis, in metres.
    pub semi_minor_m: f64,
    /// From the north to its longer axis, to the east, in degrees from 0 to 180.
    pub orientation_degrees: f64,
}

/// Where a client is, of a report that the platform has taken in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Latitude and longitude, in degrees of WGS 84.
    pub position: [f64; 2],
    /// How far off that may be, in metres.
    pub accuracy_m: f64,
    /// How likely it is no further off, in percent, where that is known.
    pub confidence_percent: Option<u8>,
    /// The ellipse that it is as likely in, where that is known.
    pub ellipse: Option<Ellipse>,
}

impl Client {
    /// Where it is. A client of a report has no place before the platform has taken the report in.
    pub fn place(&self) -> Option<Place> {
        let (position, accuracy_m) = self.position.zip(self.accuracy_m)?;
        let Self { confidence_percent, ellipse, .. } = *self;
        Some(Place { position, accuracy_m, confidence_percent, ellipse })
    }
}

/// A bearer.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bearer {
    /// Its identity, 5 to 15.
    pub id: u8,
    /// Its class of service.
    pub qci: u8,
    /// Tunnel identifiers from and to the client.
    pub teids: [u32; 2],
    /// Addresses of the tunnel's ends: base station and core.
    pub ends: [std::net::IpAddr; 2],
}

impl Radio {
    /// The cell of an identity.
    pub fn cell(&self, id: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.id == id)
    }

    /// The zone a client is in.
    pub fn zone(&self, client: &Client) -> &str {
        self.cell(&client.cell).map_or("", |cell| &cell.zone)
    }

    /// How many clients each cell has, where it has any: one look at all of them, for whoever asks for many cells.
    pub fn crowds(&self) -> HashMap<&str, u64> {
        let mut crowds = HashMap::new();
        for client in &self.clients {
            *crowds.entry(client.cell.as_str()).or_default() += 1;
        }
        crowds
    }

    /// The client of an address.
    pub fn client(&self, address: std::net::IpAddr) -> Option<&Client> {
        self.clients.iter().find(|client| client.address == address)
    }

    /// The cell's global identity, as ETSI GS MEC 012 writes it.
    pub fn ecgi(&self, cell: &str) -> Value {
        json!({ "plmn": self.plmn_value(), "cellId": cell })
    }

    /// The same of a cell of NR.
    pub fn nrcgi(&self, cell: &str) -> Value {
        json!({ "plmn": self.plmn_value(), "nrCellId": cell })
    }

    /// The network's identity.
    pub fn plmn_value(&self) -> Value {
        json!({ "mcc": self.plmn[0], "mnc": self.plmn[1] })
    }

    /// What is wrong with a report.
    pub fn mistake(&self) -> Option<String> {
        if self.cells.len() > CELLS_MAX || self.clients.len() > CLIENTS_MAX {
            return Some(format!("{CELLS_MAX} cells and {CLIENTS_MAX} clients are the most"));
        }
        let is_digits = |text: &String, lengths: &[usize]| {
            lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !is_digits(&self.plmn[0], &[3]) || !is_digits(&self.plmn[1], &[2, 3]) {
            return Some("/plmn must be three digits, and two or three".to_owned());
        }
        let known: BTreeSet<&str> = self.cells.iter().map(|cell| cell.id.as_str()).collect();
        let clients: BTreeSet<_> = self.clients.iter().map(|client| client.address).collect();
        if known.len() < self.cells.len() || clients.len() < self.clients.len() {
            return Some("each cell and each client may be there once".to_owned());
        }
        let cells = self
            .cells
            .iter()
            .find_map(|cell| cell.mistake().map(|mistake| format!("cell {}: {mistake}", cell.id)));
        cells.or_else(|| {
            self.clients.iter().find_map(|client| {
                client.mistake(&known).map(|mistake| format!("client {} {mistake}", client.address))
            })
        })
    }
}

/// Whether a cell is one of NR, by its identity.
pub fn is_of_nr(cell: &str) -> bool {
    cell.len() == NR_DIGITS
}

fn is_position([latitude, longitude]: [f64; 2]) -> bool {
    (-90.0..=90.0).contains(&latitude) && (-180.0..=180.0).contains(&longitude)
}

fn is_within(value: Option<f64>, range: std::ops::RangeInclusive<f64>) -> bool {
    value.is_none_or(|value| range.contains(&value))
}

impl Cell {
    fn mistake(&self) -> Option<&'static str> {
        if !is_position(self.position) {
            return Some("/position must be degrees of latitude and longitude");
        }
        if !is_within(self.power_dbm, -100.0..=120.0) {
            return Some("/powerDbm must be -100 to 120");
        }
        if !is_within(self.frequency_mhz, 100.0..=100_000.0) {
            return Some("/frequencyMhz must be 100 to 100000");
        }
        let is_step = is_within(self.advance_step_m, 1.0..=1000.0);
        (!is_step).then_some("/advanceStepM must be 1 to 1000")
    }
}

impl Ellipse {
    fn is_one(&self) -> bool {
        let Self { semi_major_m, semi_minor_m, orientation_degrees } = *self;
        (0.0..=21_000_000.0).contains(&semi_major_m)
            && (0.0..=semi_major_m).contains(&semi_minor_m)
            && (0.0..=180.0).contains(&orientation_degrees)
    }
}

impl Client {
    fn mistake(&self, cells: &BTreeSet<&str>) -> Option<String> {
        let others = self.neighbours.iter().map(|one| &one.cell).chain(&self.secondary_cells);
        let all = std::iter::once(&self.cell).chain(others);
        if let Some(lost) = all.into_iter().find(|cell| !cells.contains(cell.as_str())) {
            return Some(format!("is in or near cell {lost}, which is not there"));
        }
        let powers =
            self.rsrp_dbm.into_iter().chain(self.neighbours.iter().map(|one| one.rsrp_dbm));
        let why = if self.neighbours.len() > NEIGHBOURS_MAX {
            format!("has more than {NEIGHBOURS_MAX} neighbours")
        } else if self.secondary_cells.len() > SECONDARY_CELLS_MAX {
            format!("has more than {SECONDARY_CELLS_MAX} secondaryCells")
        } else if self.position.is_some() != self.accuracy_m.is_some() {
            "has one of position and accuracyM: give both, or none to have it estimated".to_owned()
        } else if self.confidence_percent.is_some_and(|percent| !(1..=99).contains(&percent)) {
            "has a confidencePercent that is not 1 to 99".to_owned()
        } else if self.position.is_some_and(|position| !is_position(position)) {
            "has a position that is no degrees of latitude and longitude".to_owned()
        } else if self.ellipse.is_some_and(|ellipse| !ellipse.is_one()) {
            "has an ellipse whose axes or orientation are none".to_owned()
        } else if !is_within(self.accuracy_m, 0.0..=21_000_000.0) {
            "has an accuracyM that is none on earth".to_owned()
        } else if !is_within(self.timing_advance_m, 0.0..=ADVANCE_M_MAX) {
            format!("has a timingAdvanceM that is not 0 to {ADVANCE_M_MAX}")
        } else if !powers.into_iter().all(|power| (-200.0..=0.0).contains(&power)) {
            "has an rsrpDbm that is not -200 to 0".to_owned()
        } else {
            return None;
        };
        Some(why)
    }
}

/// Metres between two positions, over a sphere.
pub fn distance_m(one: [f64; 2], other: [f64; 2]) -> f64 {
    const EARTH_M: f64 = 6_371_000.0;
    let [[a, b], [c, d]] = [one, other].map(|[lat, lon]| [lat.to_radians(), lon.to_radians()]);
    let half = |angle: f64| (angle / 2.0).sin().powi(2);
    let chord = half(c - a) + a.cos() * c.cos() * half(d - b);
    2.0 * EARTH_M * chord.sqrt().min(1.0).asin()
}

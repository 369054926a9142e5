//! What a radio network tells the platform: cells, and clients in them with their bearers and what is
//! measured of them. It comes through a feed, whole each time; [`simulator`] is one.

pub(crate) mod observed;
pub mod simulator;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Cells and clients a report may have.
pub const CELLS_MAX: usize = 1024;
/// Clients a report may have.
pub const CLIENTS_MAX: usize = 4096;

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
    /// Latitude and longitude, in degrees of WGS 84.
    pub position: [f64; 2],
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
    /// Estimated latitude and longitude, in degrees of WGS 84.
    pub position: [f64; 2],
    /// How far off that may be, in metres.
    pub accuracy_m: f64,
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
    pub(crate) fn cell(&self, id: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.id == id)
    }

    /// The zone a client is in.
    pub(crate) fn zone(&self, client: &Client) -> &str {
        self.cell(&client.cell).map_or("", |cell| &cell.zone)
    }

    /// The client of an address.
    pub(crate) fn client(&self, address: std::net::IpAddr) -> Option<&Client> {
        self.clients.iter().find(|client| client.address == address)
    }

    /// The cell's global identity, as ETSI GS MEC 012 writes it.
    pub(crate) fn ecgi(&self, cell: &str) -> Value {
        json!({ "plmn": self.plmn_value(), "cellId": cell })
    }

    /// The network's identity.
    pub(crate) fn plmn_value(&self) -> Value {
        json!({ "mcc": self.plmn[0], "mnc": self.plmn[1] })
    }

    /// What is wrong with a report.
    pub(crate) fn mistake(&self) -> Option<String> {
        if self.cells.len() > CELLS_MAX || self.clients.len() > CLIENTS_MAX {
            return Some(format!("{CELLS_MAX} cells and {CLIENTS_MAX} clients are the most"));
        }
        let is_digits = |text: &String, lengths: &[usize]| {
            lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !is_digits(&self.plmn[0], &[3]) || !is_digits(&self.plmn[1], &[2, 3]) {
            return Some("/plmn must be three digits, and two or three".to_owned());
        }
        let lost = self.clients.iter().find(|client| self.cell(&client.cell).is_none());
        lost.map(|client| {
            format!("client {} is in cell {}, which is not there", client.address, client.cell)
        })
    }
}

/// Metres between two positions, over a sphere.
pub(crate) fn distance_m(one: [f64; 2], other: [f64; 2]) -> f64 {
    const EARTH_M: f64 = 6_371_000.0;
    let [[a, b], [c, d]] = [one, other].map(|[lat, lon]| [lat.to_radians(), lon.to_radians()]);
    let half = |angle: f64| (angle / 2.0).sin().powi(2);
    let chord = half(c - a) + a.cos() * c.cos() * half(d - b);
    2.0 * EARTH_M * chord.sqrt().min(1.0).asin()
}

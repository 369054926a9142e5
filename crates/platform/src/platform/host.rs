//! What the operator says of this host and of those beside it.

use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A host and its surroundings.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Bits per second that allocations of bandwidth may have in each direction, all together; none
    /// where it is not said.
    pub bandwidth_bps: Option<u64>,
    /// Networks that clients have besides each other.
    pub accesses: Vec<Access>,
    /// Applications that devices may ask for, by the names of their descriptors.
    pub device_apps: BTreeMap<String, DeviceApp>,
    /// Hosts beside this one, by their names.
    pub neighbours: BTreeMap<String, Neighbour>,
}

/// A network that clients have.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// Its number.
    pub id: u32,
    /// What it is.
    pub technology: Technology,
    /// Whether its use is paid for by volume; unknown where it is not said.
    pub is_metered: Option<bool>,
}

/// A kind of network (`accessType` of ETSI GS MEC 015 §7.2.4).
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Technology {
    /// IEEE 802.11.
    Wlan = 1,
    /// Of 3GPP.
    Cellular = 2,
    /// A line.
    Fixed = 3,
}

/// An application for devices.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceApp {
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub provider: String,
    /// Version of its software.
    pub soft_version: String,
    /// Version of its descriptor.
    pub version: String,
    /// What it does.
    #[serde(default)]
    pub description: String,
    /// The app instance that serves devices.
    pub instance: String,
    /// Where devices reach it.
    pub uri: String,
    /// The polygon it serves, as latitudes and longitudes; everywhere where there is none.
    #[serde(default)]
    pub area: Vec<[f64; 2]>,
}

impl DeviceApp {
    /// Where it may be used (`LocationConstraints`).
    pub(crate) fn location(&self) -> Option<Value> {
        let first = self.area.first()?;
        // A ring of GeoJSON (RFC 7946 §3.1.6) has the longitude first, and ends where it begins.
        let ring: Vec<Value> =
            self.area.iter().chain([first]).map(|[lat, lon]| json!([lon, lat])).collect();
        Some(json!({ "area": { "coordinates": [ring] } }))
    }
}

/// A host beside this one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Neighbour {
    /// Zones it serves.
    pub zones: Vec<String>,
    /// App instances it runs, by their names.
    pub apps: BTreeMap<String, NeighbourApp>,
}

/// An app instance on another host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeighbourApp {
    /// The app instance here that it stands in for.
    pub of: String,
    /// The name of their descriptor.
    pub descriptor: String,
    /// Where it is reached.
    pub address: IpAddr,
    /// By which port.
    pub port: u16,
}

impl NeighbourApp {
    /// How it is reached (`CommunicationInterface` of ETSI GS MEC 021 §7.5.2).
    pub(crate) fn interface(&self) -> Value {
        json!({ "ipAddresses": [{ "host": self.address.to_string(), "port": self.port }] })
    }
}

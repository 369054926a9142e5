//! What the edge router sees of clients: whose bearer ends at which base station. Which cell that is, and
//! where, the operator says; nothing is known of what only the radio network measures.

use crate::{Bearer, CLIENTS_MAX, Cell, Client, Radio};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Whose word it is.
const SOURCE: &str = "edge router";
/// The identity of a bearer that a client has from the start (3GPP TS 24.007 §11.2.3.1.5).
const FIRST_BEARER: u8 = 5;
const LAST_BEARER: u8 = 15;

/// Base stations, as the operator describes them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stations {
    /// Mobile country and network code.
    plmn: [String; 2],
    /// The class of bearers: packets do not say one.
    qci: u8,
    /// By the addresses their tunnels end at.
    station: BTreeMap<IpAddr, Station>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Station {
    cell: String,
    zone: String,
    position: [f64; 2],
    /// How far from there its clients may be, in metres.
    radius_m: f64,
}

impl Stations {
    /// What is wrong with them.
    pub fn mistake(&self) -> Option<String> {
        if self.qci == 0 {
            return Some("/qci must be 1 to 255".to_owned());
        }
        self.report(&Value::Null).mistake()
    }

    /// The report of the sessions that the router lists. Clients behind base stations that nobody has described
    /// are not in it.
    pub fn report(&self, sessions: &Value) -> Radio {
        let mut radio =
            Radio { source: SOURCE.to_owned(), plmn: self.plmn.clone(), ..Radio::default() };
        for station in self.station.values() {
            if radio.cell(&station.cell).is_none() {
                radio.cells.push(Cell {
                    id: station.cell.clone(),
                    zone: station.zone.clone(),
                    position: station.position,
                    power_dbm: None,
                    frequency_mhz: None,
                    advance_step_m: None,
                });
            }
        }
        for session in sessions.as_array().into_iter().flatten().take(CLIENTS_MAX) {
            // Addresses are unique in networks alone, of which these interfaces know none.
            if let Some(client) = self.client(session)
                && radio.client(client.address).is_none()
            {
                radio.clients.push(client);
            }
        }
        radio
    }

    fn client(&self, session: &Value) -> Option<Client> {
        let text = session["client"].as_str()?;
        let end = |place: usize| session["ends"][place].as_str()?.parse::<IpAddr>().ok();
        let teid = |place: usize| u32::try_from(session["teids"][place].as_u64()?).ok();
        let ends = [end(0)?, end(1)?];
        let station = self.station.get(&ends[0])?;
        // In 5G a flow of its own number; before that every packet is of the first bearer.
        let flow = session["qfi"].as_u64().and_then(|qfi| u8::try_from(qfi).ok());
        let id = flow.filter(|flow| (FIRST_BEARER..=LAST_BEARER).contains(flow));
        Some(Client {
            // An IPv6 client is a prefix, and one of a network with a name has that behind it.
            address: text.split(['/', '@']).next()?.parse().ok()?,
            cell: station.cell.clone(),
            bearer: Bearer {
                id: id.unwrap_or(FIRST_BEARER),
                qci: self.qci,
                teids: [teid(0)?, teid(1)?],
                ends,
            },
            rsrp_dbm: None,
            rsrq_db: None,
            timing_advance_m: None,
            neighbours: Vec::new(),
            secondary_cells: Vec::new(),
            position: Some(station.position),
            accuracy_m: Some(station.radius_m),
            confidence_percent: None,
            ellipse: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sessions_of_the_router_are_clients_in_cells() {
        let stations: Stations = serde_json::from_value(json!({
            "plmn": ["001", "01"], "qci": 9,
            "station": {"10.3.0.1": {"cell": "0010100", "zone": "north", "position": [60.17, 24.94], "radius_m": 500.0}},
        }))
        .unwrap();
        assert_eq!(stations.mistake(), None);
        let session = |client: &str, station: &str, qfi: u8| json!({"client": client, "ends": [station, "10.3.0.240"], "teids": [100, 200], "qfi": qfi});
        let radio = stations.report(&json!([
            session("10.45.0.2", "10.3.0.1", 9),
            session("2001:db8:45:1::/64@enterprise", "10.3.0.1", 0),
            session("10.45.0.3", "10.3.0.9", 9),
            {"client": "10.45.0.4"},
        ]));
        let found = radio.clients.iter().map(|one| (one.address.to_string(), one.bearer.id));
        let expected = [("10.45.0.2".to_owned(), 9), ("2001:db8:45:1::".to_owned(), 5)];
        assert_eq!(found.collect::<Vec<_>>(), expected);
        assert_eq!(radio.clients[0].bearer.teids, [100, 200]);
        assert_eq!((radio.mistake(), radio.cells.len()), (None, 1));
    }
}

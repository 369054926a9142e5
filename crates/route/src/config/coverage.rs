//! Files with networks of clients: lists, and the coverage zone files of Apache Traffic Control.

use crate::decision::place::Coordinates;
use crate::decision::prefix::Prefix;
use freshet_base::file;
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use std::fmt;
use std::path::Path;

/// Largest file of networks, in bytes: some millions of them.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// The networks of a list, one a line.
///
/// # Errors
/// What is wrong with it, and in which line.
pub(super) fn list(path: &Path) -> Result<Vec<Prefix>, String> {
    let text = file::read_text(path, FILE_BYTES_MAX)
        .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    let mut out = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if !line.is_empty() {
            let prefix = Prefix::read(line);
            out.push(prefix.map_err(|what| format!("{}:{number}: {what}", path.display()))?);
        }
    }
    Ok(out)
}

/// A zone of such a file.
#[derive(Debug, Default)]
pub(super) struct CoverageZone {
    pub(super) name: String,
    pub(super) coordinates: Option<Coordinates>,
    /// Names of nodes, in a deep file.
    pub(super) nodes: Vec<String>,
    pub(super) networks: Vec<Prefix>,
}

#[derive(Deserialize)]
struct File {
    #[serde(rename = "coverageZones", alias = "deepCoverageZones")]
    zones: Zones,
}

struct Zones(Vec<CoverageZone>);

#[derive(Deserialize)]
struct ZoneFile {
    #[serde(default)]
    network: Vec<Network>,
    #[serde(default)]
    network6: Vec<Network>,
    coordinates: Option<CoordinatesFile>,
    #[serde(default)]
    caches: Vec<String>,
}

#[derive(Deserialize)]
struct CoordinatesFile {
    latitude: f64,
    longitude: f64,
}

/// A network that is read while it is parsed: texts of a million would take more room than the table.
struct Network(Prefix);

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Network;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a network such as \"192.0.2.0/24\"")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Network, E> {
                Prefix::read(text.trim()).map(Network).map_err(E::custom)
            }
        }
        from.deserialize_str(Text)
    }
}

impl<'de> Deserialize<'de> for Zones {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Map;
        impl<'de> Visitor<'de> for Map {
            type Value = Zones;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("zones by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Zones, A::Error> {
                let mut out = Vec::new();
                while let Some((name, zone)) = map.next_entry::<String, ZoneFile>()? {
                    let place = zone.coordinates.map(|at| {
                        Coordinates::new(at.latitude, at.longitude).ok_or_else(|| {
                            let wrong = format!("zone `{name}`: its coordinates are nowhere");
                            serde::de::Error::custom(wrong)
                        })
                    });
                    let networks = zone.network.into_iter().chain(zone.network6);
                    out.push(CoverageZone {
                        name,
                        coordinates: place.transpose()?,
                        nodes: zone.caches,
                        networks: networks.map(|network| network.0).collect(),
                    });
                }
                Ok(Zones(out))
            }
        }
        from.deserialize_map(Map)
    }
}

/// The zones of a coverage zone file, or of a deep one.
///
/// # Errors
/// What is wrong with it, and in which line.
pub(super) fn coverage(path: &Path) -> Result<Vec<CoverageZone>, String> {
    let shown = path.display();
    let text = file::read_text(path, FILE_BYTES_MAX)
        .map_err(|error| format!("{shown} cannot be read: {error}"))?;
    let file: File = serde_json::from_str(&text).map_err(|error| format!("{shown}: {error}"))?;
    Ok(file.zones.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn a_list_has_a_network_a_line() {
        let good = written("# ours\n192.0.2.0/24\n\n  2001:db8::/32 # both\n198.51.100.7\n");
        let read: Vec<_> = list(good.path()).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(read, ["192.0.2.0/24", "2001:db8::/32", "198.51.100.7/32"]);
        let wrong = list(written("10.0.0.0/8\n10.0.0.0/99\n").path()).unwrap_err();
        assert!(wrong.contains(":2: `10.0.0.0/99` is no network"), "{wrong}");
        assert!(list(Path::new("/nowhere")).unwrap_err().contains("/nowhere cannot be read"));
    }

    #[test]
    fn traffic_controls_files_are_read_as_they_are() {
        let file = written(
            r#"{"revision": "x", "customerName": "y", "coverageZones": {
                "us-co-denver": {"network": ["192.168.8.0/24"], "network6": ["1234:5678::/64"],
                    "coordinates": {"latitude": 39.7, "longitude": -105.0}},
                "us-pa": {"network6": ["1234:567a::/64"]}}}"#,
        );
        let zones = coverage(file.path()).unwrap();
        assert_eq!((zones[0].name.as_str(), zones[0].networks.len()), ("us-co-denver", 2));
        assert_eq!(zones[0].coordinates.unwrap().to_string(), "39.70, -105.00");
        assert_eq!(zones[1].networks[0].to_string(), "1234:567a::/64");
        let deep = written(
            r#"{"deepCoverageZones": {"a": {"network": ["10.0.0.0/8"], "caches": ["edge-1"]}}}"#,
        );
        assert_eq!(coverage(deep.path()).unwrap()[0].nodes, ["edge-1"]);
        for (wrong, says) in [
            (r#"{"coverageZones": {"a": {"network": ["10.0.0.0/99"]}}}"#, "is no network"),
            (
                r#"{"coverageZones": {"a": {"coordinates": {"latitude": 99, "longitude": 0}}}}"#,
                "nowhere",
            ),
            (r#"{"coverageZones": []}"#, "zones by name"),
            ("{}", "coverageZones"),
        ] {
            let said = coverage(written(wrong).path()).unwrap_err();
            assert!(said.contains(says), "{said}");
        }
    }
}

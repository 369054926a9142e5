//! The file of a router: settings of its servers, and the table it decides by.

mod coverage;
mod dns;
mod fleet;
pub mod keys;
mod sites;

pub use dns::{DnsOfSite, DnsSettings};
pub use fleet::FleetSettings;
pub use sites::{Redirects, Scheme};

use crate::decision::place::{Coordinates, Locate};
use crate::decision::prefix::{self, Prefix, Prefixes};
use crate::decision::table::{Draft, Node, Region, Table, Zone};
use crate::decision::{NodeId, RegionId};
use freshet_config::Mistake;
use freshet_config::document::{Document, Row};
use freshet_config::keys::nearest;
use freshet_config::mistake::Place;
use freshet_geo::{File, GeoError};
use freshet_net::address::Address;
use freshet_net::trust::{Network, TrustedPeers};
use freshet_origin::OriginSettings;
use freshet_origin::probe::ProbeSettings;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A configuration.
#[derive(Debug)]
pub struct Config {
    /// Threads; 0 for one a core.
    pub workers: usize,
    /// Where clients are redirected from.
    pub listeners: Vec<ListenSettings>,
    /// Where metrics are.
    pub admin: Option<Address>,
    /// What decisions are made by.
    pub table: Table,
    /// How each node is watched, in the order of the table.
    pub watched: Vec<Watched>,
    /// How nodes are asked.
    pub probe: ProbeSettings,
    /// In what time a node that came back takes all its keys.
    pub ramp: Duration,
    /// What becomes of decisions over HTTP, for each site of the table.
    pub redirects: Vec<Redirects>,
    /// What becomes of them over DNS, for each site of the table.
    pub dns_of_sites: Vec<DnsOfSite>,
    /// Where DNS is answered.
    pub dns: DnsSettings,
    /// The fleet that nodes say in how they are.
    pub fleet: Option<FleetSettings>,
    /// The load from which on a node takes fewer of its keys, percent.
    pub busy_percent: u8,
    /// What may not be what was meant.
    pub warnings: Vec<Mistake>,
}

/// One address for HTTP.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ListenSettings {
    /// Where.
    pub address: Address,
    /// Files of the certificate chain and its key, where it speaks TLS.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Who is believed about clients.
    pub trusted: TrustedPeers,
}

/// How a node is watched.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Watched {
    /// Whom to ask; nobody where it is taken for healthy.
    pub by: Option<OriginSettings>,
    /// Whether it was taken out.
    pub is_drained: bool,
}

/// Reads a configuration.
///
/// # Errors
/// All that is wrong with it, each with its place.
pub fn read(text: &str) -> Result<Config, Vec<Mistake>> {
    let document = Document::parse_by(&keys::ROUTE, text)?;
    let mut reader = Reader { document: &document, wrong: Vec::new() };
    let config = reader.config();
    match reader.wrong.iter().any(Mistake::is_error) {
        true => Err(reader.wrong),
        false => Ok(Config { warnings: reader.wrong, ..config }),
    }
}

/// What reads, and what it found wrong.
struct Reader<'a> {
    document: &'a Document,
    wrong: Vec<Mistake>,
}

impl Reader<'_> {
    fn config(&mut self) -> Config {
        let document = self.document;
        let span = |path: &str| document.value(path).span();
        let number = |path: &str| document.value(path).number();
        let small = |path: &str| u32::try_from(number(path)).unwrap_or(u32::MAX);
        let status = u16::try_from(number("health.status")).unwrap_or(200);
        let threshold = small("health.threshold");
        if threshold > small("health.window") {
            let message =
                "health.threshold is more than health.window, so no node would ever be up";
            self.wrong.push(Mistake::error(document.at("health.threshold"), message));
        }
        let probe = ProbeSettings {
            target: document.value("health.path").text(),
            interval: span("health.interval"),
            timeout: span("health.timeout"),
            window: small("health.window"),
            threshold,
            expected: status..=status,
            host: optional(document.value("health.host").text()),
            ..ProbeSettings::default()
        };
        if !probe.target.starts_with('/') {
            let message = format!("health.path begins with `/`, not `{}`", probe.target);
            self.wrong.push(Mistake::error(document.at("health.path"), message));
        }
        let admin = optional(document.value("admin.listen").text()).and_then(|text| {
            let place = document.at("admin.listen");
            self.checked(text.parse::<Address>(), "admin.listen", place)
        });
        let mut draft = Draft {
            trusts_when_all_are_down: document.value("health.when_all_down").text() == "trust",
            ..Draft::default()
        };
        draft.regions = self.regions();
        let (nodes, watched) = self.nodes(&draft.regions);
        draft.nodes = nodes;
        self.zones(&mut draft);
        let name = document.value("default.region").text();
        draft.default_region = optional(name).and_then(|name| {
            self.region(&draft.regions, &name, "default.region", document.at("default.region"))
        });
        draft.default_coordinates =
            optional(document.value("default.place").text()).and_then(|text| {
                self.checked(text.parse(), "default.place", document.at("default.place"))
            });
        draft.locator = self.locator();
        let (redirects, dns_of_sites) = self.sites(&mut draft);
        let dns = self.dns(&draft.nodes);
        Config {
            workers: usize::try_from(number("workers")).unwrap_or(0),
            listeners: self.listeners(),
            admin,
            table: Table::new(draft),
            watched,
            probe,
            ramp: span("health.ramp"),
            redirects,
            dns_of_sites,
            dns,
            fleet: self.fleet(),
            busy_percent: u8::try_from(number("fleet.busy")).unwrap_or(99),
            warnings: Vec::new(),
        }
    }

    fn locator(&mut self) -> Option<Arc<dyn Locate>> {
        let path = PathBuf::from(optional(self.document.value("geo.city").text())?);
        let place = self.document.at("geo.city");
        let wrong = |error: GeoError| {
            let mistake = Mistake::error(place, format!("geo.city: {error}"));
            self.wrong.push(mistake.help(error.help()));
        };
        File::open(&path).map_err(wrong).ok().map(|file| file as Arc<dyn Locate>)
    }

    fn listeners(&mut self) -> Vec<ListenSettings> {
        let mut out = Vec::new();
        for row in self.document.rows("listen") {
            let text = row.value("listen[].address").text();
            let place = row.at("listen[].address");
            let files = ["cert", "key"].map(|name| {
                optional(row.value(&format!("listen[].{name}")).text()).map(PathBuf::from)
            });
            let certificate = match (row.value("listen[].tls").bool(), files) {
                (true, [Some(certificate), Some(key)]) => Some((certificate, key)),
                (false, [None, None]) => None,
                (true, _) => {
                    self.error(&row, "listen[].tls", "listen.tls needs listen.cert and listen.key");
                    None
                }
                (false, _) => {
                    self.error(
                        &row,
                        "listen[].cert",
                        "listen.cert and listen.key are for listen.tls = true",
                    );
                    None
                }
            };
            let trusted = self.list_of(&row, "listen[].trusted", str::parse::<Network>);
            let trusted = TrustedPeers { networks: trusted };
            if let Some(address) = self.checked(text.parse(), "listen.address", place) {
                out.push(ListenSettings { address, certificate, trusted });
            }
        }
        out
    }

    fn regions(&mut self) -> Vec<Region> {
        let rows = self.document.rows("region");
        let mut out: Vec<Region> = Vec::new();
        for row in &rows {
            let name = self.name(row, "region", out.iter().map(|one| one.name.as_str()));
            let coordinates = self.place(row, "region[].place");
            out.push(Region {
                name,
                coordinates,
                overflow: Vec::new(),
                overflows_to_nearest: row.value("region[].nearest").bool(),
                is_private: row.value("region[].private").bool(),
            });
        }
        if out.len() > usize::from(RegionId::MAX) {
            let message = format!("{} regions are the most", RegionId::MAX);
            self.wrong.push(Mistake::error(Place::default(), message));
        }
        // They may name those below them.
        for (at, row) in rows.iter().enumerate() {
            let place = row.at("region[].overflow");
            let names = row.value("region[].overflow").list();
            let ids = names
                .iter()
                .filter_map(|name| self.region(&out, name, "region.overflow", place))
                .collect();
            if let Some(region) = out.get_mut(at) {
                region.overflow = ids;
            }
        }
        out
    }

    fn nodes(&mut self, regions: &[Region]) -> (Vec<Node>, Vec<Watched>) {
        let (mut nodes, mut watched): (Vec<Node>, _) = (Vec::new(), Vec::new());
        for row in self.document.rows("node") {
            let name = self.name(&row, "node", nodes.iter().map(|one| one.name.as_str()));
            let region = row.value("node[].region").text();
            let place = row.at("node[].region");
            let region = self.region(regions, &region, "node.region", place);
            let addresses = self.list_of(&row, "node[].addresses", |text| {
                text.parse::<IpAddr>().map_err(|_| format!("`{text}` is no IP address"))
            });
            let of_url = |address: &IpAddr| match address {
                IpAddr::V4(one) => one.to_string(),
                IpAddr::V6(one) => format!("[{one}]"),
            };
            let host = optional(row.value("node[].host").text())
                .or_else(|| addresses.first().map(of_url))
                .unwrap_or_default();
            if !is_authority(&host) {
                let message = match host.as_str() {
                    "" => "a node has node.addresses or node.host".to_owned(),
                    _ => format!("node.host: `{host}` is no host, such as edge-1.example:8080"),
                };
                self.error(&row, "node[].host", message);
            }
            let by = match row.value("node[].health").text().as_str() {
                "none" => None,
                "" => addresses.first().map(|address| format!("http://{}", of_url(address))),
                url => Some(url.to_owned()),
            };
            let place = row.at("node[].health");
            let by = by
                .and_then(|url| self.checked(url.parse::<OriginSettings>(), "node.health", place));
            watched.push(Watched {
                by: by.map(|by| OriginSettings { name: name.clone(), logs_outages: false, ..by }),
                is_drained: row.value("node[].drained").bool(),
            });
            nodes.push(Node {
                name,
                region: region.unwrap_or_default(),
                weight: u32::try_from(row.value("node[].weight").number()).unwrap_or(1),
                addresses,
                host,
            });
        }
        if nodes.is_empty() {
            let message = "there is no [[node]] that clients could be sent to";
            self.wrong.push(Mistake::error(Place::default(), message));
        }
        (nodes, watched)
    }

    fn zones(&mut self, draft: &mut Draft) {
        let mut prefixes = prefix::Draft::default();
        for row in self.document.rows("zone") {
            let name = self.name(&row, "zone", draft.zones.iter().map(|one| one.name.as_str()));
            let place = row.at("zone[].region");
            let region = optional(row.value("zone[].region").text())
                .and_then(|name| self.region(&draft.regions, &name, "zone.region", place));
            let nodes = self.list_of(&row, "zone[].nodes", |name| node_of(&draft.nodes, name));
            let coordinates = self.place(&row, "zone[].place");
            if region.is_none() && coordinates.is_none() && nodes.is_empty() {
                let message = "a zone has zone.region, zone.place or zone.nodes";
                self.error(&row, "zone[].name", message);
            }
            let mut networks = self.list_of(&row, "zone[].networks", Prefix::read);
            if let Some(file) = optional(row.value("zone[].file").text()) {
                let place = row.at("zone[].file");
                let list = coverage::list(&PathBuf::from(file));
                networks.extend(self.checked(list, "zone.file", place).unwrap_or_default());
            }
            add(draft, &mut prefixes, Zone { name, region, coordinates, nodes }, networks);
        }
        for (path, is_deep) in [("coverage.file", false), ("coverage.deep_file", true)] {
            let Some(file) = optional(self.document.value(path).text()) else { continue };
            let place = self.document.at(path);
            let zones = coverage::coverage(&PathBuf::from(file));
            for zone in self.checked(zones, path, place).unwrap_or_default() {
                let region = draft.regions.iter().position(|one| one.name == zone.name);
                let region = region.and_then(|at| RegionId::try_from(at).ok());
                let nodes: Result<Vec<_>, _> =
                    zone.nodes.iter().map(|name| node_of(&draft.nodes, name)).collect();
                let nodes = self.checked(nodes, path, place).unwrap_or_default();
                if !is_deep && region.is_none() && zone.coordinates.is_none() {
                    let message = format!(
                        "{path}: zone `{}` has no coordinates, and there is no region of its name",
                        zone.name
                    );
                    self.wrong.push(Mistake::error(place, message));
                }
                let name = if is_deep { format!("{} (deep)", zone.name) } else { zone.name };
                let coordinates = zone.coordinates;
                let added = Zone { name, region, coordinates, nodes };
                add(draft, &mut prefixes, added, zone.networks);
            }
        }
        match Prefixes::new(prefixes) {
            Ok(prefixes) => draft.prefixes = prefixes,
            Err(twice) => {
                let message = format!("{twice} is in two zones");
                self.wrong.push(Mistake::error(Place::default(), message));
            }
        }
    }

    /// The name of a row, which no other has.
    fn name<'n>(
        &mut self,
        row: &Row<'_>,
        table: &str,
        mut known: impl Iterator<Item = &'n str>,
    ) -> String {
        let path = format!("{table}[].name");
        let name = row.value(&path).text();
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_fine) {
            let message = format!(
                "{table}.name is 1 to {NAME_BYTES_MAX} letters, digits, `-`, `_` and `.`, not `{name}`"
            );
            self.error(row, &path, message);
        } else if known.any(|other| other == name) {
            self.error(row, &path, format!("there is another {table} `{name}`"));
        }
        name
    }

    fn region(
        &mut self,
        regions: &[Region],
        name: &str,
        key: &str,
        place: Place,
    ) -> Option<RegionId> {
        let found = regions.iter().position(|region| region.name == name);
        if found.is_none() {
            let names = regions.iter().map(|region| region.name.as_str());
            let near = nearest(name, names);
            let mistake = Mistake::error(place, format!("{key}: there is no region `{name}`"));
            self.wrong.push(match near {
                Some(near) => mistake.help(format!("did you mean `{near}`?")),
                None => mistake,
            });
        }
        found.and_then(|at| RegionId::try_from(at).ok())
    }

    fn place(&mut self, row: &Row<'_>, path: &str) -> Option<Coordinates> {
        let text = optional(row.value(path).text())?;
        self.checked(text.parse(), &shown(path), row.at(path))
    }

    fn list_of<T, E: ToString>(
        &mut self,
        row: &Row<'_>,
        path: &str,
        read: impl Fn(&str) -> Result<T, E>,
    ) -> Vec<T> {
        let (texts, place) = (row.value(path).list(), row.at(path));
        texts.iter().filter_map(|text| self.checked(read(text), &shown(path), place)).collect()
    }

    fn checked<T, E: ToString>(
        &mut self,
        read: Result<T, E>,
        key: &str,
        place: Place,
    ) -> Option<T> {
        let wrong = |error: E| Mistake::error(place, format!("{key}: {}", error.to_string()));
        read.map_err(|error| self.wrong.push(wrong(error))).ok()
    }

    /// A mistake about a key of a row.
    fn error(&mut self, row: &Row<'_>, path: &str, message: impl Into<String>) {
        self.wrong.push(Mistake::error(row.at(path), message));
    }
}

/// Longest name, in bytes: nodes' names are labels of hosts.
const NAME_BYTES_MAX: usize = 63;

fn add(draft: &mut Draft, prefixes: &mut prefix::Draft, zone: Zone, networks: Vec<Prefix>) {
    let id = u32::try_from(draft.zones.len()).unwrap_or(u32::MAX - 1);
    let v4 = networks.iter().filter(|network| network.address.is_ipv4()).count();
    prefixes.reserve(v4, networks.len() - v4);
    networks.into_iter().for_each(|network| prefixes.add(network, id));
    draft.zones.push(zone);
}

fn node_of(nodes: &[Node], name: &str) -> Result<NodeId, String> {
    let found = nodes.iter().position(|node| node.name == name);
    found
        .and_then(|at| NodeId::try_from(at).ok())
        .ok_or_else(|| format!("there is no node `{name}`"))
}

/// Whether this may stand in a URL as its host, with or without a port.
fn is_authority(text: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:[]".contains(&byte);
    !text.is_empty() && text.len() <= 255 && text.bytes().all(is_fine)
}

/// A key as messages call it: `node.name` for `node[].name`.
fn shown(path: &str) -> String {
    path.replace("[]", "")
}

fn optional(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;

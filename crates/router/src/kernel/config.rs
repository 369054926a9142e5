//! The configuration of a router: a TOML file.

use crate::app::{App, Apps, Kind, Leg, Numbered, mac_of};
use crate::rule::AddressRange;
use crate::rule::check::read_addresses;
use crate::rule::name::Names;
use crate::session::network::{Network, Networks};
use crate::session::{SESSIONS_DEFAULT, SESSIONS_MAX};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Longest time an app is taken for alive after its last sign, in milliseconds: with the time a sign
/// takes, traffic of a dead app is back at the core within a second.
pub const ALIVE_MS: u64 = 700;

/// Rules with a rate of their own.
pub const LIMITS_MAX: usize = 255;

/// Rates that can be kept, in bits a second: a limiter counts nanoseconds for a KiB.
pub const RATES: std::ops::RangeInclusive<u64> = 1000..=1_000_000_000_000;

/// What the wire carries.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// Clients' packets inside GTP-U, between base stations and the core: N3, S1-U.
    N3,
    /// Clients' packets as they are, behind the core: N6, SGi.
    N6,
}

/// How an app is found alive.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Health {
    /// Its interfaces have a carrier.
    Carrier,
    /// It takes a TCP connection.
    Tcp(SocketAddr),
}

/// Copies of the core's PFCP.
#[derive(Clone, Debug)]
pub struct Mirror {
    /// A UDP address that gets them.
    pub address: SocketAddr,
    /// Who sends them: nobody else is believed.
    pub from: Vec<AddressRange>,
}

/// A router's configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// What the wire carries.
    pub wire: Wire,
    /// The interface towards base stations, and the one towards the core.
    pub ports: [String; 2],
    /// Where programs and people ask.
    pub socket: PathBuf,
    /// A folder in a BPF file system.
    pub pins: PathBuf,
    /// Rules and tags as they were set last.
    pub state: PathBuf,
    /// Rules at the first start: a JSON list of TrafficRule.
    pub rules: Option<PathBuf>,
    /// Where usage records are appended.
    pub usage: Option<PathBuf>,
    /// How often what clients used is appended there, in seconds, besides when their sessions end.
    pub usage_interval_s: Option<u64>,
    /// Who is asked for the addresses of names in rules.
    pub resolver: Option<SocketAddr>,
    /// Where copies of the core's PFCP come from and go to.
    pub pfcp: Option<Mirror>,
    /// Sessions there may be.
    pub sessions: usize,
    /// Networks that clients may be in.
    pub networks: Networks,
    /// Apps, by name.
    pub apps: Vec<App>,
    /// How each is found alive.
    pub health: Vec<Health>,
    /// Bits a second, by rule.
    pub limits: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    wire: Wire,
    access: String,
    core: String,
    #[serde(default = "default_socket")]
    socket: PathBuf,
    #[serde(default = "default_pins")]
    pins: PathBuf,
    #[serde(default = "default_state")]
    state: PathBuf,
    rules: Option<PathBuf>,
    usage: Option<PathBuf>,
    usage_interval_s: Option<u64>,
    resolver: Option<SocketAddr>,
    pfcp: Option<SocketAddr>,
    pfcp_from: Option<Vec<String>>,
    #[serde(default = "default_sessions")]
    sessions: usize,
    #[serde(default)]
    network: BTreeMap<String, NetworkFile>,
    #[serde(default)]
    app: BTreeMap<String, AppDescription>,
    #[serde(default)]
    limit: BTreeMap<String, LimitFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkFile {
    /// What the core calls it; its name by default.
    instances: Option<Vec<String>>,
    #[serde(default)]
    vlans: Vec<u16>,
    #[serde(default)]
    cores: Vec<String>,
}

/// An app as the configuration has it, or as somebody has it added.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AppDescription {
    kind: KindName,
    interface: OneOrTwo,
    mac: OneOrTwo,
    #[serde(default)]
    addresses: Vec<IpAddr>,
    network: Option<String>,
    /// `carrier` or `tcp ADDRESS:PORT`.
    health: Option<String>,
    /// Longest IP packet it should get, by which clients' TCP is told its segments.
    mtu: Option<u16>,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum KindName {
    Breakout,
    InLine,
    Tap,
    TapDecapsulated,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(untagged)]
enum OneOrTwo {
    One(String),
    More(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitFile {
    rate: String,
}

fn default_socket() -> PathBuf {
    "/run/freshet/router.sock".into()
}

fn default_pins() -> PathBuf {
    "/sys/fs/bpf/freshet".into()
}

fn default_state() -> PathBuf {
    "/var/lib/freshet/router.json".into()
}

const fn default_sessions() -> usize {
    SESSIONS_DEFAULT
}

impl Config {
    /// What is known of names before anybody was asked.
    #[must_use]
    pub fn names(&self) -> Names {
        Names { has_resolver: self.resolver.is_some(), ..Names::default() }
    }
}

/// Reads a configuration.
///
/// # Errors
/// What is wrong, and where.
pub fn read(text: &str) -> Result<Config, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    if file.access == file.core {
        return Err("access, core: must be two interfaces".to_owned());
    }
    if file.sessions == 0 || file.sessions > SESSIONS_MAX {
        return Err(format!("sessions: must be 1 to {SESSIONS_MAX}"));
    }
    if file.usage_interval_s.is_some_and(|seconds| !(1..=86_400).contains(&seconds)) {
        return Err("usage_interval_s: must be 1 to 86400".to_owned());
    }
    if file.usage_interval_s.is_some() && file.usage.is_none() {
        return Err("usage_interval_s: needs `usage`, the file to append to".to_owned());
    }
    let pfcp = read_mirror(file.pfcp, file.pfcp_from)?;
    let networks = read_networks(file.network)?;
    let mut apps = Vec::new();
    let mut health = Vec::new();
    let mut seen = vec![file.access.clone(), file.core.clone()];
    for (name, app) in file.app {
        let place = format!("app.{name}");
        let (app, by) =
            read_app(name, &app, &networks).map_err(|what| format!("{place}.{what}"))?;
        for leg in &app.legs {
            if seen.contains(&leg.interface) {
                return Err(format!("{place}.interface: `{}` has another use", leg.interface));
            }
            seen.push(leg.interface.clone());
        }
        apps.push(app);
        health.push(by);
    }
    Apps::restored(apps.clone(), &Numbered::default()).map_err(|error| format!("app: {error}"))?;
    if file.limit.len() > LIMITS_MAX {
        return Err(format!("limit: {LIMITS_MAX} are the most"));
    }
    let limits = file.limit.into_iter().map(|(rule, limit)| {
        let rate = read_rate(&limit.rate);
        rate.map(|rate| (rule.clone(), rate)).map_err(|what| format!("limit.{rule}.rate: {what}"))
    });
    let limits = limits.collect::<Result<BTreeMap<_, _>, String>>()?;
    Ok(Config {
        wire: file.wire,
        ports: [file.access, file.core],
        socket: file.socket,
        pins: file.pins,
        state: file.state,
        rules: file.rules,
        usage: file.usage,
        usage_interval_s: file.usage_interval_s,
        resolver: file.resolver,
        pfcp,
        sessions: file.sessions,
        networks,
        apps,
        health,
        limits,
    })
}

/// Who reaches the address could move any client to another tunnel: on this machine that is who may
/// anyway, elsewhere it is said who does.
fn read_mirror(
    address: Option<SocketAddr>,
    from: Option<Vec<String>>,
) -> Result<Option<Mirror>, String> {
    let Some(address) = address else {
        return match from {
            Some(_) => Err("pfcp_from: needs `pfcp`, the address that gets copies".to_owned()),
            None => Ok(None),
        };
    };
    let from = match from {
        Some(from) if !from.is_empty() => from,
        None if address.ip().is_loopback() => vec!["127.0.0.0/8".to_owned(), "::1".to_owned()],
        _ => {
            return Err(format!(
                "pfcp_from: is missing: addresses or networks of who sends copies to {address}, \
                 such as [\"192.0.2.10\"]; nobody else is believed"
            ));
        }
    };
    let from = from
        .iter()
        .map(|text| read_addresses(text).map_err(|what| format!("pfcp_from: {what}")))
        .collect::<Result<_, String>>()?;
    Ok(Some(Mirror { address, from }))
}

fn read_networks(files: BTreeMap<String, NetworkFile>) -> Result<Networks, String> {
    let read = |(name, file): (String, NetworkFile)| {
        let core = |text: &String| {
            read_addresses(text).map_err(|what| format!("network.{name}.cores: {what}"))
        };
        let instances = file.instances.unwrap_or_else(|| vec![name.clone()]);
        Ok(Network {
            instances: instances.iter().map(|one| one.to_ascii_lowercase()).collect(),
            vlans: file.vlans,
            cores: file.cores.iter().map(core).collect::<Result<_, String>>()?,
            name,
        })
    };
    Networks::new(files.into_iter().map(read).collect::<Result<_, String>>()?)
}

/// Reads an app of a name, and how it is found alive.
///
/// # Errors
/// What is wrong, and at which key.
pub(super) fn read_app(
    name: String,
    file: &AppDescription,
    networks: &Networks,
) -> Result<(App, Health), String> {
    let list = |value: &OneOrTwo| match value {
        OneOrTwo::One(one) => vec![one.clone()],
        OneOrTwo::More(more) => more.clone(),
    };
    let kind = match file.kind {
        KindName::Breakout => Kind::Breakout,
        KindName::InLine => Kind::InLine,
        KindName::Tap => Kind::Tap { decapsulated: false },
        KindName::TapDecapsulated => Kind::Tap { decapsulated: true },
    };
    let (interfaces, macs) = (list(&file.interface), list(&file.mac));
    let wanted = if kind == Kind::InLine { 2 } else { 1 };
    if interfaces.len() != wanted {
        return Err(format!("interface: an app that is {kind} has {wanted}"));
    }
    if macs.len() != wanted {
        return Err(format!("mac: one for each interface, so {wanted}"));
    }
    let mut legs = Vec::new();
    for (interface, mac) in interfaces.into_iter().zip(&macs) {
        let mac = mac_of(mac).ok_or_else(|| format!("mac: `{mac}` is no MAC address"))?;
        legs.push(Leg { interface, mac });
    }
    let health = match file.health.as_deref().map(|text| text.split_once(' ')) {
        None => Health::Carrier,
        Some(None) if file.health.as_deref() == Some("carrier") => Health::Carrier,
        Some(Some(("tcp", place))) => {
            let place = place.trim().parse();
            Health::Tcp(place.map_err(|_| "health: write it as `tcp 192.0.2.1:80`".to_owned())?)
        }
        Some(_) => return Err("health: must be `carrier` or `tcp ADDRESS:PORT`".to_owned()),
    };
    let segment = |headers: u16| file.mtu.map_or(0, |mtu| mtu.saturating_sub(headers));
    if file.mtu.is_some_and(|mtu| mtu < 1280) {
        return Err("mtu: must be 1280 or more, which IPv6 needs".to_owned());
    }
    let segment_bytes_max = [segment(40), segment(60)];
    let network = match &file.network {
        Some(name) => {
            let unknown = || format!("network: there is no [network.{name}]");
            Some(networks.number(name).ok_or_else(unknown)?)
        }
        // What it answers says only an address, so it has to be one of one network.
        None if kind == Kind::Breakout && !networks.is_empty() => Some(0),
        None => None,
    };
    let addresses = file.addresses.clone();
    Ok((App { name, kind, legs, addresses, network, segment_bytes_max }, health))
}

/// Bits a second from text such as `50 Mbit/s`.
fn read_rate(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no rate, such as 500 kbit/s, 50 Mbit/s or 1.5 Gbit/s");
    let digits = text.find(|one: char| !one.is_ascii_digit() && one != '.').unwrap_or(text.len());
    let number: f64 = text[..digits].parse().map_err(|_| wrong())?;
    let factor = match text[digits..].trim() {
        "bit/s" => 1.0,
        "kbit/s" => 1e3,
        "Mbit/s" => 1e6,
        "Gbit/s" => 1e9,
        _ => return Err(wrong()),
    };
    let rate = number * factor;
    if RATES.contains(&(rate as u64)) { Ok(rate as u64) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
        wire = "n3"
        access = "acc0"
        core = "cor0"
        [app.cache]
        kind = "breakout"
        interface = "leg0"
        mac = "02:00:00:00:00:09"
        addresses = ["203.0.113.10"]
        health = "tcp 10.99.0.2:80"
        mtu = 1440
        [network.enterprise]
        vlans = [100]
        cores = ["10.3.0.241", "2001:db8:f0::/64"]
        [limit.local]
        rate = "1.5 Mbit/s"
    "#;

    #[test]
    fn a_good_file_is_read() {
        let config = read(GOOD).expect("it is good");
        assert_eq!(config.ports, ["acc0", "cor0"]);
        assert_eq!(config.apps[0].segment_bytes_max, [1400, 1380]);
        assert_eq!(config.limits["local"], 1_500_000);
        assert_eq!(config.apps[0].network, Some(0));
        assert_eq!(config.networks.of_instance("Enterprise"), Some(1));
        assert_eq!(config.networks.of_core(crate::packet::mapped(0x0a03_00f1)), Some(1));
        assert!(matches!(config.health[0], Health::Tcp(_)));
    }

    #[test]
    fn copies_are_taken_of_who_is_named_or_of_this_machine() {
        let takes = |lines: &str, from: u32| {
            let text = format!("{lines}\n{GOOD}");
            let mirror = read(&text).expect("it is good").pfcp.expect("it has copies");
            mirror.from.iter().any(|range| range.contains(crate::packet::mapped(from)))
        };
        let here = "pfcp = \"127.0.0.1:8805\"";
        assert!(takes(here, 0x7f00_0001) && !takes(here, 0x0a03_00f1));
        let named = "pfcp = \"0.0.0.0:8805\"\npfcp_from = [\"10.3.0.0/24\", \"192.0.2.1\"]";
        assert!(takes(named, 0x0a03_00f1) && takes(named, 0xc000_0201));
        assert!(!takes(named, 0x7f00_0001) && !takes(named, 0x0a63_0002));
    }

    #[test]
    fn a_mistake_is_named_with_its_place() {
        let cases = [
            ("core = \"cor0\"", "core = \"acc0\"", "must be two interfaces"),
            (
                "kind = \"breakout\"",
                "kind = \"in-line\"",
                "app.cache.interface: an app that is in-line has 2",
            ),
            ("interface = \"leg0\"", "interface = \"acc0\"", "`acc0` has another use"),
            ("02:00:00:00:00:09", "02:00", "app.cache.mac: `02:00` is no MAC"),
            ("tcp 10.99.0.2:80", "tcp 10.99.0.2", "health: write it as"),
            ("mtu = 1440", "mtu = 600", "app.cache.mtu"),
            ("1.5 Mbit/s", "1.5 MB", "limit.local.rate: `1.5 MB` is no rate"),
            ("wire = \"n3\"", "wire = \"n4\"", "unknown variant `n4`"),
            ("addresses", "adresses", "unknown field `adresses`"),
            (
                "mtu =",
                "network = \"other\"\nmtu =",
                "app.cache.network: there is no [network.other]",
            ),
            ("[100]", "[5000]", "network.enterprise.vlans: 5000 is no VLAN"),
            ("10.3.0.241", "10.3.0", "network.enterprise.cores: `10.3.0` is no address"),
            ("access =", "usage_interval_s = 0\naccess =", "must be 1 to 86400"),
            ("access =", "usage_interval_s = 60\naccess =", "needs `usage`"),
            ("access =", "resolver = \"10.0.0.53\"\naccess =", "resolver"),
            ("access =", "pfcp = \"10.99.0.1:8805\"\naccess =", "pfcp_from: is missing"),
            (
                "access =",
                "pfcp = \"127.0.0.1:8805\"\npfcp_from = []\naccess =",
                "pfcp_from: is missing",
            ),
            (
                "access =",
                "pfcp = \"10.99.0.1:8805\"\npfcp_from = [\"10.3\"]\naccess =",
                "pfcp_from: `10.3` is no address",
            ),
            ("access =", "pfcp_from = [\"10.3.0.1\"]\naccess =", "pfcp_from: needs `pfcp`"),
        ];
        for (from, to, expected) in cases {
            let found = read(&GOOD.replace(from, to)).expect_err(to);
            assert!(found.contains(expected), "{found}");
        }
    }
}

//! `[runtime]` of a configuration: what apps of packages may have, and where.

use freshet_apps::Wire;
use freshet_apps::hosts::Fleet;
use freshet_apps::hosts::NatsFile;
use freshet_apps::kubernetes::{Cluster, ClusterFile};
use freshet_fleet::nats::is_name;
use freshet_platform::{Room, Tunnel};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Most processors of a host.
const CPUS_MAX: f64 = 4096.0;
/// Longest IP packet of a tunnel where it is not said, in bytes: what is left of 1,500.
const TUNNEL_MTU_BYTES: u16 = 1500 - Wire::HEADER_BYTES;
/// Shortest prefix of a network all of whose apps may have tunnels: each app has four addresses of it.
const TUNNEL_NETWORK_BITS_MIN: u8 = 32 - 2 - Wire::SLOTS_MAX.ilog2() as u8;

/// What apps of packages may have.
#[derive(Clone, Debug)]
pub(super) struct Runtime {
    /// Hosts; at least one.
    pub(super) rooms: Vec<Room>,
    /// Network whose parts are apps' own: its first address and its length.
    pub(super) network: (Ipv4Addr, u8),
    /// The edge router's end of tunnels to hosts.
    pub(super) tunnel: Option<Tunnel>,
    /// Where they are run, if not as containers of this machine.
    pub(super) elsewhere: Option<Elsewhere>,
}

/// Where apps are run, if not on this machine.
#[derive(Clone, Debug)]
pub(super) enum Elsewhere {
    /// As pods of a cluster.
    Cluster(Box<Cluster>),
    /// As containers of hosts that are told so over NATS.
    Hosts(Box<Fleet>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuntimeFile {
    host: Option<String>,
    cpus: Option<f64>,
    memory_mib: Option<u64>,
    #[serde(default)]
    accelerators: BTreeMap<String, u64>,
    network: String,
    kubernetes: Option<ClusterFile>,
    nats: Option<NatsFile>,
    move_after_s: Option<u64>,
    /// This machine's address for tunnels to hosts.
    tunnel: Option<Ipv4Addr>,
    tunnel_mtu: Option<u16>,
    #[serde(default)]
    hosts: BTreeMap<String, HostFile>,
}

/// A host of several.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostFile {
    cpus: f64,
    memory_mib: u64,
    #[serde(default)]
    accelerators: BTreeMap<String, u64>,
    zone: Option<String>,
    /// In a cluster: labels of its machines.
    nodes: Option<BTreeMap<String, String>>,
    /// Over NATS: its part of the network for apps.
    network: Option<String>,
    /// As well: its address for a tunnel from this machine.
    tunnel: Option<Ipv4Addr>,
}

impl RuntimeFile {
    /// # Errors
    /// What is wrong, and where.
    pub(super) fn runtime(self) -> Result<Runtime, String> {
        let network = read_network("runtime.network", &self.network)?;
        let tunnel = self.tunnel(&network)?;
        let mut elsewhere = match (self.kubernetes, self.nats) {
            (None, None) => None,
            (Some(file), None) => Some(Elsewhere::Cluster(Box::new(file.cluster()?))),
            (None, Some(file)) => {
                Some(Elsewhere::Hosts(Box::new(Fleet::read(file, self.move_after_s)?)))
            }
            (Some(_), Some(_)) => {
                return Err("runtime.nats: either this or `[runtime.kubernetes]`".to_owned());
            }
        };
        if self.move_after_s.is_some() && !matches!(elsewhere, Some(Elsewhere::Hosts(_))) {
            return Err("runtime.move_after_s: only with `[runtime.nats]`".to_owned());
        }
        if elsewhere.is_none() && !(self.hosts.is_empty() && self.accelerators.is_empty()) {
            let key = if self.hosts.is_empty() { "accelerators" } else { "hosts" };
            return Err(format!(
                "runtime.{key}: only with `[runtime.kubernetes]` or `[runtime.nats]`"
            ));
        }
        if self.hosts.is_empty() {
            if matches!(elsewhere, Some(Elsewhere::Hosts(_))) {
                return Err("runtime.hosts: `[runtime.hosts.NAME]` must be there".to_owned());
            }
            let missing =
                |key: &str| format!("runtime.{key}: must be there, or `[runtime.hosts.NAME]`");
            let cpus = self.cpus.ok_or_else(|| missing("cpus"))?;
            let memory_mib = self.memory_mib.ok_or_else(|| missing("memory_mib"))?;
            let host = self.host.unwrap_or_else(|| "local".to_owned());
            let room = room(host, "runtime", cpus, memory_mib, self.accelerators)?;
            return Ok(Runtime { rooms: vec![room], network, tunnel, elsewhere });
        }
        let is_said = self.cpus.is_some() || self.memory_mib.is_some() || self.host.is_some();
        if is_said || !self.accelerators.is_empty() {
            return Err(
                "runtime.hosts: what apps may have is said of each host, or once for one: \
                 `host`, `cpus`, `memory_mib`, `accelerators`"
                    .to_owned(),
            );
        }
        let mut rooms = Vec::new();
        for (name, file) in self.hosts {
            let place = format!("runtime.hosts.{name}");
            let part = file.network(&place, &network, elsewhere.as_ref())?;
            let far = file.far(&place, tunnel, &rooms)?;
            match &mut elsewhere {
                Some(Elsewhere::Cluster(cluster)) => {
                    let nodes =
                        file.nodes.ok_or_else(|| format!("{place}.nodes: must be there"))?;
                    cluster.placing.hosts.insert(name.clone(), nodes);
                }
                Some(Elsewhere::Hosts(fleet)) if is_name(&name) => {
                    fleet.hosts.insert(name.clone());
                }
                Some(Elsewhere::Hosts(_)) => {
                    return Err(format!("{place}: the name must be letters, digits, `-` and `_`"));
                }
                None => {}
            }
            let room = room(name, &place, file.cpus, file.memory_mib, file.accelerators)?;
            let room = Room { zone: file.zone, network: part, tunnel: far, ..room };
            let is_twice = |one: &&Room| overlap(one.network, room.network);
            if let Some(other) = rooms.iter().find(is_twice) {
                return Err(format!("{place}.network: {} has some of it", other.host));
            }
            rooms.push(room);
        }
        Ok(Runtime { rooms, network, tunnel, elsewhere })
    }

    /// This machine's end of tunnels.
    fn tunnel(&self, network: &(Ipv4Addr, u8)) -> Result<Option<Tunnel>, String> {
        let Some(near) = self.tunnel else {
            return match self.tunnel_mtu {
                Some(_) => Err("runtime.tunnel_mtu: only with `tunnel`".to_owned()),
                None => Ok(None),
            };
        };
        if self.nats.is_none() {
            return Err("runtime.tunnel: only with `[runtime.nats]`".to_owned());
        }
        if network.1 < TUNNEL_NETWORK_BITS_MIN {
            return Err(format!(
                "runtime.network: must be of {TUNNEL_NETWORK_BITS_MIN} bits at least with `tunnel`"
            ));
        }
        let (mtu, range) = (self.tunnel_mtu.unwrap_or(TUNNEL_MTU_BYTES), Wire::MTU_BYTES);
        if !range.contains(&mtu) {
            let (least, most) = range.into_inner();
            return Err(format!("runtime.tunnel_mtu: {mtu} must be {least} to {most}"));
        }
        Ok(Some(Tunnel { near, mtu }))
    }
}

impl HostFile {
    /// Its part of the network for apps.
    fn network(
        &self,
        place: &str,
        all: &(Ipv4Addr, u8),
        elsewhere: Option<&Elsewhere>,
    ) -> Result<Option<(Ipv4Addr, u8)>, String> {
        let is_over_nats = matches!(elsewhere, Some(Elsewhere::Hosts(_)));
        let wrong = |what: &str| Err(format!("{place}.network: {what}"));
        let Some(text) = &self.network else {
            return if is_over_nats {
                wrong("must be there, its own for each host")
            } else {
                Ok(None)
            };
        };
        if !is_over_nats {
            return wrong("only with `[runtime.nats]`");
        }
        let part = read_network(&format!("{place}.network"), text)?;
        match part.1 >= all.1 && overlap(Some(*all), Some(part)) {
            true => Ok(Some(part)),
            false => wrong("must be a part of runtime.network"),
        }
    }

    /// Its end of a tunnel.
    fn far(
        &self,
        place: &str,
        tunnel: Option<Tunnel>,
        others: &[Room],
    ) -> Result<Option<Ipv4Addr>, String> {
        let wrong = |what: &str| Err(format!("{place}.tunnel: {what}"));
        match (self.tunnel, tunnel) {
            (None, _) => Ok(None),
            (Some(_), None) => wrong("only with `tunnel` of `[runtime]`, this machine's address"),
            (Some(far), Some(tunnel)) if far == tunnel.near => {
                wrong("is this machine's own, whose apps need none")
            }
            (Some(far), _) if others.iter().any(|room| room.tunnel == Some(far)) => {
                wrong("is another host's, too")
            }
            (far, _) => Ok(far),
        }
    }
}

/// Whether two networks have addresses that are the same.
fn overlap(one: Option<(Ipv4Addr, u8)>, other: Option<(Ipv4Addr, u8)>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return false };
    let shorter = one.1.min(other.1);
    (u32::from(one.0) ^ u32::from(other.0)) >> (32 - u32::from(shorter)) == 0
}

fn read_network(place: &str, text: &str) -> Result<(Ipv4Addr, u8), String> {
    let read = |text: &str| {
        let (address, length) = text.split_once('/')?;
        let address: Ipv4Addr = address.parse().ok()?;
        let length: u8 = length.parse().ok().filter(|length| (8..=30).contains(length))?;
        let is_first = u32::from(address) << length == 0;
        is_first.then_some((address, length))
    };
    read(text)
        .ok_or_else(|| format!("{place}: `{text}` must be such as 10.99.0.0/24, of 8 to 30 bits"))
}

fn room(
    host: String,
    place: &str,
    cpus: f64,
    memory_mib: u64,
    accelerators: BTreeMap<String, u64>,
) -> Result<Room, String> {
    if !(cpus > 0.0 && cpus <= CPUS_MAX) {
        return Err(format!("{place}.cpus: {cpus} must be above 0 and at most {CPUS_MAX}"));
    }
    let cpu_milli = (cpus * 1000.0) as u64;
    Ok(Room { host, cpu_milli, memory_mib, accelerators, zone: None, network: None, tunnel: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: &str =
        "[kubernetes]\nimages = \"r\"\napi = \"https://c\"\nca = \"a\"\ntoken = \"t\"\n";

    const NATS: &str = "move_after_s = 60\n[nats]\nservers = [\"nats://s\"]\n";

    fn read(text: &str) -> Result<Runtime, String> {
        toml::from_str::<RuntimeFile>(text).map_err(|error| error.to_string())?.runtime()
    }

    #[test]
    fn one_host_or_several_are_said() {
        let one = read("cpus = 1.5\nmemory_mib = 512\nnetwork = \"10.99.0.0/24\"").unwrap();
        assert_eq!((one.rooms[0].host.as_str(), one.rooms[0].cpu_milli), ("local", 1500));
        let several = format!(
            "network = \"10.96.8.0/24\"\n{CLUSTER}\
             [hosts.north]\ncpus = 2.0\nmemory_mib = 1024\nnodes = {{ zone = \"north\" }}\n\
             [hosts.south]\ncpus = 4.0\nmemory_mib = 1024\nnodes = {{ zone = \"south\" }}\n\
             accelerators = {{ \"nvidia.com/gpu\" = 2 }}\n"
        );
        let several = read(&several).unwrap();
        let hosts: Vec<_> =
            several.rooms.iter().map(|room| (room.host.as_str(), room.cpu_milli)).collect();
        assert_eq!(hosts, [("north", 2000), ("south", 4000)]);
        assert_eq!(several.rooms[1].accelerators["nvidia.com/gpu"], 2);
        let Some(Elsewhere::Cluster(cluster)) = several.elsewhere else { panic!() };
        assert_eq!(cluster.placing.hosts["south"]["zone"], "south");
        let over_nats = format!(
            "network = \"10.96.0.0/16\"\ntunnel = \"192.0.2.1\"\n{NATS}\
             [hosts.north]\ncpus = 2.0\nmemory_mib = 1024\nnetwork = \"10.96.1.0/24\"\nzone = \"a\"\ntunnel = \"192.0.2.2\"\n\
             [hosts.south]\ncpus = 2.0\nmemory_mib = 1024\nnetwork = \"10.96.2.0/24\"\n\
             accelerators = {{ \"example.com/fpga\" = 2 }}\n"
        );
        let over_nats = read(&over_nats).unwrap();
        assert_eq!(over_nats.rooms[0].zone.as_deref(), Some("a"));
        assert_eq!(over_nats.rooms[1].accelerators["example.com/fpga"], 2);
        assert_eq!(over_nats.rooms[1].network, Some(([10, 96, 2, 0].into(), 24)));
        assert_eq!(over_nats.tunnel, Some(Tunnel { near: [192, 0, 2, 1].into(), mtu: 1450 }));
        let tunnels: Vec<_> = over_nats.rooms.iter().map(|room| room.tunnel).collect();
        assert_eq!(tunnels, [Some([192, 0, 2, 2].into()), None]);
        let Some(Elsewhere::Hosts(fleet)) = over_nats.elsewhere else { panic!() };
        assert_eq!((fleet.hosts.len(), fleet.move_after_ms), (2, Some(60_000)));
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let host = "[hosts.north]\ncpus = 2.0\nmemory_mib = 1\nnodes = {}\n";
        for (text, what) in [
            (
                "network = \"10.99.0.1/24\"\ncpus = 1.0\nmemory_mib = 1".to_owned(),
                "runtime.network: ",
            ),
            (
                "network = \"10.99.0.0/24\"\nmemory_mib = 1".to_owned(),
                "runtime.cpus: must be there",
            ),
            (
                "network = \"10.99.0.0/24\"\ncpus = 0.0\nmemory_mib = 1".to_owned(),
                "runtime.cpus: 0 must be above 0",
            ),
            (format!("network = \"10.99.0.0/24\"\n{host}"), "runtime.hosts: only with"),
            (
                "network = \"10.99.0.0/24\"\ncpus = 1.0\nmemory_mib = 1\naccelerators = { a = 1 }"
                    .to_owned(),
                "runtime.accelerators: only with",
            ),
            (
                format!("network = \"10.99.0.0/24\"\ncpus = 1.0\n{CLUSTER}{host}"),
                "runtime.hosts: what apps may have is said of each host",
            ),
            (
                format!("network = \"10.99.0.0/24\"\n{CLUSTER}{}", host.replace("2.0", "-1.0")),
                "runtime.hosts.north.cpus: -1 must",
            ),
            (
                format!("network = \"10.99.0.0/24\"\n{NATS}"),
                "runtime.hosts: `[runtime.hosts.NAME]`",
            ),
            (
                format!("network = \"10.99.0.0/24\"\n{}", NATS.replace("60", "5")),
                "runtime.move_after_s: 5 must be at least",
            ),
            (
                format!("network = \"10.99.0.0/24\"\n{NATS}{host}"),
                "runtime.hosts.north.network: must be there",
            ),
            (
                format!("network = \"10.99.0.0/24\"\ntunnel = \"192.0.2.1\"\n{CLUSTER}{host}"),
                "runtime.tunnel: only with `[runtime.nats]`",
            ),
            (
                format!("network = \"10.99.0.0/24\"\ntunnel_mtu = 1400\n{NATS}"),
                "runtime.tunnel_mtu: only with",
            ),
            (
                format!("network = \"10.0.0.0/8\"\ntunnel = \"192.0.2.1\"\n{NATS}"),
                "runtime.network: must be of 16 bits at least",
            ),
            (
                format!(
                    "network = \"10.99.0.0/24\"\ntunnel = \"192.0.2.1\"\ntunnel_mtu = 1000\n{NATS}"
                ),
                "runtime.tunnel_mtu: 1000 must be 1280 to 9166",
            ),
            (
                format!(
                    "network = \"10.99.0.0/24\"\n{NATS}{host}network = \"10.99.0.0/25\"\ntunnel = \"192.0.2.2\""
                ),
                "runtime.hosts.north.tunnel: only with `tunnel`",
            ),
            (
                format!(
                    "network = \"10.99.0.0/24\"\ntunnel = \"192.0.2.2\"\n{NATS}{host}network = \"10.99.0.0/25\"\ntunnel = \"192.0.2.2\""
                ),
                "runtime.hosts.north.tunnel: is this machine's own",
            ),
            (
                format!("network = \"10.99.0.0/24\"\n{NATS}{host}network = \"10.98.0.0/24\""),
                "runtime.hosts.north.network: must be a part",
            ),
            (
                format!(
                    "network = \"10.99.0.0/24\"\n{NATS}{0}network = \"10.99.0.0/25\"\n{1}network = \"10.99.0.64/26\"",
                    host,
                    host.replace("north", "south")
                ),
                "runtime.hosts.south.network: north has some of it",
            ),
        ] {
            let said = read(&text).unwrap_err();
            assert!(said.starts_with(what), "{said}");
        }
    }
}

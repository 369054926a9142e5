//! `[runtime]` of a configuration: what apps of packages may have, and where.

use crate::life::Room;
use crate::runtime::kubernetes::{Cluster, ClusterFile};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Most processors of a host.
const CPUS_MAX: f64 = 4096.0;

/// What apps of packages may have.
#[derive(Clone, Debug)]
pub(super) struct Runtime {
    /// Hosts; at least one.
    pub(super) rooms: Vec<Room>,
    /// Network whose parts are apps' own: its first address and its length.
    pub(super) network: (Ipv4Addr, u8),
    /// The cluster they are run in; containers of this machine where it is not said.
    pub(super) cluster: Option<Cluster>,
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
    /// Labels of its machines.
    nodes: BTreeMap<String, String>,
}

impl RuntimeFile {
    /// # Errors
    /// What is wrong, and where.
    pub(super) fn runtime(self) -> Result<Runtime, String> {
        let network = read_network(&self.network)?;
        let mut cluster = self.kubernetes.map(ClusterFile::cluster).transpose()?;
        if cluster.is_none() && !(self.hosts.is_empty() && self.accelerators.is_empty()) {
            let key = if self.hosts.is_empty() { "accelerators" } else { "hosts" };
            return Err(format!("runtime.{key}: a cluster has them: `[runtime.kubernetes]`"));
        }
        let rooms = if self.hosts.is_empty() {
            let missing =
                |key: &str| format!("runtime.{key}: must be there, or `[runtime.hosts.NAME]`");
            let cpus = self.cpus.ok_or_else(|| missing("cpus"))?;
            let memory_mib = self.memory_mib.ok_or_else(|| missing("memory_mib"))?;
            let host = self.host.unwrap_or_else(|| "local".to_owned());
            vec![room(host, "runtime", cpus, memory_mib, self.accelerators)?]
        } else {
            let is_said = self.cpus.is_some() || self.memory_mib.is_some() || self.host.is_some();
            if is_said || !self.accelerators.is_empty() {
                return Err("runtime.hosts: what apps may have is said of each host, or once for \
                     one: `host`, `cpus`, `memory_mib`, `accelerators`"
                    .to_owned());
            }
            let rooms = self.hosts.into_iter().map(|(name, file)| {
                if let Some(cluster) = &mut cluster {
                    cluster.placing.hosts.insert(name.clone(), file.nodes);
                }
                let place = format!("runtime.hosts.{name}");
                room(name, &place, file.cpus, file.memory_mib, file.accelerators)
            });
            rooms.collect::<Result<_, _>>()?
        };
        Ok(Runtime { rooms, network, cluster })
    }
}

fn read_network(text: &str) -> Result<(Ipv4Addr, u8), String> {
    let read = |text: &str| {
        let (address, length) = text.split_once('/')?;
        let address: Ipv4Addr = address.parse().ok()?;
        let length: u8 = length.parse().ok().filter(|length| (8..=30).contains(length))?;
        let is_first = u32::from(address) << length == 0;
        is_first.then_some((address, length))
    };
    read(text).ok_or_else(|| {
        format!("runtime.network: `{text}` must be such as 10.99.0.0/24, of 8 to 30 bits")
    })
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
    Ok(Room { host, cpu_milli: (cpus * 1000.0) as u64, memory_mib, accelerators })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: &str =
        "[kubernetes]\nimages = \"r\"\napi = \"https://c\"\nca = \"a\"\ntoken = \"t\"\n";

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
        assert_eq!(several.cluster.unwrap().placing.hosts["south"]["zone"], "south");
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
            (format!("network = \"10.99.0.0/24\"\n{host}"), "runtime.hosts: a cluster has them"),
            (
                "network = \"10.99.0.0/24\"\ncpus = 1.0\nmemory_mib = 1\naccelerators = { a = 1 }"
                    .to_owned(),
                "runtime.accelerators: a cluster has them",
            ),
            (
                format!("network = \"10.99.0.0/24\"\ncpus = 1.0\n{CLUSTER}{host}"),
                "runtime.hosts: what apps may have is said of each host",
            ),
            (
                format!("network = \"10.99.0.0/24\"\n{CLUSTER}{}", host.replace("2.0", "-1.0")),
                "runtime.hosts.north.cpus: -1 must",
            ),
        ] {
            let said = read(&text).unwrap_err();
            assert!(said.starts_with(what), "{said}");
        }
    }
}

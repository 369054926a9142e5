//! What an instance asks for and what the host has.

use super::{Granted, Life};
use freshet_apps::Wire;
use freshet_documents::problem::Problem;
use freshet_documents::tree::Tree;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::ops::Range;
use std::path::PathBuf;

/// What an app has that does not say what it needs, in thousandths of a processor and MiB.
const DEFAULT: (u64, u64) = (500, 256);
/// What an app may write to files that does not say how much, in MiB.
const DEFAULT_DISK_MIB: u64 = 1024;
/// MiB of a gigabyte as descriptors have it.
const MIB_OF_GB: f64 = 1024.0;

/// What an app asks for at most: no machine has more, and sums and units of it stay numbers.
const ASKED_MAX: u64 = 1 << 32;

/// How apps are reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reach {
    /// By an interface of this machine for each, with a network of four addresses: the app's, the host's,
    /// and the two that a network loses. The edge router can have it, too.
    Interface,
    /// As by [`Reach::Interface`], of another machine than this one: the edge router here has the end of a tunnel to it,
    /// where there is one.
    Host,
    /// By an address for each that a cluster's network knows.
    Service,
}

/// A host, or a part of a cluster that counts as one, with the room there is for apps as its operator says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Room {
    /// Its name.
    pub host: String,
    /// What apps may have together, in thousandths of a processor.
    pub cpu_milli: u64,
    /// As well, in MiB.
    pub memory_mib: u64,
    /// As well, by name: whole ones.
    pub accelerators: BTreeMap<String, u64>,
    /// Which site it is of, where that is said.
    pub zone: Option<String>,
    /// Which part of the network for apps is its own: its first address, and its length; any, where it is not said.
    pub network: Option<(Ipv4Addr, u8)>,
    /// Its end of tunnels, where packets of the edge router come to it by such.
    pub tunnel: Option<Ipv4Addr>,
}

/// The ends of tunnels to hosts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tunnel {
    /// Address of the edge router's machine.
    pub near: Ipv4Addr,
    /// Longest IP packet, in bytes.
    pub mtu: u16,
}

/// Where apps are run.
#[derive(Clone, Debug)]
pub struct Place {
    /// Hosts; at least one.
    pub rooms: Vec<Room>,
    /// Network that apps' own addresses are of: its first address, and its length.
    pub network: (Ipv4Addr, u8),
    /// How apps are reached at them.
    pub reach: Reach,
    /// How packets of the edge router come to hosts, where such are led to apps on other machines.
    pub tunnel: Option<Tunnel>,
    /// Where packages are.
    pub packages: PathBuf,
    /// Where apps' files are.
    pub apps: PathBuf,
    /// Hosts that nothing can be run on now.
    pub away: BTreeSet<String>,
}

impl Place {
    /// Apps there are addresses for.
    fn slots(&self) -> u32 {
        let addresses = addresses(self.network);
        let slots = match self.reach {
            Reach::Interface | Reach::Host => addresses / 4,
            // Without the first and the last, which a cluster may keep.
            Reach::Service => addresses.saturating_sub(2),
        };
        u32::try_from(slots).unwrap_or(u32::MAX)
    }

    /// Those of a host.
    fn slots_of(&self, room: &Room) -> Range<u32> {
        let Some(network) = room.network else { return 0..self.slots() };
        let first = u32::from(network.0).saturating_sub(u32::from(self.network.0)) / 4;
        let count = u32::try_from(addresses(network) / 4).unwrap_or(u32::MAX);
        first..first.saturating_add(count).min(self.slots())
    }

    /// The address of an app.
    pub(crate) fn address(&self, slot: u32) -> Ipv4Addr {
        self.first(slot).wrapping_add(1).into()
    }

    /// The host's address in an app's network: beside it, or that of the network, where apps have none of
    /// their own.
    pub(crate) fn host_address(&self, slot: u32) -> Ipv4Addr {
        match self.reach {
            Reach::Interface | Reach::Host => self.first(slot).into(),
            Reach::Service => self.network.0,
        }
    }

    /// The address before an app's.
    fn first(&self, slot: u32) -> u32 {
        let first = u32::from(self.network.0);
        match self.reach {
            Reach::Interface | Reach::Host => {
                first.wrapping_add(slot.wrapping_mul(4)).wrapping_add(1)
            }
            Reach::Service => first.wrapping_add(slot),
        }
    }

    /// Why the edge router leads no packets to apps on a host, where it leads none.
    fn barrier(&self, room: &Room) -> Option<&'static str> {
        match self.reach {
            Reach::Interface => None,
            Reach::Host if self.tunnel.is_some() && room.tunnel.is_some() => None,
            Reach::Host => Some("no tunnel from the edge router leads to it"),
            Reach::Service => Some("the edge router leads no packets into a cluster"),
        }
    }

    /// As [`Place::barrier`], of the host of what was granted.
    pub(crate) fn barrier_of(&self, granted: &Granted) -> Option<&'static str> {
        self.room_of(granted).and_then(|room| self.barrier(room))
    }

    /// The way of packets from the edge router to what was granted, where it is a tunnel.
    pub(crate) fn wire(&self, granted: &Granted) -> Option<Wire> {
        let tunnel = self.tunnel.filter(|_| self.reach == Reach::Host)?;
        let far = self.room_of(granted)?.tunnel?;
        Some(Wire { vni: granted.slot + 1, near: tunnel.near, far, mtu: tunnel.mtu })
    }

    /// The names of its hosts.
    fn hosts(&self) -> String {
        let names: Vec<&str> = self.rooms.iter().map(|room| room.host.as_str()).collect();
        names.join(", ")
    }

    /// Whether what was granted is where it is wanted.
    pub(crate) fn is_as_wished(&self, granted: &Granted, wish: &Wish) -> bool {
        wish.is_none() || self.room_of(granted).is_some_and(|room| wish.is_of(room))
    }

    /// The host of what was granted.
    fn room_of(&self, granted: &Granted) -> Option<&Room> {
        self.rooms.iter().find(|room| self.is_of(granted, room))
    }

    /// Whether what was granted is of a host; what was granted before there were several is of the first.
    fn is_of(&self, granted: &Granted, room: &Room) -> bool {
        let is_first = self.rooms.first() == Some(room);
        granted.host == room.host || (granted.host.is_empty() && is_first)
    }
}

impl Room {
    /// What is left of it, beside what others have.
    fn left<'a>(&self, others: impl Iterator<Item = &'a Granted>) -> Self {
        let mut left = self.clone();
        for granted in others {
            left.cpu_milli = left.cpu_milli.saturating_sub(granted.cpu_milli);
            left.memory_mib = left.memory_mib.saturating_sub(granted.memory_mib);
            for (name, count) in &granted.accelerators {
                if let Some(one) = left.accelerators.get_mut(name) {
                    *one = one.saturating_sub(*count);
                }
            }
        }
        left
    }

    /// What there is too little of, with the sums.
    fn lacks(&self, left: &Self, ask: &Ask) -> Option<String> {
        let of = |asked: u64, left: u64, all: u64, what: &str| {
            (asked > left)
                .then(|| format!("it asks for {asked} {what}, and {left} of {all} are left"))
        };
        of(ask.cpu_milli, left.cpu_milli, self.cpu_milli, "thousandths of a processor")
            .or_else(|| of(ask.memory_mib, left.memory_mib, self.memory_mib, "MiB of memory"))
            .or_else(|| {
                let count = |room: &Self, name| room.accelerators.get(name).copied().unwrap_or(0);
                ask.accelerators.iter().find_map(|(name, asked)| {
                    of(*asked, count(left, name), count(self, name), name)
                })
            })
    }
}

/// How many addresses a network has.
fn addresses((_, length): (Ipv4Addr, u8)) -> u64 {
    1_u64 << (32 - u32::from(length.min(32)))
}

/// What an app may write to files, in MiB.
pub(crate) fn disk_mib_max(descriptor: &Value) -> u64 {
    let container = &descriptor["osContainerDescriptor"][0];
    let gigabytes = container["ephemeralStorageResourceLimit"]
        .as_f64()
        .or_else(|| container["requestedEphemeralStorageResources"].as_f64());
    let mib = gigabytes.map(|gigabytes| (gigabytes * MIB_OF_GB) as u64);
    mib.filter(|mib| *mib > 0).unwrap_or(DEFAULT_DISK_MIB)
}

/// What a descriptor asks for: what it counts as, and what it may have at most.
struct Ask {
    cpu_milli: u64,
    memory_mib: u64,
    cpu_milli_max: u64,
    memory_mib_max: u64,
    accelerators: BTreeMap<String, u64>,
}

impl Ask {
    fn of(descriptor: &Value) -> Result<Self, Problem> {
        let number = |value: &Value| {
            value.as_f64().filter(|at| *at >= 1.0).map(|at| (at as u64).min(ASKED_MAX))
        };
        let container = &descriptor["osContainerDescriptor"][0];
        let machine = &descriptor["virtualComputeDescriptor"];
        let cpu_milli = number(&container["requestedCpuResources"])
            .or_else(|| number(&machine["virtualCpu"]["numVirtualCpu"]).map(|cpus| cpus * 1000))
            .unwrap_or(DEFAULT.0);
        let memory_mib = number(&container["requestedMemoryResources"])
            .or_else(|| number(&machine["virtualMemory"]["virtualMemSize"]))
            .unwrap_or(DEFAULT.1);
        let cpu_milli_max = number(&container["cpuResourceLimit"]).unwrap_or(cpu_milli);
        let memory_mib_max = number(&container["memoryResourceLimit"]).unwrap_or(memory_mib);
        Ok(Self {
            cpu_milli,
            memory_mib,
            cpu_milli_max: cpu_milli_max.max(cpu_milli),
            memory_mib_max: memory_mib_max.max(memory_mib),
            accelerators: accelerators(&container["extendedResourceRequests"])?,
        })
    }
}

/// Pairs of names and numbers, in one object or several; numbers may be texts.
fn accelerators(asked: &Value) -> Result<BTreeMap<String, u64>, Problem> {
    let pairs = asked.as_array().into_iter().flatten().filter_map(Value::as_object).flatten();
    let read = |(name, count): (&String, &Value)| {
        let number = count.as_u64().or_else(|| count.as_str()?.parse().ok());
        let number = number.ok_or_else(|| {
            let what = format!("no grant: extendedResourceRequests: `{name}` is no whole number");
            Problem::forbidden(what)
        })?;
        Ok((name.clone(), number))
    };
    pairs.map(read).collect()
}

/// Where somebody wants an instance to be: as one of these says; anywhere, where there are none.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Wish {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) any_of: Vec<Spot>,
}

/// A host, or a site, or a host of a site; at least one of them is named.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Spot {
    /// Name of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
    /// The site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) zone: Option<String>,
}

impl Wish {
    /// Whether nothing is wished for.
    pub(crate) fn is_none(&self) -> bool {
        self.any_of.is_empty()
    }

    /// Whether a host is as it is wished for.
    fn is_of(&self, room: &Room) -> bool {
        let is_at = |spot: &Spot| {
            spot.host.as_ref().is_none_or(|host| *host == room.host)
                && (spot.zone.is_none() || spot.zone == room.zone)
        };
        self.is_none() || self.any_of.iter().any(is_at)
    }
}

/// What an instance of a descriptor is granted, beside what others have, by this name: on the host of those that are wished for,
/// or of all where none is, that has the most processors left. To an app that a rule leads packets to, the rule's name, these
/// have to come.
///
/// # Errors
/// What there is too little of on each, with the sums.
pub(crate) fn place(
    tree: &Tree,
    place: &Place,
    descriptor: &Value,
    instance: &str,
    id: &str,
    wish: &Wish,
    leading: Option<&str>,
) -> Result<Granted, Problem> {
    let ask = Ask::of(descriptor)?;
    let others = Life::all(tree).filter(|(other, _)| other != instance);
    let others: Vec<Granted> = others.filter_map(|(_, life)| life.granted).collect();
    let taken: BTreeSet<u32> = others.iter().map(|granted| granted.slot).collect();
    let (mut best, mut why) = (None::<(Room, u32)>, Vec::new());
    for room in place.rooms.iter().filter(|room| wish.is_of(room)) {
        if place.away.contains(&room.host) {
            why.push(format!("on {}: it says nothing", room.host));
            continue;
        }
        if let (Some(rule), Some(barrier)) = (leading, place.barrier(room)) {
            why.push(format!("on {}: {barrier}, as the rule {rule} needs", room.host));
            continue;
        }
        let Some(slot) = place.slots_of(room).find(|slot| !taken.contains(slot)) else {
            let apps = place.slots_of(room).len();
            why.push(format!("on {}: its network has addresses for {apps} apps", room.host));
            continue;
        };
        let left = room.left(others.iter().filter(|one| place.is_of(one, room)));
        match room.lacks(&left, &ask) {
            Some(what) => why.push(format!("on {}: {what}", room.host)),
            None if best.as_ref().is_none_or(|(best, _)| left.cpu_milli > best.cpu_milli) => {
                best = Some((left, slot));
            }
            None => {}
        }
    }
    let refuse = |what: String| Problem::forbidden(format!("no grant {what}"));
    if best.is_none() && why.is_empty() {
        let hosts = place.hosts();
        return Err(refuse(format!("on hosts that are named: apps are run on {hosts}")));
    }
    let (room, slot) = best.ok_or_else(|| refuse(why.join("; ")))?;
    Ok(Granted {
        id: id.to_owned(),
        host: room.host,
        cpu_milli: ask.cpu_milli,
        memory_mib: ask.memory_mib,
        cpu_milli_max: ask.cpu_milli_max,
        memory_mib_max: ask.memory_mib_max,
        accelerators: ask.accelerators,
        slot,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(network: &str, length: u8, reach: Reach) -> Place {
        Place {
            rooms: Vec::new(),
            network: (network.parse().unwrap(), length),
            reach,
            tunnel: None,
            packages: PathBuf::new(),
            apps: PathBuf::new(),
            away: BTreeSet::new(),
        }
    }

    #[test]
    fn each_app_has_an_address_of_the_network_and_none_has_its_ends() {
        for (reach, length, apps) in [(Reach::Interface, 28, 4), (Reach::Service, 28, 14)] {
            let place = at("10.96.8.16", length, reach);
            assert_eq!(place.slots(), apps);
            let mut taken: Vec<_> = (0..apps)
                .flat_map(|slot| {
                    let host = (reach == Reach::Interface).then(|| place.host_address(slot));
                    host.into_iter().chain([place.address(slot)])
                })
                .collect();
            let count = taken.len();
            taken.sort();
            taken.dedup();
            assert_eq!(taken.len(), count, "two have the same");
            let within = |one: &&Ipv4Addr| (17..=30).contains(&one.octets()[3]);
            assert_eq!(taken.iter().filter(within).count(), count, "{taken:?}");
        }
    }

    #[test]
    fn an_app_comes_where_most_is_left_of_what_it_needs() {
        let room = |host: &str, cpu_milli, gpus: u64| Room {
            host: host.to_owned(),
            cpu_milli,
            memory_mib: 1024,
            accelerators: [("nvidia.com/gpu".to_owned(), gpus)].into(),
            zone: (host != "large").then(|| "inner".to_owned()),
            network: None,
            tunnel: None,
        };
        let mut all = at("10.96.8.0", 24, Reach::Service);
        all.rooms = vec![room("small", 1000, 0), room("gpu", 2000, 2), room("large", 4000, 0)];
        let mut tree = Tree::default();
        let mut number = 0;
        let mut find = |asked: Value, named: &[&str]| {
            let descriptor = json!({ "osContainerDescriptor": [asked] });
            number += 1;
            let spot = |name: &&str| Spot {
                host: name.strip_prefix('@').map(str::to_owned),
                zone: name.strip_prefix('#').map(str::to_owned),
            };
            let wish = Wish { any_of: named.iter().map(spot).collect() };
            let found = place(&tree, &all, &descriptor, "new", &number.to_string(), &wish, None);
            found.map_err(|problem| problem.detail).map(|granted| {
                let host = granted.host.clone();
                let life = Life { granted: Some(granted), ..Life::default() };
                tree.apply(life.put(&number.to_string()));
                host
            })
        };
        let cpus = |milli: u64| json!({ "requestedCpuResources": milli });
        let gpus =
            |count: Value| json!({ "extendedResourceRequests": [{ "nvidia.com/gpu": count }] });
        assert_eq!(find(cpus(1500), &[]).unwrap(), "large");
        assert_eq!(find(cpus(1500), &[]).unwrap(), "large");
        // It is the fullest by now.
        assert_eq!(find(cpus(1000), &[]).unwrap(), "gpu");
        assert_eq!(find(cpus(500), &["@small", "@elsewhere"]).unwrap(), "small");
        assert_eq!(find(gpus(json!("2")), &[]).unwrap(), "gpu");
        let full = find(gpus(json!(1)), &[]).unwrap_err();
        assert!(
            full.contains("on gpu: it asks for 1 nvidia.com/gpu, and 0 of 2 are left"),
            "{full}"
        );
        assert!(full.contains("on large: it asks for 1 nvidia.com/gpu, and 0 of 0"), "{full}");
        assert_eq!(find(cpus(100), &["#inner"]).unwrap(), "small");
        let elsewhere = find(cpus(1), &["@elsewhere"]).unwrap_err();
        assert!(elsewhere.contains("apps are run on small, gpu, large"), "{elsewhere}");
        assert!(
            find(gpus(json!("many")), &[]).unwrap_err().contains("`nvidia.com/gpu` is no whole")
        );
    }

    #[test]
    fn no_number_of_a_descriptor_is_too_large_to_be_reckoned_with() {
        let machine = json!({ "virtualCpu": { "numVirtualCpu": 1e17 } });
        let limits = json!([{ "memoryResourceLimit": 1e30 }]);
        let descriptor =
            json!({ "virtualComputeDescriptor": machine, "osContainerDescriptor": limits });
        let ask = Ask::of(&descriptor).unwrap();
        assert_eq!((ask.cpu_milli, ask.memory_mib_max), (ASKED_MAX * 1000, ASKED_MAX));
        let mut all = at("10.96.8.0", 24, Reach::Service);
        all.rooms = vec![Room { cpu_milli: 1000, memory_mib: 1024, ..Room::default() }];
        let refused =
            place(&Tree::default(), &all, &descriptor, "new", "1", &Wish::default(), None)
                .unwrap_err();
        assert!(refused.detail.contains("thousandths of a processor"), "{refused:?}");
    }

    #[test]
    fn what_is_written_is_bounded_by_the_descriptor() {
        let of = |container: Value| disk_mib_max(&json!({ "osContainerDescriptor": [container] }));
        assert_eq!(of(json!({})), DEFAULT_DISK_MIB);
        assert_eq!(of(json!({ "requestedEphemeralStorageResources": 0.5 })), 512);
        let both = json!({
            "requestedEphemeralStorageResources": 1, "ephemeralStorageResourceLimit": 2,
        });
        assert_eq!(of(both), 2048);
    }
}

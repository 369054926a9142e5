//! What an instance asks for and what the host has.

use super::{Granted, Life};
use crate::problem::Problem;
use crate::tree::Tree;
use serde_json::Value;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// What an app has that does not say what it needs, in thousandths of a processor and MiB.
const DEFAULT: (u64, u64) = (500, 256);
/// What an app may write to files that does not say how much, in MiB.
const DEFAULT_DISK_MIB: u64 = 1024;
/// MiB of a gigabyte as descriptors have it.
const MIB_OF_GB: f64 = 1024.0;

/// How apps are reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reach {
    /// By an interface of this machine for each, with a network of four addresses: the app's, the host's,
    /// and the two that a network loses. The edge router can have it, too.
    Interface,
    /// By an address for each that a cluster's network knows.
    Service,
}

/// A host's room for apps, as its operator says.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its name.
    pub host: String,
    /// What apps may have together, in thousandths of a processor.
    pub cpu_milli: u64,
    /// As well, in MiB.
    pub memory_mib: u64,
    /// Network that apps' own addresses are of: its first address, and its length.
    pub network: (Ipv4Addr, u8),
    /// How apps are reached at them.
    pub reach: Reach,
    /// Where packages are.
    pub packages: PathBuf,
    /// Where apps' files are.
    pub apps: PathBuf,
}

impl Place {
    /// Apps there are addresses for.
    fn slots(&self) -> u32 {
        let addresses = 1_u64 << (32 - u32::from(self.network.1.min(32)));
        let slots = match self.reach {
            Reach::Interface => addresses / 4,
            // Without the first and the last, which a cluster may keep.
            Reach::Service => addresses.saturating_sub(2),
        };
        u32::try_from(slots).unwrap_or(u32::MAX)
    }

    /// The address of an app.
    pub(crate) fn address(&self, slot: u32) -> Ipv4Addr {
        self.first(slot).wrapping_add(1).into()
    }

    /// The host's address in an app's network: beside it, or that of the network, where apps have none of
    /// their own.
    pub(crate) fn host_address(&self, slot: u32) -> Ipv4Addr {
        match self.reach {
            Reach::Interface => self.first(slot).into(),
            Reach::Service => self.network.0,
        }
    }

    /// The address before an app's.
    fn first(&self, slot: u32) -> u32 {
        let first = u32::from(self.network.0);
        match self.reach {
            Reach::Interface => first.wrapping_add(slot.wrapping_mul(4)).wrapping_add(1),
            Reach::Service => first.wrapping_add(slot),
        }
    }
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

/// What a descriptor asks for: what it counts as, and what it may have at most, each in thousandths of a
/// processor and MiB.
fn ask_of(descriptor: &Value) -> [(u64, u64); 2] {
    let number = |value: &Value| value.as_f64().filter(|at| *at >= 1.0).map(|at| at as u64);
    let container = &descriptor["osContainerDescriptor"][0];
    let machine = &descriptor["virtualComputeDescriptor"];
    let cpu = number(&container["requestedCpuResources"])
        .or_else(|| number(&machine["virtualCpu"]["numVirtualCpu"]).map(|cpus| cpus * 1000))
        .unwrap_or(DEFAULT.0);
    let memory = number(&container["requestedMemoryResources"])
        .or_else(|| number(&machine["virtualMemory"]["virtualMemSize"]))
        .unwrap_or(DEFAULT.1);
    let cpu_max = number(&container["cpuResourceLimit"]).unwrap_or(cpu).max(cpu);
    let memory_max = number(&container["memoryResourceLimit"]).unwrap_or(memory).max(memory);
    [(cpu, memory), (cpu_max, memory_max)]
}

/// What an instance of a descriptor is granted, beside what others have.
///
/// # Errors
/// What there is too little of, with the sums.
pub(crate) fn place(
    tree: &Tree,
    place: &Place,
    descriptor: &Value,
    id: &str,
) -> Result<Granted, Problem> {
    let [(cpu_milli, memory_mib), (cpu_milli_max, memory_mib_max)] = ask_of(descriptor);
    let (mut cpu_left, mut memory_left) = (place.cpu_milli, place.memory_mib);
    let mut taken = std::collections::BTreeSet::new();
    for granted in Life::all(tree).filter_map(|(_, life)| life.granted) {
        cpu_left = cpu_left.saturating_sub(granted.cpu_milli);
        memory_left = memory_left.saturating_sub(granted.memory_mib);
        taken.insert(granted.slot);
    }
    let host = &place.host;
    let refuse = |what: String| Err(Problem::forbidden(format!("no grant on {host}: {what}")));
    if cpu_milli > cpu_left {
        let all = place.cpu_milli;
        return refuse(format!(
            "it asks for {cpu_milli} thousandths of a processor, and {cpu_left} of {all} are left"
        ));
    }
    if memory_mib > memory_left {
        let all = place.memory_mib;
        return refuse(format!(
            "it asks for {memory_mib} MiB of memory, and {memory_left} of {all} are left"
        ));
    }
    match (0..place.slots()).find(|slot| !taken.contains(slot)) {
        Some(slot) => Ok(Granted {
            id: id.to_owned(),
            cpu_milli,
            memory_mib,
            cpu_milli_max,
            memory_mib_max,
            slot,
        }),
        None => refuse(format!("its network has addresses for {} apps", taken.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(network: &str, length: u8, reach: Reach) -> Place {
        Place {
            host: "here".to_owned(),
            cpu_milli: 0,
            memory_mib: 0,
            network: (network.parse().unwrap(), length),
            reach,
            packages: PathBuf::new(),
            apps: PathBuf::new(),
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

//! What an instance asks for and what the host has.

use super::{Granted, Life};
use crate::problem::Problem;
use crate::tree::Tree;
use serde_json::Value;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// What an app has that does not say what it needs, in thousandths of a processor and MiB.
const DEFAULT: (u64, u64) = (500, 256);
/// Addresses of a network for one app: its own, the host's, and the two that a network loses.
const ADDRESSES: u32 = 4;

/// A host's room for apps, as its operator says.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its name.
    pub host: String,
    /// What apps may have together, in thousandths of a processor.
    pub cpu_milli: u64,
    /// As well, in MiB.
    pub memory_mib: u64,
    /// Network that apps' own networks of four addresses are of: its first address, and its length.
    pub network: (Ipv4Addr, u8),
    /// Where packages are.
    pub packages: PathBuf,
    /// Where apps' files are.
    pub apps: PathBuf,
}

impl Place {
    /// Networks for apps there are.
    fn slots(&self) -> u32 {
        let addresses = 1_u64 << (32 - u32::from(self.network.1.min(32)));
        u32::try_from(addresses / u64::from(ADDRESSES)).unwrap_or(u32::MAX)
    }

    /// The host's address in an app's network, and the app's.
    pub(crate) fn addresses(&self, slot: u32) -> [Ipv4Addr; 2] {
        let first = u32::from(self.network.0).wrapping_add(slot.wrapping_mul(ADDRESSES));
        [first.wrapping_add(1).into(), first.wrapping_add(2).into()]
    }
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

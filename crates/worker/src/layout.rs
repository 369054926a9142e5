//! Where workers and memory are: groups of workers, one for each NUMA node of the machine, each with
//! memory of its node and an index of its own.
//!
//! A machine with one node has one group, and nothing is as it would not be without groups.

use freshet_base::units::format_bytes;
use freshet_config::Settings;
use freshet_net::address::Address;
use freshet_net::listener::Listener;
use freshet_net::steering;
use freshet_net::topology::{Cpu, Topology};
use freshet_store::{Arena, Placement, StoreError};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Memory of a group at least, for a node to have more than one by itself: with less, the largest objects would have
/// no room.
const GROUP_BYTES_MIN: u64 = 64 << 20;

/// The groups of a node, and where its workers are.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// Each worker's place.
    pub workers: Vec<Seat>,
    /// Each group's NUMA node; `None` where its memory may be anywhere.
    pub groups: Vec<Option<usize>>,
    /// The NUMA node of each processor, where connections are to stay on the node they come through.
    steered: Option<BTreeMap<usize, usize>>,
    memory_bytes: u64,
}

/// Where a worker runs, and of which group it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Seat {
    /// Its processor.
    pub cpu: Cpu,
    /// Its group.
    pub group: usize,
}

impl Layout {
    /// The layout of these settings on this machine.
    pub fn of(settings: &Settings) -> Self {
        Self::on(&Topology::read(), settings)
    }

    fn on(machine: &Topology, settings: &Settings) -> Self {
        let cpus = machine.worker_cpus(Some(settings.workers).filter(|count| *count > 0));
        let mut nodes: Vec<usize> = cpus.iter().map(|cpu| cpu.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let count = settings.numa_groups.unwrap_or_else(|| by_itself(settings, nodes.len()));
        let mut seen = vec![0; nodes.len()];
        let seat = |cpu: Cpu| {
            let node = nodes.binary_search(&cpu.node).expect("it is among them");
            let group = group_of(node, seen[node], nodes.len(), count);
            seen[node] += 1;
            Seat { cpu, group }
        };
        let workers = cpus.into_iter().map(seat).collect();
        // Memory of a group that is on several nodes, or of all there are, may be anywhere.
        let is_on_one = nodes.len() > 1 && count >= nodes.len();
        let groups = (0..count).map(|at| is_on_one.then(|| nodes[at % nodes.len()])).collect();
        // Where no packets come through a node, its workers would have no connections.
        let is_steered = is_on_one
            && (settings.numa_groups.is_some()
                || nodes.iter().all(|node| machine.network_nodes.contains(node)));
        let steered = is_steered.then(|| machine.node_of.clone());
        Self { workers, groups, steered, memory_bytes: settings.memory_bytes }
    }

    /// The memory of each group: the same for all, near its node.
    ///
    /// # Errors
    /// It is too little, or the kernel refuses.
    pub fn arenas(&self) -> Result<Vec<Arc<Arena>>, StoreError> {
        let bytes = self.memory_bytes / self.groups.len() as u64;
        let arena = |node: &Option<usize>| {
            let Some(node) = node.and_then(|node| u32::try_from(node).ok()) else {
                return Arena::new(bytes);
            };
            match Arena::in_place(bytes, &Placement::Near(node)) {
                Err(error @ StoreError::ConfigMemoryNode { .. }) => {
                    tracing::warn!(%error, "memory of a group is not on its NUMA node");
                    Arena::new(bytes)
                }
                other => other,
            }
        };
        self.groups.iter().map(arena).collect()
    }

    /// Has connections stay on the node they come through: the sockets of one address, as they were bound,
    /// each with its worker.
    pub fn steer(&self, sockets: &[(usize, &Listener)]) {
        let Some((_, first)) = sockets.first().filter(|_| sockets.len() > 1) else { return };
        if !matches!(first.local_address(), Address::Tcp(_)) {
            return;
        }
        let Some(node_of) = &self.steered else { return steering::detach(first) };
        let nodes: Vec<usize> =
            sockets.iter().map(|(worker, _)| self.workers[*worker].cpu.node).collect();
        if let Err(error) = steering::attach(first, &nodes, node_of) {
            tracing::info!(%error, "connections do not stay on the NUMA node they come through");
        }
    }
}

impl fmt::Display for Layout {
    /// One line for an operator.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.groups.len();
        let (workers, bytes) = (self.workers.len(), format_bytes(self.memory_bytes / count as u64));
        if count == 1 {
            return write!(f, "{workers} workers, {bytes} of memory");
        }
        let of = |(group, node): (usize, &Option<usize>)| {
            let own = self.workers.iter().filter(|seat| seat.group == group).count();
            node.map_or_else(|| own.to_string(), |node| format!("{own} on NUMA node {node}"))
        };
        let each: Vec<_> = self.groups.iter().enumerate().map(of).collect();
        let each = each.join(", ");
        write!(f, "{workers} workers in {count} groups ({each}), {bytes} of memory each")?;
        match self.steered {
            Some(_) => f.write_str("; connections stay on the node they come through"),
            None => Ok(()),
        }
    }
}

/// As many groups as there are nodes, unless each would have too little memory, or there is a lower class
/// of memory that cannot be divided.
fn by_itself(settings: &Settings, nodes: usize) -> usize {
    let is_whole =
        settings.lower_memory.as_ref().is_some_and(|lower| !lower.placement.is_divisible());
    let has_room = settings.memory_bytes / nodes as u64 >= GROUP_BYTES_MIN;
    if has_room && !is_whole { nodes } else { 1 }
}

/// The group of the worker that comes as number `turn` on a node: where there are more groups than
/// nodes, those of a node take turns; where there are fewer, nodes share them.
fn group_of(node: usize, turn: usize, nodes: usize, groups: usize) -> usize {
    if groups < nodes {
        return node % groups;
    }
    let on_node = (groups - node).div_ceil(nodes);
    node + nodes * (turn % on_node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_config::document::Document;
    use std::collections::BTreeSet;

    /// A machine of so many nodes with four processors each.
    fn machine(nodes: usize, network: &[usize]) -> Topology {
        let cpu = |cpu| Cpu { node: cpu / 4, package: cpu / 4, core: cpu, cpu };
        Topology {
            cpus: (0..4 * nodes).map(cpu).collect(),
            node_of: (0..4 * nodes).map(|cpu| (cpu, cpu / 4)).collect(),
            network_nodes: network.iter().copied().collect::<BTreeSet<_>>(),
            quota: None,
        }
    }

    fn layout(machine: &Topology, text: &str) -> Layout {
        let text = format!("memory = \"256MiB\"\n{text}\n[[origin]]\nurl = \"http://a.test\"\n");
        let settings = Settings::from_document(&Document::parse(&text).unwrap()).unwrap();
        Layout::on(machine, &settings)
    }

    fn groups(layout: &Layout) -> Vec<usize> {
        layout.workers.iter().map(|seat| seat.group).collect()
    }

    #[test]
    fn a_machine_with_one_node_has_one_group_with_memory_from_anywhere() {
        let found = layout(&machine(1, &[0]), "");
        assert_eq!((groups(&found), &*found.groups), (vec![0; 4], &[None][..]));
        assert_eq!(found.steered, None);
        assert_eq!(found.to_string(), "4 workers, 268.4 MB of memory");
    }

    #[test]
    fn each_node_has_a_group_that_its_processors_are_of() {
        let found = layout(&machine(2, &[0, 1]), "");
        assert!(found.workers.iter().all(|seat| seat.group == seat.cpu.node));
        assert_eq!(found.groups, [Some(0), Some(1)]);
        assert_eq!(
            found.to_string(),
            "8 workers in 2 groups (4 on NUMA node 0, 4 on NUMA node 1), 134.2 MB of memory each; \
             connections stay on the node they come through"
        );
    }

    #[test]
    fn connections_are_spread_where_a_node_has_no_network_of_its_own() {
        assert_eq!(layout(&machine(2, &[1]), "").steered, None);
        assert!(layout(&machine(2, &[1]), "numa_groups = 2").steered.is_some());
        assert_eq!(layout(&machine(2, &[0, 1]), "numa_groups = 1").steered, None);
    }

    #[test]
    fn more_groups_than_nodes_divide_them_and_fewer_join_them() {
        let found = layout(&machine(2, &[]), "numa_groups = 3");
        let mut of_nodes: Vec<_> =
            found.workers.iter().map(|seat| (seat.cpu.node, seat.group)).collect();
        of_nodes.sort_unstable();
        of_nodes.dedup();
        assert_eq!(of_nodes, [(0, 0), (0, 2), (1, 1)]);
        assert_eq!(found.groups, [Some(0), Some(1), Some(0)]);
        let found = layout(&machine(4, &[]), "numa_groups = 2");
        assert!(found.workers.iter().all(|seat| seat.group == seat.cpu.node % 2));
        assert_eq!(found.groups, [None, None]);
        assert_eq!(groups(&layout(&machine(1, &[]), "numa_groups = 2")), [0, 1, 0, 1]);
    }

    #[test]
    fn little_memory_and_a_lower_class_in_a_file_are_not_divided() {
        assert_eq!(layout(&machine(64, &[]), "").groups.len(), 1);
        let lower = "[lower_memory]\npath = \"/mnt/pmem/a\"\nsize = \"1GiB\"";
        assert_eq!(layout(&machine(2, &[]), lower).groups.len(), 1);
        let lower = "[lower_memory]\nnuma_node = \"2\"\nsize = \"1GiB\"";
        assert_eq!(layout(&machine(2, &[]), lower).groups.len(), 2);
    }
}

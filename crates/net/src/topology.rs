//! The processors this process may use, and pinning threads to them.
//!
//! The affinity mask already reflects cpusets of cgroups and containers; a CPU quota
//! (`cpu.max`) is read beside it, because ten workers on a quota of two processors only take turns
//! being throttled. Cores and NUMA nodes come from sysfs.

use crate::error::NetError;
use rustix::fs::{major, minor};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// One logical processor.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Cpu {
    /// NUMA node; 0 where the machine has no nodes.
    pub node: usize,
    /// Physical package (socket).
    pub package: usize,
    /// Core within the package; threads of one core share it.
    pub core: usize,
    /// Number of the processor, as affinity masks count.
    pub cpu: usize,
}

/// The processors this process may use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    /// Allowed processors in ascending order of number; never empty.
    pub cpus: Vec<Cpu>,
    /// Processors' worth of time the cgroup may use; `None` is unlimited.
    pub quota: Option<f64>,
    /// The NUMA node of each processor of the machine, also of those that are not allowed; nothing where
    /// it has no nodes.
    pub node_of: BTreeMap<usize, usize>,
    /// NUMA nodes that network devices are attached to.
    pub network_nodes: BTreeSet<usize>,
}

impl Topology {
    /// What the kernel says now. Reads some files per processor. Where a file is missing, the
    /// processor counts as a core of its own on node 0.
    pub fn read() -> Self {
        Self::read_from(Path::new("/"), &allowed_cpus())
    }

    /// The processors to pin workers to, one worker each: `count` of them, or as many as there are
    /// cores within the quota. Each core's first thread comes before any core's second, and nodes
    /// are filled evenly. More workers than processors share processors.
    pub fn worker_cpus(&self, count: Option<usize>) -> Vec<Cpu> {
        let order = self.spread();
        let quota = self.quota.map_or(usize::MAX, |quota| quota.ceil() as usize);
        let count = count.unwrap_or_else(|| order.len().min(quota)).max(1);
        order.iter().cycle().take(count).copied().collect()
    }

    /// The processors of a NUMA node that this process may use; none where the machine has one node alone.
    pub fn cpus_of(&self, node: usize) -> Vec<usize> {
        let has_others = self.node_of.values().any(|other| *other != node);
        let own = self.cpus.iter().filter(|cpu| has_others && cpu.node == node);
        own.map(|cpu| cpu.cpu).collect()
    }

    fn read_from(root: &Path, allowed: &[usize]) -> Self {
        let node_of = node_of_each(root);
        let system = root.join("sys/devices/system/cpu");
        let cpus = allowed
            .iter()
            .map(|&cpu| {
                let entry = system.join(format!("cpu{cpu}/topology"));
                Cpu {
                    node: node_of.get(&cpu).copied().unwrap_or(0),
                    package: number_in(&entry.join("physical_package_id")).unwrap_or(0),
                    core: number_in(&entry.join("core_id")).unwrap_or(cpu),
                    cpu,
                }
            })
            .collect();
        Self { cpus, quota: quota(root), node_of, network_nodes: network_nodes(root) }
    }

    /// All processors in the order workers should take them.
    fn spread(&self) -> Vec<Cpu> {
        let mut threads_seen = BTreeMap::new();
        let mut cores_seen = BTreeMap::new();
        let mut order: Vec<(usize, usize, Cpu)> = Vec::with_capacity(self.cpus.len());
        for cpu in &self.cpus {
            let thread = next(&mut threads_seen, (cpu.package, cpu.core));
            let place = next(&mut cores_seen, (thread, cpu.node));
            order.push((thread, place, *cpu));
        }
        order.sort_unstable();
        order.into_iter().map(|(_, _, cpu)| cpu).collect()
    }
}

/// Binds the calling thread, and those it begins from now on, to these processors.
///
/// # Errors
/// [`NetError::LocalPin`].
pub fn pin_current_thread(cpus: &[usize]) -> Result<(), NetError> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            let why = format!("numbers end at {}", CpuSet::MAX_CPU - 1);
            return Err(NetError::LocalPin { cpu, why });
        }
        set.set(cpu);
    }
    let cpu = cpus.first().copied().unwrap_or_default();
    sched_setaffinity(None, &set)
        .map_err(|error| NetError::LocalPin { cpu, why: error.to_string() })
}

/// The NUMA node that the controller of a drive is attached to; `None` where the machine says of none, as of
/// drives that several others make up. `path` is the drive, or a file on it, which may still have to be made.
pub fn node_of_drive(path: &Path) -> Option<usize> {
    let found = fs::metadata(path).ok().or_else(|| fs::metadata(path.parent()?).ok())?;
    let is_drive = found.file_type().is_block_device();
    node_of_device(Path::new("/"), if is_drive { found.rdev() } else { found.dev() })
}

/// A device is in a folder inside of that of its controller, which has the number of a node where it has one.
fn node_of_device(root: &Path, number: u64) -> Option<usize> {
    let name = format!("sys/dev/block/{}:{}", major(number), minor(number));
    let folder = fs::canonicalize(root.join(name)).ok()?;
    folder.ancestors().find_map(|folder| number_in(&folder.join("numa_node")))
}

fn allowed_cpus() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect();
    if allowed.is_empty() { vec![0] } else { allowed }
}

fn node_of_each(root: &Path) -> BTreeMap<usize, usize> {
    let mut nodes = BTreeMap::new();
    let Ok(entries) = fs::read_dir(root.join("sys/devices/system/node")) else { return nodes };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let node = name.to_str().and_then(|name| name.strip_prefix("node")?.parse::<usize>().ok());
        let list = fs::read_to_string(entry.path().join("cpulist"));
        if let (Some(node), Ok(list)) = (node, list) {
            nodes.extend(cpu_list(&list).into_iter().map(|cpu| (cpu, node)));
        }
    }
    nodes
}

/// Nodes that network devices of the machine are attached to; devices that are only software have none.
fn network_nodes(root: &Path) -> BTreeSet<usize> {
    let Ok(devices) = fs::read_dir(root.join("sys/class/net")) else { return BTreeSet::new() };
    let node = |device: fs::DirEntry| number_in(&device.path().join("device/numa_node"));
    devices.flatten().filter_map(node).collect()
}

/// Numbers in a list such as `0-3,8,10-11`. Parts that are not understood are left out.
fn cpu_list(text: &str) -> Vec<usize> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            cpus.extend(first..=last.min(CpuSet::MAX_CPU));
        }
    }
    cpus
}

/// The tightest quota from this process' cgroup up to the root: cgroup v2, else v1.
fn quota(root: &Path) -> Option<f64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut tightest: Option<f64> = None;
    let mut note = |quota: Option<f64>| {
        if let Some(quota) = quota.filter(|quota| *quota > 0.0) {
            tightest = Some(tightest.map_or(quota, |other| other.min(quota)));
        }
    };
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let own = Path::new(path.trim_start_matches('/'));
        if controllers.is_empty() {
            let mount = root.join("sys/fs/cgroup");
            own.ancestors().for_each(|group| note(quota_v2(&mount.join(group))));
        } else if controllers.split(',').any(|controller| controller == "cpu") {
            let mount = root.join("sys/fs/cgroup").join(controllers);
            let mount = if mount.is_dir() { mount } else { root.join("sys/fs/cgroup/cpu") };
            own.ancestors().for_each(|group| note(quota_v1(&mount.join(group))));
        }
    }
    tightest
}

/// `cpu.max` is `quota period` in microseconds, or `max period`.
fn quota_v2(group: &Path) -> Option<f64> {
    let text = fs::read_to_string(group.join("cpu.max")).ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
}

/// A quota of -1 is none.
fn quota_v1(group: &Path) -> Option<f64> {
    let number = |name| fs::read_to_string(group.join(name)).ok()?.trim().parse::<f64>().ok();
    Some(number("cpu.cfs_quota_us")? / number("cpu.cfs_period_us")?)
}

fn number_in(path: &Path) -> Option<usize> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// How often `key` was asked for before.
fn next<K: Ord>(seen: &mut BTreeMap<K, usize>, key: K) -> usize {
    let count = seen.entry(key).or_insert(0);
    *count += 1;
    *count - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two nodes of two cores with two threads each, numbered as Linux does: first threads first.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |path: String, text: String| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for cpu in 0..8 {
            let entry = format!("sys/devices/system/cpu/cpu{cpu}/topology");
            write(format!("{entry}/physical_package_id"), format!("{}\n", cpu % 4 / 2));
            write(format!("{entry}/core_id"), format!("{}\n", cpu % 2));
        }
        write("sys/devices/system/node/node0/cpulist".into(), "0-1,4-5\n".into());
        write("sys/devices/system/node/node1/cpulist".into(), "2-3,6-7\n".into());
        write("sys/class/net/eth0/device/numa_node".into(), "1\n".into());
        write("sys/class/net/eth1/device/numa_node".into(), "-1\n".into());
        write("sys/class/net/lo/mtu".into(), "65536\n".into());
        write("proc/self/cgroup".into(), "0::/pod/box\n".into());
        write("sys/fs/cgroup/pod/box/cpu.max".into(), "max 100000\n".into());
        root
    }

    fn numbers(topology: &Topology, count: Option<usize>) -> Vec<usize> {
        topology.worker_cpus(count).iter().map(|cpu| cpu.cpu).collect()
    }

    #[test]
    fn workers_take_cores_before_threads_and_nodes_in_turn() {
        let root = machine();
        let topology = Topology::read_from(root.path(), &[0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(numbers(&topology, None), [0, 2, 1, 3, 4, 6, 5, 7]);
        assert_eq!(numbers(&topology, Some(2)), [0, 2]);
        assert_eq!(topology.worker_cpus(Some(10)).len(), 10);
    }

    #[test]
    fn only_allowed_processors_are_used() {
        let root = machine();
        let topology = Topology::read_from(root.path(), &[3, 7]);
        assert_eq!(numbers(&topology, None), [3, 7]);
        assert!(topology.worker_cpus(None).iter().all(|cpu| cpu.node == 1));
        // Packets may come through others.
        assert_eq!((topology.node_of.len(), topology.node_of[&0]), (8, 0));
        assert_eq!(topology.network_nodes, BTreeSet::from([1]));
    }

    #[test]
    fn the_tightest_quota_on_the_way_up_bounds_the_default_count() {
        let root = machine();
        fs::write(root.path().join("sys/fs/cgroup/pod/cpu.max"), "250000 100000\n").unwrap();
        let topology = Topology::read_from(root.path(), &[0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(topology.quota, Some(2.5));
        assert_eq!(numbers(&topology, None), [0, 2, 1]);
        assert_eq!(topology.worker_cpus(Some(8)).len(), 8);
    }

    #[test]
    fn a_quota_of_version_1_counts_and_minus_one_is_none() {
        let root = machine();
        fs::write(root.path().join("proc/self/cgroup"), "4:cpu,cpuacct:/\n0::/\n").unwrap();
        let group = root.path().join("sys/fs/cgroup/cpu,cpuacct");
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("cpu.cfs_period_us"), "100000\n").unwrap();
        fs::write(group.join("cpu.cfs_quota_us"), "150000\n").unwrap();
        assert_eq!(Topology::read_from(root.path(), &[0]).quota, Some(1.5));
        fs::write(group.join("cpu.cfs_quota_us"), "-1\n").unwrap();
        assert_eq!(Topology::read_from(root.path(), &[0]).quota, None);
    }

    #[test]
    fn a_machine_without_sysfs_still_has_workers() {
        let topology = Topology::read_from(Path::new("/nonexistent"), &[2, 5]);
        assert_eq!(numbers(&topology, None), [2, 5]);
    }

    #[test]
    fn a_pinned_thread_may_run_on_one_processor_only() {
        let cpu = Topology::read().worker_cpus(Some(1)).first().unwrap().cpu;
        let thread = std::thread::spawn(move || {
            pin_current_thread(&[cpu]).unwrap();
            std::thread::spawn(allowed_cpus).join().unwrap()
        });
        assert_eq!(thread.join().unwrap(), [cpu], "as are those it begins");
        assert!(matches!(pin_current_thread(&[1 << 20]), Err(NetError::LocalPin { .. })));
    }

    #[test]
    fn a_drive_is_on_the_node_of_its_controller() {
        let root = machine();
        let controller = root.path().join("sys/devices/pci0000:80/0000:81:00.0");
        let part = controller.join("nvme/nvme1/nvme1n1/nvme1n1p2");
        fs::create_dir_all(&part).unwrap();
        fs::write(controller.join("numa_node"), "1\n").unwrap();
        let names = root.path().join("sys/dev/block");
        fs::create_dir_all(&names).unwrap();
        std::os::unix::fs::symlink(&part, names.join("259:7")).unwrap();
        let number = rustix::fs::makedev(259, 7);
        assert_eq!(node_of_device(root.path(), number), Some(1));
        // As the kernel says of a controller that is on none.
        fs::write(controller.join("numa_node"), "-1\n").unwrap();
        assert_eq!(node_of_device(root.path(), number), None);
        assert_eq!(node_of_device(root.path(), rustix::fs::makedev(8, 0)), None);
        let topology = Topology::read_from(root.path(), &[0, 1, 3, 7]);
        assert_eq!((topology.cpus_of(1), topology.cpus_of(5)), (vec![3, 7], vec![]));
    }
}

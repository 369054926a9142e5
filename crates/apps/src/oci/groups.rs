//! Limits of what an instance may use, by control groups of the first or the second version, whichever
//! this machine has its controllers in.

use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = "/sys/fs/cgroup";
/// Groups of ours are below this one.
const OURS: &str = "freshet-mec";
/// Period that shares of a processor are of, in microseconds.
const PERIOD_US: u64 = 100_000;
/// Processes and threads an app may have.
const PROCESSES_MAX: u64 = 4096;

/// Whether the controllers are in one hierarchy.
fn is_unified() -> bool {
    Path::new(ROOT).join("cgroup.controllers").exists()
}

fn groups(name: &str) -> Vec<(&'static str, PathBuf)> {
    let root = Path::new(ROOT);
    if is_unified() {
        return vec![("", root.join(OURS).join(name))];
    }
    ["cpu", "memory", "pids"].map(|one| (one, root.join(one).join(OURS).join(name))).to_vec()
}

/// Puts a process under limits, with whatever it begins.
pub(super) fn limit(name: &str, pid: u32, cpu_milli: u64, memory_mib: u64) -> Result<(), String> {
    let quota_us = cpu_milli * PERIOD_US / 1000;
    let bytes = memory_mib << 20;
    if is_unified() {
        for above in [ROOT.to_owned(), format!("{ROOT}/{OURS}")] {
            fs::create_dir_all(&above).map_err(|error| format!("{above}: {error}"))?;
            write(&Path::new(&above).join("cgroup.subtree_control"), "+cpu +memory +pids")?;
        }
    }
    for (controller, group) in groups(name) {
        fs::create_dir_all(&group).map_err(|error| format!("{}: {error}", group.display()))?;
        let settings: &[(&str, String)] = match controller {
            "cpu" => &[
                ("cpu.cfs_period_us", PERIOD_US.to_string()),
                ("cpu.cfs_quota_us", quota_us.to_string()),
            ],
            "memory" => &[("memory.limit_in_bytes", bytes.to_string())],
            "pids" => &[("pids.max", PROCESSES_MAX.to_string())],
            _ => &[
                ("cpu.max", format!("{quota_us} {PERIOD_US}")),
                ("memory.max", bytes.to_string()),
                ("pids.max", PROCESSES_MAX.to_string()),
            ],
        };
        for (file, value) in settings {
            write(&group.join(file), value)?;
        }
        bound_swap(&group)?;
        write(&group.join("cgroup.procs"), &pid.to_string())?;
    }
    Ok(())
}

/// Keeps what is over an instance's memory from going to swap. The first version counts both in one limit,
/// which cannot be below that of memory; where the kernel counts no swap there is no such file.
fn bound_swap(group: &Path) -> Result<(), String> {
    let of_second = group.join("memory.swap.max");
    if of_second.exists() {
        write(&of_second, "0")?;
    }
    let of_first = group.join("memory.memsw.limit_in_bytes");
    if of_first.exists() {
        let memory = group.join("memory.limit_in_bytes");
        let bytes = fs::read_to_string(&memory)
            .map_err(|error| format!("{}: {error}", memory.display()))?;
        write(&of_first, bytes.trim())?;
    }
    Ok(())
}

fn write(path: &Path, value: &str) -> Result<(), String> {
    fs::write(path, value).map_err(|error| format!("{}: {value}: {error}", path.display()))
}

/// Removes an instance's groups, and says whether they are gone: some process may be about to end.
pub(super) fn remove(name: &str) -> bool {
    groups(name).into_iter().all(|(_, group)| !group.exists() || fs::remove_dir(&group).is_ok())
}

//! The configuration of a container (OCI runtime specification 1.0).

use super::network;
use crate::Spec;
use crate::driver::ROOTFS;
use freshet_package::image::Image;
use serde_json::{Value, json};
use std::fs;
use std::io;

/// What an app may do of what only root may: what servers that are made for containers need.
const CAPABILITIES: [&str; 9] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_NET_BIND_SERVICE",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
];
/// Calls no app needs, and that reach out of its namespaces or load code into the kernel.
const REFUSED: [&str; 22] = [
    "add_key",
    "bpf",
    "delete_module",
    "fsmount",
    "fsopen",
    "finit_module",
    "init_module",
    "io_uring_setup",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "mount",
    "move_mount",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pivot_root",
    "request_key",
    "setns",
    "umount2",
    "unshare",
    "userfaultfd",
];
/// Flags of `clone` that make namespaces, of which one of users makes whoever is in it root of the others it makes:
/// CLONE_NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWNS (clone(2)).
const NAMESPACE_FLAGS: [u64; 7] =
    [0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000, 0x0002_0000];
/// ENOSYS: libraries that find no `clone3` go on with `clone`.
const NO_SUCH_CALL: u64 = 38;
const MASKED: [&str; 9] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/sys/firmware",
];
const READ_ONLY: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// Writes the configuration of an instance, which has these devices, beside its files.
pub(super) fn write(spec: &Spec, image: &Image, devices: &[Value]) -> io::Result<()> {
    fs::write(spec.folder.join("config.json"), config(spec, image, devices).to_string())
}

fn config(spec: &Spec, image: &Image, devices: &[Value]) -> Value {
    let mount = |at: &str, kind: &str, options: &[&str]| json!({ "destination": at, "type": kind, "source": kind, "options": options });
    let mut environment = image.environment.clone();
    if !environment.iter().any(|one| one.starts_with("PATH=")) {
        environment
            .push("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned());
    }
    environment.extend(spec.environment.iter().cloned());
    let [uid, gid] = image.user;
    json!({
        "ociVersion": "1.0.0",
        "hostname": spec.name,
        "root": { "path": ROOTFS, "readonly": false },
        "process": {
            "terminal": false,
            "user": { "uid": uid, "gid": gid },
            "args": image.command,
            "env": environment,
            "cwd": image.folder,
            "capabilities": {
                "bounding": CAPABILITIES, "effective": CAPABILITIES, "permitted": CAPABILITIES,
                "inheritable": [], "ambient": [],
            },
            "noNewPrivileges": true,
        },
        "mounts": [
            mount("/proc", "proc", &["nosuid", "noexec", "nodev"]),
            mount("/dev", "tmpfs", &["nosuid", "strictatime", "mode=755", "size=65536k"]),
            mount("/dev/pts", "devpts", &["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]),
            mount("/dev/shm", "tmpfs", &["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]),
            mount("/sys", "sysfs", &["nosuid", "noexec", "nodev", "ro"]),
        ],
        "linux": {
            "namespaces": [
                { "type": "pid" }, { "type": "ipc" }, { "type": "uts" }, { "type": "mount" },
                { "type": "network", "path": network::path(&spec.name) },
            ],
            "devices": devices,
            // Ports below 1024 are no privilege in a network of its own, and images name users that serve them.
            "sysctl": { "net.ipv4.ip_unprivileged_port_start": "0" },
            "maskedPaths": MASKED,
            "readonlyPaths": READ_ONLY,
            "seccomp": {
                "defaultAction": "SCMP_ACT_ALLOW",
                "syscalls": calls(),
            },
        },
    })
}

/// Calls that fail. A filter sees the flags of `clone`, and not those of `clone3`, which lie in memory.
fn calls() -> Value {
    let mut calls = vec![
        json!({ "names": REFUSED, "action": "SCMP_ACT_ERRNO" }),
        json!({ "names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": NO_SUCH_CALL }),
    ];
    // A comparison holds for all bits of its mask together: one for each flag.
    calls.extend(NAMESPACE_FLAGS.map(|flag| {
        let is_set =
            json!({ "index": 0, "value": flag, "valueTwo": flag, "op": "SCMP_CMP_MASKED_EQ" });
        json!({ "names": ["clone"], "action": "SCMP_ACT_ERRNO", "args": [is_set] })
    }));
    calls.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oci::devices::tests::spec;

    #[test]
    fn whoever_an_app_runs_as_serves_any_port_and_gains_nothing() {
        let apps = tempfile::tempdir().unwrap();
        let image = Image { user: [1000, 1000], ..Image::default() };
        let config = config(&spec(apps.path(), "a", 0), &image, &[]);
        let linux = &config["linux"];
        assert_eq!(linux["sysctl"], json!({ "net.ipv4.ip_unprivileged_port_start": "0" }));
        // It is of the app's own network.
        let namespaces = linux["namespaces"].as_array().unwrap();
        assert!(namespaces.iter().any(|one| one["type"] == "network" && one["path"].is_string()));
        let process = &config["process"];
        assert_eq!(process["user"], json!({ "uid": 1000, "gid": 1000 }));
        assert_eq!(
            (&process["noNewPrivileges"], &process["capabilities"]["ambient"]),
            (&json!(true), &json!([]))
        );
    }
}

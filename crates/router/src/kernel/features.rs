//! What the router needs of a kernel, looked for before anything is touched.

use aya::maps::MapType;
use aya::programs::{ProgramError, ProgramType};
use aya::sys::{BpfHelper, is_helper_supported, is_map_supported, is_program_supported};
use aya::util::KernelVersion;
use rustix::io::Errno;
use std::io;

/// The oldest Linux: an older one drops what goes to two interfaces at once.
const OLDEST: (u8, u8) = (5, 14);

/// Something a kernel has or has not.
#[derive(Clone, Copy)]
enum Feature {
    Map(MapType),
    Programs,
    Helper(BpfHelper),
}

/// With its name for people, and the Linux that had it first.
const NEEDED: [(Feature, &str, &str); 12] = [
    (Feature::Map(MapType::Array), "BPF maps", "3.19"),
    (Feature::Programs, "XDP programs", "4.8"),
    (Feature::Map(MapType::PerCpuArray), "maps of counters (percpu_array)", "4.6"),
    (Feature::Map(MapType::LruHash), "maps that forget (lru_hash)", "4.10"),
    (Feature::Map(MapType::ArrayOfMaps), "maps of maps (array_of_maps)", "4.12"),
    (Feature::Map(MapType::DevMap), "maps of interfaces (devmap)", "4.14"),
    (Feature::Map(MapType::RingBuf), "ring buffers (ringbuf)", "5.8"),
    (Feature::Helper(BpfHelper::BPF_FUNC_redirect_map), "XDP redirection", "4.14"),
    (Feature::Helper(BpfHelper::BPF_FUNC_xdp_adjust_head), "room before frames", "4.10"),
    (Feature::Helper(BpfHelper::BPF_FUNC_xdp_adjust_tail), "room behind frames", "4.18"),
    (Feature::Helper(BpfHelper::BPF_FUNC_ringbuf_reserve), "events from programs", "5.8"),
    (Feature::Helper(BpfHelper::BPF_FUNC_ktime_get_coarse_ns), "a cheap clock", "5.11"),
];

/// Looks whether this kernel has all that the router needs.
///
/// # Errors
/// What it has not, and what to do.
pub(super) fn check() -> Result<(), String> {
    let is_old = KernelVersion::current()
        .is_ok_and(|found| found < KernelVersion::new(OLDEST.0, OLDEST.1, 0));
    check_by(is_old, probe)
}

fn check_by(is_old: bool, probe: impl Fn(Feature) -> io::Result<bool>) -> Result<(), String> {
    let needs = format!("the router needs Linux {}.{} or newer", OLDEST.0, OLDEST.1);
    if is_old {
        return Err(format!("{needs}; this is an older one (`uname -r`)"));
    }
    let mut missing = Vec::new();
    for (feature, name, since) in NEEDED {
        match probe(feature) {
            Ok(true) => {}
            Ok(false) => missing.push(format!("{name}, in Linux since {since}")),
            Err(error) if missing.is_empty() => return Err(refused(name, &error)),
            // It builds on something that is missing.
            Err(_) => {}
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!("{needs}, built with BPF and XDP; this kernel lacks: {}", missing.join("; ")))
}

fn refused(name: &str, error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::PERM | Errno::ACCESS) => {
            "the kernel lets this process load no programs: run it as root, or with CAP_BPF and \
             CAP_NET_ADMIN; a container's seccomp profile or a locked down kernel forbids it as well"
                .to_owned()
        }
        Some(Errno::NOSYS) => {
            "this kernel was built without BPF (CONFIG_BPF_SYSCALL), or something hides it".to_owned()
        }
        _ => format!("the kernel does not say whether it has {name}: {error}"),
    }
}

fn probe(feature: Feature) -> io::Result<bool> {
    let of_program = |error| match error {
        ProgramError::SyscallError(error) => error.io_error,
        other => io::Error::other(other),
    };
    match feature {
        Feature::Map(kind) => is_map_supported(kind).map_err(|error| error.io_error),
        Feature::Programs => is_program_supported(ProgramType::Xdp).map_err(of_program),
        Feature::Helper(helper) => {
            is_helper_supported(ProgramType::Xdp, helper).map_err(of_program)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_has_all_is_taken() {
        assert_eq!(check_by(false, |_| Ok(true)), Ok(()));
        if rustix::process::geteuid().is_root() {
            // Where tests run as root they load programs: the real probes have to agree.
            assert_eq!(check(), Ok(()));
        }
    }

    #[test]
    fn what_is_missing_is_named_all_at_once() {
        let old = check_by(true, |_| Ok(true)).unwrap_err();
        assert!(old.contains("Linux 5.14 or newer"), "{old}");
        let lacks = |feature| {
            let is_there = !matches!(
                feature,
                Feature::Map(MapType::RingBuf)
                    | Feature::Helper(BpfHelper::BPF_FUNC_ringbuf_reserve)
            );
            Ok(is_there)
        };
        let said = check_by(false, lacks).unwrap_err();
        assert!(said.contains("ring buffers (ringbuf), in Linux since 5.8"), "{said}");
        assert!(said.contains("events from programs") && !said.contains("clock"), "{said}");
    }

    #[test]
    fn a_kernel_that_refuses_is_told_from_one_that_lacks() {
        let with = |errno: Errno| check_by(false, |_| Err(errno.into())).unwrap_err();
        for (errno, expected) in [
            (Errno::PERM, "CAP_BPF and CAP_NET_ADMIN"),
            (Errno::ACCESS, "CAP_BPF"),
            (Errno::NOSYS, "CONFIG_BPF_SYSCALL"),
            (Errno::NOMEM, "whether it has BPF maps: "),
        ] {
            assert!(with(errno).contains(expected), "{errno}: {}", with(errno));
        }
    }
}

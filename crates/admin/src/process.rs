//! Figures of the process, as Linux has them.

use rustix::param::{clock_ticks_per_second, page_size};
use std::fs;

/// What the process uses now; `None` where the system does not say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Process {
    /// Memory that is in RAM.
    pub(crate) resident_bytes: Option<u64>,
    /// Open descriptors.
    pub(crate) open_fds: Option<u64>,
    /// Descriptors it may open.
    pub(crate) fds_max: Option<u64>,
    /// Seconds of processor time, user and system.
    pub(crate) cpu_seconds: Option<f64>,
}

impl Process {
    /// Reads `/proc/self`.
    pub(crate) fn read() -> Self {
        let statm = fs::read_to_string("/proc/self/statm").ok();
        let pages = statm.as_deref().and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
        Self {
            resident_bytes: pages.map(|pages| pages * page_size() as u64),
            // The listing itself has one open.
            open_fds: fs::read_dir("/proc/self/fd")
                .ok()
                .map(|entries| (entries.count() as u64).saturating_sub(1)),
            fds_max: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
            cpu_seconds: cpu_seconds(),
        }
    }
}

/// `utime` and `stime` of `/proc/self/stat`, the 14th and 15th value; the second, the program's
/// name in parentheses, may hold spaces.
fn cpu_seconds() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, values) = text.rsplit_once(')')?;
    let mut ticks = values.split_ascii_whitespace().skip(11).map(str::parse::<u64>);
    let sum = ticks.next()?.ok()? + ticks.next()?.ok()?;
    Some(sum as f64 / clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_says_it_all() {
        let process = Process::read();
        assert!(process.resident_bytes.is_some_and(|bytes| bytes > 100_000));
        assert!(process.open_fds.is_some_and(|count| count >= 3));
        assert!(process.cpu_seconds.is_some());
    }
}

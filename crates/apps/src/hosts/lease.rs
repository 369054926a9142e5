//! For how long a host may run apps without a word from the servers. It counts from when a report was sent that
//! the servers took: the platform sees that later, and waits for longer.

use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Time that goes on while the machine sleeps, and which start of the machine it is of.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Moment {
    boot: String,
    uptime_ms: u64,
}

impl Moment {
    /// Now, by the kernel (`CLOCK_BOOTTIME`).
    ///
    /// # Errors
    /// The kernel does not say.
    pub(super) fn now() -> io::Result<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        let text = fs::read_to_string("/proc/uptime")?;
        let seconds: Option<f64> = text.split(' ').next().and_then(|text| text.parse().ok());
        let seconds = seconds.ok_or_else(|| io::Error::other("/proc/uptime says no time"))?;
        Ok(Self { boot, uptime_ms: (seconds * 1000.0) as u64 })
    }
}

/// The lease of this host, in a file, so that the process after this one knows of it.
#[derive(Debug)]
pub(super) struct Lease {
    path: PathBuf,
    /// When a report was sent last that the servers took, before which its orders were heard.
    from: Option<Moment>,
}

impl Lease {
    pub(super) fn open(folder: &Path) -> Self {
        let path = folder.join("lease.json");
        let from = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok());
        Self { path, from }
    }

    /// The servers have taken a report that was sent then, and said what is to be run.
    pub(super) fn renew(&mut self, from: Moment) {
        let text = serde_json::to_vec(&from).expect("a moment is plain data");
        let beside = self.path.with_extension("new");
        // A lease that is not written down is over for the next process, which does no harm.
        if let Err(error) = fs::write(&beside, text).and_then(|()| fs::rename(&beside, &self.path))
        {
            tracing::warn!(lease = %self.path.display(), %error, "cannot be written");
        }
        self.from = Some(from);
    }

    /// Whether a lease of so long is over.
    pub(super) fn is_over(&self, lease_ms: Option<u64>, now: &Moment) -> bool {
        let Some(lease_ms) = lease_ms else { return false };
        let is_held = self.from.as_ref().is_some_and(|from| {
            from.boot == now.boot && now.uptime_ms < from.uptime_ms.saturating_add(lease_ms)
        });
        !is_held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_over_in_time_and_with_the_start_of_the_machine_that_it_is_of() {
        let folder = tempfile::tempdir().unwrap();
        let at = |boot: &str, uptime_ms| Moment { boot: boot.to_owned(), uptime_ms };
        let mut lease = Lease::open(folder.path());
        assert!(lease.is_over(Some(5000), &at("a", 0)), "nothing was ever heard");
        assert!(!lease.is_over(None, &at("a", 0)), "none is asked for");
        lease.renew(at("a", 1000));
        for lease in [lease, Lease::open(folder.path())] {
            assert!(!lease.is_over(Some(5000), &at("a", 5999)));
            assert!(lease.is_over(Some(5000), &at("a", 6000)));
            assert!(lease.is_over(Some(5000), &at("b", 10)), "of another start");
        }
        let (first, second) = (Moment::now().unwrap(), Moment::now().unwrap());
        assert!(first.boot == second.boot && first.uptime_ms <= second.uptime_ms);
    }
}

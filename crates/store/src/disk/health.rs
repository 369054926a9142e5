//! How a disk is, and what says so.

use super::device::IoError;
use super::limits::IO_TIMEOUT;
use super::volume::Volume;
use crate::error::DiskError;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Failed operations within [`FAILURE_WINDOW`] at which a disk is left.
const FAILURES_MAX: u64 = 8;
const FAILURE_WINDOW: Duration = Duration::from_secs(10);
/// How long a disk may have work and finish none before it gets no more.
const SUSPECT_AFTER: Duration = Duration::from_secs(1);

/// How a disk is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Health {
    /// It is read and written.
    Healthy,
    /// It answers late: it is read, and not written.
    Suspect,
    /// It is not used; why, and that it is looked after.
    Offline(String),
    /// The node stops.
    Stopped,
}

impl Health {
    /// One word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Suspect => "suspect",
            Self::Offline(_) => "offline",
            Self::Stopped => "stopped",
        }
    }
}

/// Looks after a volume in use.
pub(super) struct Watch {
    volume: Arc<Volume>,
    window: Instant,
    failures: u64,
}

impl Watch {
    pub(super) fn new(volume: &Arc<Volume>) -> Self {
        Self { volume: Arc::clone(volume), window: Instant::now(), failures: volume.failures() }
    }

    /// What the disk is like, where that can be said.
    pub(super) fn look(&mut self) -> Option<Health> {
        let failures = self.volume.failures() - self.failures;
        if self.volume.is_gone() {
            return Some(Health::Offline("the device is gone".into()));
        }
        if failures >= FAILURES_MAX {
            return Some(Health::Offline(format!("{failures} operations failed within seconds")));
        }
        let stalled = self.volume.device().stalled();
        if stalled >= IO_TIMEOUT {
            return Some(Health::Offline(format!("no answer for {} s", stalled.as_secs())));
        }
        if self.window.elapsed() >= FAILURE_WINDOW {
            self.window = Instant::now();
            self.failures = self.volume.failures();
        }
        let is_late = stalled >= SUSPECT_AFTER;
        Some(if is_late { Health::Suspect } else { Health::Healthy })
    }
}

/// Whether a volume is to be left at once, rather than after several such errors.
pub(super) fn is_fatal(error: &DiskError) -> bool {
    match error {
        DiskError::JournalLost(_) => true,
        DiskError::DeviceIo(error) => error.is_gone() || *error == IoError::TimedOut,
        _ => false,
    }
}

//! Records of what clients used, for charging: a line of JSON each, appended to a file.

use super::wall_ms;
use crate::kernel::control::{Control, Usage};
use crate::kernel::programs::KernelError;
use crate::session::Client;
use serde::Serialize;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Clients whose use is looked up before anything else gets a turn.
const USAGES_MAX: usize = 1024;

/// Where records go, and when.
#[derive(Debug)]
pub(super) struct Records {
    path: Option<PathBuf>,
    interval: Option<Duration>,
    /// When the next round begins, and whose turn is still to come in this one.
    due: Instant,
    left: Vec<Client>,
}

impl Records {
    /// Records into a file, if there is one; also between beginning and end of sessions, if so often.
    pub(super) fn new(path: Option<PathBuf>, interval_s: Option<u64>) -> Self {
        let interval = interval_s.map(Duration::from_secs);
        Self { path, interval, due: Instant::now(), left: Vec::new() }
    }

    /// Records sessions that ended, and what some of the others used since the last time. The inner
    /// error is what could not be written.
    pub(super) fn take_turn(
        &mut self,
        control: &mut Control,
    ) -> Result<Result<(), String>, KernelError> {
        let ended = self.append("end", &control.ended());
        let changed = self.changed(control)?;
        let changed = self.append("interim", &changed);
        Ok(ended.and(changed))
    }

    fn changed(&mut self, control: &mut Control) -> Result<Vec<Usage>, KernelError> {
        let Some(interval) = self.interval else { return Ok(Vec::new()) };
        if self.left.is_empty() && self.due <= Instant::now() {
            self.due = Instant::now() + interval;
            self.left = control.clients();
        }
        let rest = self.left.len().saturating_sub(USAGES_MAX);
        let mut changed = Vec::new();
        for client in self.left.drain(rest..) {
            changed.extend(control.changed_usage(client)?);
        }
        Ok(changed)
    }

    fn append(&self, kind: &'static str, usages: &[Usage]) -> Result<(), String> {
        #[derive(Serialize)]
        struct Record<'a> {
            at_ms: u64,
            /// Whether the session ended, or goes on: counts are from its beginning.
            kind: &'static str,
            #[serde(flatten)]
            usage: &'a Usage,
        }
        let Some(path) = self.path.as_ref().filter(|_| !usages.is_empty()) else { return Ok(()) };
        let at_ms = wall_ms();
        let lines: String = usages
            .iter()
            .filter_map(|usage| serde_json::to_string(&Record { at_ms, kind, usage }).ok())
            .map(|line| line + "\n")
            .collect();
        let file = fs::File::options().append(true).create(true).open(path);
        file.and_then(|mut file| file.write_all(lines.as_bytes()))
            .map_err(|error| format!("{}: {error}", path.display()))
    }
}

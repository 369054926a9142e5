//! How busy this process is.

use rustix::param::clock_ticks_per_second;
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Shortest time that a share is told of, in seconds: the kernel counts in hundredths.
const SPAN_MIN_S: f64 = 0.5;

/// Processor time between two looks.
#[derive(Debug, Default)]
pub(super) struct Load(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    looked: Option<(Instant, f64)>,
    percent: Option<u8>,
}

impl Load {
    /// How much of all processors this process may use it had since the last look, percent. Nothing
    /// before the second.
    pub(super) fn percent(&self) -> Option<u8> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, cpu_s) = (Instant::now(), cpu_seconds()?);
        let span_s = state.looked.map(|(then, _)| (now - then).as_secs_f64());
        if span_s.is_some_and(|span_s| span_s < SPAN_MIN_S) {
            return state.percent;
        }
        if let (Some(span_s), Some((_, before_s))) = (span_s, state.looked) {
            let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
            state.percent =
                Some((100.0 * (cpu_s - before_s) / (span_s * cores)).clamp(0.0, 100.0) as u8);
        }
        state.looked = Some((now, cpu_s));
        state.percent
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

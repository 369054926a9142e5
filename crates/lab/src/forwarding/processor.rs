//! Processors that are held for the load and for what is measured, and a watch on whether they are
//! there.

use super::{NS, wrong};
use freshet_load::LabError;
use freshet_router::kernel::namespace::Namespaces;
use rustix::process::Pid;
use rustix::thread::{ClockId, CpuSet, Timespec, clock_nanosleep_absolute, sched_setaffinity};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// Who goes before whom, and both before all that has no real-time priority.
#[derive(Clone, Copy, Debug)]
pub(super) enum Priority {
    /// The load, and what is measured.
    Measured,
    /// Who watches.
    Watch,
}

impl Priority {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "1",
            Self::Watch => "2",
        }
    }
}

/// Holds a thread on a processor, before all that has no real-time priority: nice values do not reach
/// over sessions, each of which the kernel gives a share of its own.
pub(super) fn hold(thread: Pid, cpu: usize, priority: Priority) -> Result<(), LabError> {
    let refuse = wrong("processors");
    if cpu >= CpuSet::MAX_CPU {
        return Err(refuse(&format!("there is no processor {cpu}")));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(Some(thread), &set)
        .map_err(|error| refuse(&format!("processor {cpu}: {error}")))?;
    let thread = thread.as_raw_nonzero().to_string();
    let output =
        Command::new("chrt").args(["--fifo", "--pid", priority.as_str(), &thread]).output();
    let output = output.map_err(|error| wrong("chrt, of util-linux")(&error))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(wrong("chrt")(&said.trim())) }
}

/// Threads of the kernel that take what arrives at interfaces.
fn receivers() -> BTreeSet<i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        std::fs::read_to_string(format!("/proc/{pid}/comm"))
            .is_ok_and(|name| name.starts_with("napi/"))
    })
    .collect()
}

/// Has what arrives in the middle be taken by threads on one processor.
pub(super) fn give_threads(namespaces: &Namespaces, cpu: usize) -> Result<(), LabError> {
    let before = receivers();
    for device in ["acc0", "cor0", "leg0"] {
        let path = format!("/sys/class/net/{device}/threaded");
        namespaces.write(NS, &path, "1").map_err(|what| wrong("threads of interfaces")(&what))?;
    }
    let threads = receivers();
    let threads = threads.difference(&before);
    for thread in threads.filter_map(|thread| Pid::from_raw(*thread)) {
        let held = hold(thread, cpu, Priority::Measured);
        // One of another wire may have ended in between.
        if Path::new(&format!("/proc/{}", thread.as_raw_nonzero())).exists() {
            held?;
        }
    }
    Ok(())
}

/// How often a watch looks, which costs what is measured about a fiftieth of its processor.
const LOOK: Duration = Duration::from_micros(150);
/// A look may be late by this: a thread of the kernel is not interrupted in its batch of 64 packets.
const LATE: Duration = Duration::from_micros(100);

/// A thread that looks again and again whether its processor is there, before all others on it. Where
/// it is late the processor was not: the machine below had it, or the kernel for something else, and a
/// ring overflows meanwhile whatever is measured.
pub(super) struct Watch {
    /// The thread looks as long as somebody has this.
    wanted: Arc<()>,
    thread: JoinHandle<Result<Duration, LabError>>,
}

impl Watch {
    /// Begins, once the thread has its place.
    pub(super) fn begin(cpu: usize) -> Result<Self, LabError> {
        let wanted = Arc::new(());
        let is_wanted = Arc::downgrade(&wanted);
        let (ready, begun) = std::sync::mpsc::sync_channel(1);
        let thread = std::thread::spawn(move || {
            hold(rustix::thread::gettid(), cpu, Priority::Watch)?;
            // Nobody waits where the other end is gone.
            let _ = ready.send(());
            Ok(look(&is_wanted))
        });
        // Where it did not begin, its end says why.
        let watch = Self { wanted, thread };
        match begun.recv() {
            Ok(()) => Ok(watch),
            Err(gone) => Err(watch.end().err().unwrap_or_else(|| wrong("a watch")(&gone))),
        }
    }

    /// Ends it: how long the processor was not there, at the most.
    pub(super) fn end(self) -> Result<Duration, LabError> {
        drop(self.wanted);
        self.thread.join().expect("the thread says what is wrong")
    }
}

fn look(is_wanted: &Weak<()>) -> Duration {
    let now = || {
        let now = rustix::time::clock_gettime(ClockId::Monotonic);
        Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
    };
    let mut absent = Duration::ZERO;
    let mut due = now() + LOOK;
    while is_wanted.strong_count() > 0 {
        let at = Timespec { tv_sec: due.as_secs() as i64, tv_nsec: due.subsec_nanos().into() };
        // Woken early by a signal it only looks early.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &at);
        let woken = now();
        if woken > due + LATE {
            absent += woken - due + LOOK;
        }
        due = woken + LOOK;
    }
    absent
}

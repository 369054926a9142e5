//! Drives of a simulated world, found by their paths on the thread that runs it.
//!
//! What is opened at such a path is a handle on a [`SimulatedDevice`], which has the drive's content and
//! faults; a handle that was closed stays so, as a file does, while the drive is opened anew. Reads take
//! time here, and no thread waits: what would be one is a task of the world.

use super::device::{Completion, Device, Finish, Io, IoError, Op, Outcome, ReadTimes};
use super::simulation::SimulatedDevice;
use freshet_base::splitmix;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What runs in a world.
pub type Task = Pin<Box<dyn Future<Output = ()>>>;

/// What the world does where production has threads.
#[derive(Clone, Copy, Debug)]
pub struct Runtime {
    /// Runs something beside the others.
    pub spawn: fn(Task),
    /// Ends after this long.
    pub sleep: fn(Duration) -> Task,
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

struct World {
    runtime: Runtime,
    drives: BTreeMap<PathBuf, Arc<Drive>>,
}

/// A drive and how long its reads take.
#[derive(Debug)]
struct Drive {
    device: Arc<SimulatedDevice>,
    read_us: Range<u64>,
    random: Mutex<u64>,
}

/// The drives of this thread's world, until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Drives(());

impl Drives {
    /// From now on this thread finds drives only here.
    pub fn begin(runtime: Runtime) -> Self {
        WORLD.set(Some(World { runtime, drives: BTreeMap::new() }));
        Self(())
    }

    /// Puts a drive at a path, of which a read takes so many microseconds.
    pub fn attach(
        &self,
        path: &Path,
        device: Arc<SimulatedDevice>,
        read_us: Range<u64>,
        seed: u64,
    ) {
        let drive = Arc::new(Drive { device, read_us, random: Mutex::new(seed) });
        WORLD.with_borrow_mut(|world| {
            world.as_mut().map(|world| world.drives.insert(path.into(), drive));
        });
    }
}

impl Drop for Drives {
    fn drop(&mut self) {
        WORLD.set(None);
    }
}

/// What this thread's world runs things with, where it has one.
pub fn runtime() -> Option<Runtime> {
    WORLD.with_borrow(|world| world.as_ref().map(|world| world.runtime))
}

/// Opens what is at a path of this thread's world, where it has one.
pub fn open(path: &Path) -> Option<Result<Handle, IoError>> {
    const ENOENT: i32 = 2;
    WORLD.with_borrow(|world| {
        let found = world.as_ref()?.drives.get(path).cloned();
        Some(found.map(Handle::new).ok_or(IoError::Failed(ENOENT)))
    })
}

/// A drive that is open.
#[derive(Debug)]
pub struct Handle {
    drive: Arc<Drive>,
    is_closed: AtomicBool,
    /// Reads that are done and not told yet.
    late: Mutex<Vec<Late>>,
}

type Late = Arc<Mutex<Option<(Finish, Outcome)>>>;

impl Handle {
    fn new(drive: Arc<Drive>) -> Self {
        drive.device.connect();
        Self { drive, is_closed: AtomicBool::new(false), late: Mutex::default() }
    }

    fn delay(&self) -> Duration {
        let Range { start, end } = self.drive.read_us;
        if start >= end {
            return Duration::ZERO;
        }
        let drawn = splitmix::next(&mut lock(&self.drive.random));
        Duration::from_micros(start + drawn % (end - start))
    }

    /// Tells of the end of a read once its time has passed.
    fn tell_later(&self, outcome: Outcome, runtime: Runtime) -> Completion {
        let (completion, finish) = Completion::new();
        let late: Late = Arc::new(Mutex::new(Some((finish, outcome))));
        let mut all = lock(&self.late);
        all.retain(|one| lock(one).is_some());
        all.push(Arc::clone(&late));
        drop(all);
        let slept = (runtime.sleep)(self.delay());
        (runtime.spawn)(Box::pin(async move {
            slept.await;
            tell(&late);
        }));
        completion
    }
}

impl Device for Handle {
    fn bytes(&self) -> u64 {
        self.drive.device.bytes()
    }

    fn submit(&self, io: Io) -> Completion {
        if self.is_closed.load(Relaxed) {
            // Its other side goes at once, which says so.
            return Completion::new().0;
        }
        let is_read = io.op == Op::Read;
        let done = self.drive.device.submit(io);
        match runtime().filter(|_| is_read) {
            Some(runtime) => match done.take() {
                Some(outcome) => self.tell_later(outcome, runtime),
                None => done,
            },
            None => done,
        }
    }

    fn discard(&self, range: Range<u64>) -> Completion {
        if self.is_closed.load(Relaxed) {
            return Completion::new().0;
        }
        self.drive.device.discard(range)
    }

    /// Who waits in place does not let time pass: all that is done is told.
    fn wait(&self, completion: Completion, limit: Duration) -> Outcome {
        std::mem::take(&mut *lock(&self.late)).iter().for_each(tell);
        self.drive.device.wait(completion, limit)
    }

    fn reads_in_flight(&self) -> usize {
        0
    }

    fn stalled(&self) -> Duration {
        Duration::ZERO
    }

    fn read_times(&self) -> ReadTimes {
        self.drive.device.read_times()
    }

    fn probe(&self, offset: u64, len: usize, limit: Duration) -> Result<Duration, IoError> {
        self.drive.device.probe(offset, len, limit)
    }

    fn close(&self) {
        self.is_closed.store(true, Relaxed);
    }
}

fn tell(late: &Late) {
    let told = lock(late).take();
    if let Some((finish, outcome)) = told {
        finish.finish(outcome.result, outcome.buffer);
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Memory of a lower class: opening it, and the thread that moves objects back from it.

use crate::keepers::{Admission, Candidate, Keeper, class_of};
use freshet_cache::{Cache, Groups, LowerTakes, Object};
use freshet_config::Settings;
use freshet_config::lower::LowerMemory;
use freshet_store::{Arena, StoreError};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// How often memory is tried again that another process has.
const RETRY: Duration = Duration::from_millis(200);

/// How long a start waits for it: a process that was killed has its memory until the kernel has
/// taken it apart.
const TAKEN_MAX: Duration = Duration::from_secs(3);

/// The thread that looks after the lower class of a group.
pub struct Mover {
    cache: Arc<Cache>,
    has_ended: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Mover {
    /// Opens the memory that is configured, if some is, a part for each group, and starts their threads. Where this process
    /// `takes_over` from another, that one may have it until it has drained: it is waited for.
    ///
    /// # Errors
    /// What is wrong with the memory, or there is no thread to be had.
    pub fn start(
        settings: &Settings,
        cache: &Arc<Groups>,
        takes_over: bool,
    ) -> Result<Vec<Self>, StoreError> {
        let Some(lower) = &settings.lower_memory else { return Ok(Vec::new()) };
        let bytes = lower.bytes / cache.all().len() as u64;
        let part = LowerMemory { bytes, ..lower.clone() };
        cache.all().iter().map(|one| Self::start_one(part.clone(), one, takes_over)).collect()
    }

    fn start_one(
        lower: LowerMemory,
        cache: &Arc<Cache>,
        takes_over: bool,
    ) -> Result<Self, StoreError> {
        let until = Instant::now() + if takes_over { Duration::ZERO } else { TAKEN_MAX };
        let opened = loop {
            match Arena::in_place(lower.bytes, &lower.placement) {
                Ok(arena) => break Some(arena),
                Err(StoreError::LocalMemoryTaken { .. }) if takes_over => break None,
                Err(StoreError::LocalMemoryTaken { .. }) if Instant::now() < until => {
                    std::thread::sleep(RETRY);
                }
                Err(error) => return Err(error),
            }
        };
        let has_ended = Arc::new(AtomicBool::new(false));
        let (ends, serves) = (Arc::clone(&has_ended), Arc::clone(cache));
        let thread = Builder::new().name("memory-lower".into()).spawn(move || {
            let Some(arena) = opened.or_else(|| wait_for(&lower, &ends)) else { return };
            serves.set_lower(arena, takes(&lower));
            tracing::info!(memory = %lower.placement, bytes = lower.bytes, "a lower class of memory is in use");
            if !ends.load(SeqCst) {
                serves.serve_lower();
            }
        });
        let thread = thread.map_err(|error| StoreError::LocalReserve {
            bytes: 0,
            code: error.raw_os_error().unwrap_or(0),
        })?;
        let thread = Mutex::new(Some(thread));
        Ok(Self { cache: Arc::clone(cache), has_ended, thread })
    }

    /// Ends the thread. What is in the lower class is still served.
    pub fn stop(&self) {
        self.has_ended.store(true, SeqCst);
        self.cache.end_lower();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The memory, once the process before has let go of it.
fn wait_for(lower: &LowerMemory, has_ended: &AtomicBool) -> Option<Arc<Arena>> {
    while !has_ended.load(SeqCst) {
        match Arena::in_place(lower.bytes, &lower.placement) {
            Ok(arena) => return Some(arena),
            Err(StoreError::LocalMemoryTaken { .. }) => std::thread::park_timeout(RETRY),
            Err(error) => {
                tracing::warn!(%error, "there is no lower class of memory");
                return None;
            }
        }
    }
    None
}

fn takes(lower: &LowerMemory) -> LowerTakes {
    LowerTakes {
        bytes: lower.object_bytes_min..=lower.object_bytes_max,
        lifetime_min: lower.ttl_min,
    }
}

/// The lower class as a keeper of responses: of those a rule or a policy sends there. What it gets
/// otherwise is the cache's to say, and found by look-up as all memory is.
pub struct LowerKeeper(pub Arc<Groups>);

/// A response for the lower class.
struct Placed(Arc<Groups>);

impl Keeper for LowerKeeper {
    fn admit(&self, candidate: &Candidate<'_>) -> Option<Box<dyn Admission>> {
        let lower = candidate.site.node().settings.lower_memory.as_ref()?;
        let class = class_of(candidate).ok()??;
        (*class == *lower.class).then(|| Box::new(Placed(Arc::clone(&self.0))) as _)
    }
}

impl Admission for Placed {
    fn whole(self: Box<Self>, object: &Arc<Object>) {
        self.0.place_lower(object);
    }
}

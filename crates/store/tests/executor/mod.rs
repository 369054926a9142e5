//! A small executor over threads, so that wakers really cross them.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

/// How long nothing may happen before a run counts as standing still.
const STILL: Duration = Duration::from_secs(20);

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Threads that run tasks; dropping it ends them.
pub(crate) struct Executor {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    ready: Condvar,
    done: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Arc<Task>>,
    alive: usize,
    steps: u64,
    has_panicked: bool,
    is_closed: bool,
}

struct Task {
    work: Mutex<Option<Work>>,
    shared: Arc<Shared>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let shared = self.shared.clone();
        shared.state.lock().expect("no thread panics under it").queue.push_back(self);
        shared.ready.notify_one();
    }
}

impl Executor {
    pub(crate) fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared::default());
        let run = |_| {
            let shared = shared.clone();
            thread::spawn(move || while shared.step() {})
        };
        Self { threads: (0..threads).map(run).collect(), shared }
    }

    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.shared.state.lock().expect("no thread panics under it").alive += 1;
        let work = Mutex::new(Some(Box::pin(work) as Work));
        Arc::new(Task { work, shared: self.shared.clone() }).wake();
    }

    /// Waits until fewer than `alive` tasks are left.
    pub(crate) fn wait_below(&self, alive: usize, seed: u64) {
        let mut state = self.shared.state.lock().expect("no thread panics under it");
        while state.alive >= alive {
            assert!(!state.has_panicked, "a task panicked, seed {seed}");
            let before = state.steps;
            let (after, timeout) =
                self.shared.done.wait_timeout(state, STILL).expect("no thread panics under it");
            state = after;
            let still = timeout.timed_out() && state.steps == before;
            assert!(!still, "{} tasks stand still, seed {seed}", state.alive);
        }
        assert!(!state.has_panicked, "a task panicked, seed {seed}");
    }
}

impl Shared {
    /// Runs one task as far as it comes; false at the end.
    fn step(&self) -> bool {
        let mut state = self.state.lock().expect("no thread panics under it");
        let task = loop {
            if state.is_closed {
                return false;
            }
            match state.queue.pop_front() {
                Some(task) => break task,
                None => state = self.ready.wait(state).expect("no thread panics under it"),
            }
        };
        state.steps += 1;
        drop(state);
        let mut work = task.work.lock().expect("a panic in a task is caught");
        let Some(running) = work.as_mut() else { return true };
        let waker = Waker::from(task.clone());
        let polled = catch_unwind(AssertUnwindSafe(|| {
            running.as_mut().poll(&mut Context::from_waker(&waker))
        }));
        if !matches!(polled, Ok(Poll::Pending)) {
            *work = None;
            let mut state = self.state.lock().expect("no thread panics under it");
            state.alive -= 1;
            state.has_panicked |= polled.is_err();
            self.done.notify_all();
        }
        true
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        if let Ok(mut state) = self.shared.state.lock() {
            state.is_closed = true;
            state.queue.clear();
        }
        self.shared.ready.notify_all();
        for thread in self.threads.drain(..) {
            // The last share in the world may be dropped by a task, on a thread of its own.
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

/// Lets other tasks run.
pub(crate) async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

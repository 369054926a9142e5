//! A policy in use: a program with the state its objects keep.

use crate::modules::directors::{self, Director, DirectorStanding};
use crate::modules::saintmode::Denied;
use crate::modules::throttle::Throttle;
use crate::modules::var::Globals;
use crate::program::{BackendRef, Program, Value};
use crate::runtime::{self, Failure, Host, Outcome, Places, Session, Task, View};
use crate::types::State;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Seconds a fetch takes at most for each step where neither backend nor policy says so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timeouts {
    /// To connect.
    pub connect: f64,
    /// To the first byte of the response.
    pub first_byte: f64,
    /// Between bytes of the response.
    pub between_bytes: f64,
    /// That a connection without a request is kept.
    pub idle: f64,
}

impl Default for Timeouts {
    /// As Varnish has them.
    fn default() -> Self {
        Self { connect: 3.5, first_byte: 60.0, between_bytes: 60.0, idle: 60.0 }
    }
}

/// What modules keep beyond one policy, as in Varnish, where it is the process's: a policy takes it over
/// from the one before.
#[derive(Debug, Default)]
pub(crate) struct Lasting {
    pub(crate) globals: Mutex<Globals>,
    pub(crate) throttle: Mutex<Throttle>,
}

/// What an object made with `new` is.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    Director(Arc<Director>),
    Accept(Arc<crate::modules::accept::Rule>),
    Blob(Arc<[u8]>),
    Debug(Arc<crate::modules::debug::Made>),
    Dynamic(Arc<crate::modules::dynamic::Making>),
    Places(Arc<dyn Places>),
    Shard(directors::ShardParameters),
}

/// A loaded policy, shared by all workers.
pub struct Policy {
    name: String,
    program: Program,
    timeouts: Timeouts,
    objects: Vec<Mutex<Option<Object>>>,
    pub(crate) lasting: Arc<Lasting>,
    pub(crate) denied: Mutex<Denied>,
}

impl Policy {
    /// Loads a program under a name and runs its `vcl_init`. What modules keep beyond a policy, the counts of
    /// `vsthrottle` and the texts of `var.global_set`, it shares with the one `before`.
    ///
    /// # Errors
    /// Why `vcl_init` failed.
    pub fn load(
        name: impl Into<String>,
        program: Program,
        timeouts: Timeouts,
        before: Option<&Self>,
        now: f64,
        host: &mut dyn Host,
    ) -> Result<Self, Failure> {
        let objects = program.objects.iter().map(|_| Mutex::new(None)).collect();
        let policy = Self {
            name: name.into(),
            program,
            timeouts,
            objects,
            lasting: before.map(|before| Arc::clone(&before.lasting)).unwrap_or_default(),
            denied: Mutex::default(),
        };
        let session = Session::default();
        let mut task = Task::with_budget(1 << 20);
        match policy.run(State::Init, View::new(now, &session), &mut task, host) {
            Outcome::Ok => match policy.not_made() {
                None => Ok(policy),
                Some(name) => Err(Failure {
                    message: format!("Object {name} not initialized"),
                    file: String::new(),
                    line: 0,
                    text: String::new(),
                }),
            },
            _ => Err(task.take_failure().unwrap_or_else(|| Failure {
                message: "Failed initialization: vcl_init returned fail".into(),
                file: String::new(),
                line: 0,
                text: String::new(),
            })),
        }
    }

    /// An object that no `new` was run for, of those that must not be without.
    fn not_made(&self) -> Option<&str> {
        let slots = self.program.objects.iter().zip(0..);
        let mut missing = slots
            .filter(|(slot, index)| slot.kind != "debug.obj_opt" && self.object(*index).is_none());
        missing.next().map(|(slot, _)| &*slot.name)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Defaults of fetches.
    pub fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// Runs one state. Never waits, and does a bounded amount of work.
    pub fn run<'a>(
        &'a self,
        state: State,
        view: View<'a>,
        task: &'a mut Task,
        host: &'a mut dyn Host,
    ) -> Outcome {
        runtime::run(self, state, view, task, host)
    }

    /// The declared backend that a backend or director stands for now; `None` where none is
    /// healthy.
    pub fn resolve<'a>(
        &'a self,
        backend: BackendRef,
        view: View<'a>,
        task: &'a mut Task,
        host: &'a mut dyn Host,
    ) -> Option<u32> {
        runtime::resolve(self, backend, view, task, host)
    }

    /// Its directors by name, and how each is doing.
    pub fn directors(&self, host: &dyn Host, now: f64) -> Vec<(&str, DirectorStanding)> {
        let slots = self.program.objects.iter().zip(0..);
        let standing = |index| directors::standing(self, index, host, now);
        slots.filter_map(|(slot, index)| Some((&*slot.name, standing(index)?))).collect()
    }

    /// Says of the directors that `fits` chooses by name how they are, whatever their members are; `None`
    /// leaves that to those again. How many there are.
    pub fn say_health(
        &self,
        fits: impl Fn(&str) -> bool,
        is_healthy: Option<bool>,
        now: f64,
    ) -> usize {
        let mut count = 0;
        for (slot, index) in self.program.objects.iter().zip(0..) {
            if fits(&slot.name)
                && let Some(Object::Director(director)) = self.object(index)
            {
                director.say(is_healthy, now);
                count += 1;
            }
        }
        count
    }

    /// Runs `vcl_fini`.
    pub fn unload(&self, now: f64, host: &mut dyn Host) {
        let session = Session::default();
        let mut task = Task::new();
        self.run(State::Fini, View::new(now, &session), &mut task, host);
    }

    pub(crate) fn object(&self, index: u32) -> Option<Object> {
        self.objects.get(index as usize).and_then(|slot| lock(slot).clone())
    }

    pub(crate) fn put(&self, index: u32, object: Object) {
        if let Some(slot) = self.objects.get(index as usize) {
            *lock(slot) = Some(object);
        }
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A lock that a panic elsewhere does not close: what is behind it is whole at every moment.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl From<BackendRef> for Value {
    fn from(backend: BackendRef) -> Self {
        Self::Backend(backend)
    }
}

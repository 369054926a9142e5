//! A VCL program as the node's policy.
//!
//! Each state makes a view of the task's messages and knobs, runs the state's subroutine and takes
//! over what it changed. What a policy keeps between states is in the task's `state`, one box for
//! each side of a request.

mod barrier;
pub mod chance;
mod client;
mod deliver;
mod fetch;
mod files;
mod host;
mod load;
mod made;
mod passes;
mod places;

pub use files::Files;
pub use load::{LoadError, language};

use freshet_base::clock::UnixMillis;
use freshet_base::log_limit::LogLimit;
use freshet_cache::{KeyBuilder, Object};
use freshet_config::SiteSettings;
use freshet_config::bans::BanSettings;
use freshet_http::message::ResponseHead;
use freshet_origin::Origin;
use freshet_origin::probe::ProbeSettings;
use freshet_site::policy::{
    Answer, BackendError, BackendFetch, BackendResponse, ClientTask, Deliver, FetchKind, FetchTask,
    Hit, Miss, OriginChoice, Pass, Pipe, Policy, Purge, Recv, Served,
};
use freshet_site::semantics::{self, Semantics};
use freshet_site::shares::Shares;
use freshet_site::site::Site;
use freshet_site::sites::SiteName;
use freshet_site::synthetic::Synthetic;
use freshet_telemetry::transcript::Tag;
use freshet_vcl::{Defaults, DirectorStanding, Failure};
use freshet_worker::worker::Shared;
use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock, RwLock, Weak};
use std::time::Duration;

/// Names of storages there always are: what a policy puts into one of the first three stays in
/// memory, and `disk` is the class of stores that are given no other.
pub const STORAGES: [&str; 4] = ["Transient", "ram", "s0", freshet_config::stores::STORE_CLASS];

/// What clients read when a policy fails.
const FAILED: &str = "VCL failed";

/// A loaded VCL program with its origins.
pub struct VclPolicy {
    policy: freshet_vcl::Policy,
    /// Origins by the place of their backends in the program; `None` for `backend x none`.
    origins: Vec<Option<Arc<Origin>>>,
    probes: Vec<(Arc<Origin>, ProbeSettings)>,
    defaults: Defaults,
    /// Other policies by the names this one hands over to.
    labels: RwLock<HashMap<Box<str>, Arc<Self>>>,
    shared: RwLock<(Weak<Shared>, BanSettings, SiteName)>,
    shares: OnceLock<Arc<Shares>>,
    files: host::FileCache,
    /// Lines in the log about failures.
    failures: LogLimit,
    /// Origins of directors that make them.
    made: made::MadeOrigins,
    passes: Arc<passes::Passes>,
    /// When it was loaded.
    loaded: UnixMillis,
    hostname: String,
    /// `server.identity`
    identity: String,
    /// What `vcl_init` logged.
    said: Vec<(Tag, String)>,
    /// What the compiler warned of.
    warnings: String,
}

/// How often a failure of a policy is logged: each request may bring one.
const FAILURE_EVERY: Duration = Duration::from_secs(1);

impl VclPolicy {
    /// A policy, where it is such a program.
    pub fn of(policy: &dyn Policy) -> Option<&Self> {
        let policy: &dyn Any = policy;
        policy.downcast_ref()
    }

    /// A site with this policy and its origins.
    pub fn site(self: &Arc<Self>, settings: Arc<SiteSettings>) -> Site {
        let origins = self.origins().map(|(_, origin)| Arc::clone(origin)).collect();
        let policy: Arc<dyn Policy> = Arc::<Self>::clone(self);
        Site::with_origins(settings, policy, origins, self.probes.clone())
    }

    /// Whether it imports the module of this name.
    pub fn imports(&self, module: &str) -> bool {
        self.policy.program().modules.contains(&module)
    }

    /// Logs why a state failed, or counts that it did.
    fn tell(&self, failure: &Failure, now: UnixMillis) {
        if let Some(held_back) = self.failures.admit(now, FAILURE_EVERY) {
            let (policy, line) = (self.policy.name(), failure.text.as_str());
            tracing::warn!(policy, line, held_back, "{failure}");
        }
    }

    /// The program with its objects.
    pub fn policy(&self) -> &freshet_vcl::Policy {
        &self.policy
    }

    /// Its origins by the names of their backends.
    pub fn origins(&self) -> impl Iterator<Item = (&str, &Arc<Origin>)> {
        let backends = &self.policy.program().backends;
        let pairs = backends.iter().zip(&self.origins);
        pairs.filter_map(|(backend, origin)| Some((&*backend.name, origin.as_ref()?)))
    }

    /// Its directors by name, and how each is doing.
    pub fn directors(&self, now: UnixMillis) -> Vec<(&str, DirectorStanding)> {
        let host = host::NodeHost::new(self, now, None);
        self.policy.directors(&host, seconds(now))
    }

    /// Says of the directors that `fits` chooses by name how they are, whatever their members are; `None`
    /// leaves that to those again. How many there are.
    pub fn say_health(
        &self,
        fits: impl Fn(&str) -> bool,
        is_healthy: Option<bool>,
        now: UnixMillis,
    ) -> usize {
        self.policy.say_health(fits, is_healthy, seconds(now))
    }

    /// How its origins are checked; those without a probe are not.
    pub fn probes(&self) -> &[(Arc<Origin>, ProbeSettings)] {
        &self.probes
    }

    /// Says which policies `return (vcl(…))` hands over to.
    pub fn set_labels(&self, labels: HashMap<Box<str>, Arc<Self>>) {
        *self.labels.write().unwrap_or_else(std::sync::PoisonError::into_inner) = labels;
    }

    /// Says what its purges and bans act on: what this site keeps there.
    pub fn set_shared(&self, shared: &Arc<Shared>, site: &SiteName, settings: BanSettings) {
        *self.shared.write().unwrap_or_else(std::sync::PoisonError::into_inner) =
            (Arc::downgrade(shared), settings, site.clone());
    }

    /// What purges and bans act on, once that is there.
    fn shared(&self) -> Option<(Arc<Shared>, BanSettings, SiteName)> {
        let known = self.shared.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        Some((known.0.upgrade()?, known.1, known.2.clone()))
    }

    /// Gives it the parts of the memory that its storages are. Only the first call counts.
    pub fn set_shares(&self, shares: Arc<Shares>) {
        let _ = self.shares.set(shares);
    }

    /// The place of a storage among those the program knows.
    fn storage_index(&self, name: &str) -> Option<u32> {
        let storages = &self.policy.program().storages;
        storages.iter().position(|known| known == name).and_then(|index| u32::try_from(index).ok())
    }

    /// The policy of a label, and the label's name.
    fn label(&self, index: u32) -> Option<(Arc<Self>, &str)> {
        let name = self.policy.program().labels.get(index as usize)?;
        let labels = self.labels.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        Some((Arc::clone(labels.get(name)?), name))
    }
}

impl Policy for VclPolicy {
    fn name<'a>(&'a self, fetch: Option<&'a dyn Any>) -> Option<&'a str> {
        let fetch = fetch.and_then(|state| state.downcast_ref::<fetch::FetchState>());
        let handed_over = fetch.and_then(|fetch| fetch.other.as_deref());
        Some(handed_over.unwrap_or(self).policy.name())
    }

    fn recv(&self, task: &mut ClientTask) -> Recv {
        client::recv(self, task)
    }

    fn hash<'a>(&self, task: &mut ClientTask, key: KeyBuilder<'a>) -> KeyBuilder<'a> {
        client::hash(self, task, key)
    }

    fn hash_again<'a>(&self, task: &mut ClientTask, key: KeyBuilder<'a>) -> KeyBuilder<'a> {
        client::hash_again(self, task, key)
    }

    fn hit(&self, task: &mut ClientTask, object: &Object) -> Hit {
        client::hit(self, task, object)
    }

    fn miss(&self, task: &mut ClientTask) -> Miss {
        client::miss(self, task)
    }

    fn pass(&self, task: &mut ClientTask) -> Pass {
        client::pass(self, task)
    }

    fn pipe(&self, task: &mut ClientTask) -> Pipe {
        client::pipe(self, task)
    }

    fn tunnel_origin(&self, task: &mut ClientTask) -> Option<OriginChoice> {
        let mut fetch = client::begin_fetch(self, task, FetchKind::Pass);
        let (now, transcript) = (task.now, std::rc::Rc::clone(&task.transcript));
        Some(fetch.choose(self, &mut task.request, now, &transcript))
    }

    fn pass_noted(&self, task: &mut ClientTask, is_over: bool) -> Recv {
        client::pass_noted(self, task, is_over)
    }

    fn purge(&self, task: &mut ClientTask, _: usize) -> Purge {
        client::purge(self, task)
    }

    fn deliver(
        &self,
        task: &mut ClientTask,
        response: &mut ResponseHead,
        served: Served<'_>,
    ) -> Deliver {
        deliver::deliver(self, task, response, served)
    }

    fn synth(&self, task: &mut ClientTask, response: &mut Synthetic) -> Deliver {
        deliver::synth(self, task, response)
    }

    fn begin_fetch(&self, task: &mut ClientTask, kind: FetchKind) -> Option<Box<dyn Any>> {
        Some(Box::new(client::begin_fetch(self, task, kind)))
    }

    fn semantics(&self) -> Semantics {
        semantics::VCL
    }

    fn includes(&self) -> bool {
        self.policy.program().includes
    }

    fn may_purge(&self) -> bool {
        let modules = &self.policy.program().modules;
        modules.contains(&"purge") || modules.contains(&"xkey")
    }

    fn controls_connections(&self) -> bool {
        self.policy.program().controls_connections
    }

    fn keeps_body(&self) -> bool {
        self.policy.program().keeps_body
    }

    fn backend_fetch(&self, task: &mut FetchTask) -> BackendFetch {
        fetch::backend_fetch(self, task)
    }

    fn backend_response(&self, task: &mut FetchTask, answer: &mut Answer) -> BackendResponse {
        fetch::backend_response(self, task, answer)
    }

    fn backend_error(&self, task: &mut FetchTask, response: &mut Synthetic) -> BackendError {
        fetch::backend_error(self, task, response)
    }
}

/// Seconds as a span; what is negative is none.
fn span(seconds: f64) -> Duration {
    // A year is more than any lifetime that is meant; from_secs_f64 would panic beyond 2^64.
    const SECONDS_MAX: f64 = 100.0 * 365.0 * 86_400.0;
    let seconds = if seconds.is_nan() { 0.0 } else { seconds };
    Duration::from_secs_f64(seconds.clamp(0.0, SECONDS_MAX))
}

fn seconds(at: UnixMillis) -> f64 {
    at.0 as f64 / 1000.0
}

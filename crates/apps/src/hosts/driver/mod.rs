//! Runs instances on hosts of their own ([`super`]): an act is an order to the host, and done when its
//! report says so.
//!
//! A host is lost when its lease is over twice: it has ended its apps by then, whether it runs or not. What it had
//! is taken from its orders first; if no report has come until after that, the host will hear of it before it
//! runs anything again.

mod view;

use super::{Act, NatsFile, Outcome};
use crate::limits::AWAY_MS_MAX;
use crate::{Driver, Health, Spec, Trouble, tunnel};
use freshet_fleet::nats::LinkSettings;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use view::View;

/// How long an act that takes a moment is waited for.
const MOMENT: Duration = Duration::from_secs(5);
/// How long others are waited for until they are asked for again.
const GLANCE: Duration = Duration::from_millis(500);
/// Shortest time after which apps of a host that is silent come to another, in seconds: in the first half of it a
/// server of NATS may be started anew, in the second apps end.
const MOVE_AFTER_S_MIN: u64 = 20;

/// Which servers, and when hosts are given up.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// The servers of NATS.
    pub(crate) nats: LinkSettings,
    /// Servers that keep what is said.
    pub(crate) replicas: usize,
    /// After how much silence of a host its apps come to another, in milliseconds; never where it is not said.
    pub move_after_ms: Option<u64>,
    /// Hosts of the configuration.
    pub hosts: BTreeSet<String>,
}

impl Fleet {
    /// `[runtime.nats]` of a configuration, with `move_after_s` of `[runtime]`.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn read(nats: NatsFile, move_after_s: Option<u64>) -> Result<Self, String> {
        if let Some(seconds) = move_after_s.filter(|seconds| *seconds < MOVE_AFTER_S_MIN) {
            return Err(format!(
                "runtime.move_after_s: {seconds} must be at least {MOVE_AFTER_S_MIN}"
            ));
        }
        Ok(Self {
            replicas: nats.replicas.unwrap_or(1),
            nats: nats.settings("runtime.nats")?,
            move_after_ms: move_after_s.map(|seconds| seconds.saturating_mul(1000)),
            hosts: BTreeSet::new(),
        })
    }
}

/// The hosts of a platform.
#[derive(Debug)]
pub struct Hosts {
    view: Arc<View>,
    runtime: Handle,
}

impl Hosts {
    /// Begins to watch hosts, on a thread of its own. Servers that are away are waited for.
    ///
    /// # Errors
    /// Files that cannot be read, and threads that cannot be had.
    pub fn open(fleet: Fleet) -> Result<Self, String> {
        let say = |error: std::io::Error| format!("runtime.nats: {error}");
        let runtime = Builder::new_current_thread().enable_all().build().map_err(say)?;
        let handle = runtime.handle().clone();
        let view = runtime.block_on(View::connect(fleet));
        let view = Arc::new(view.map_err(|error| format!("runtime.nats: {error}"))?);
        let watched = Arc::clone(&view);
        let thread = std::thread::Builder::new().name("hosts".into());
        thread.spawn(move || runtime.block_on(watched.watch())).map_err(say)?;
        Ok(Self { view, runtime: handle })
    }

    /// Has a host do something and waits for a while; nothing where it is not done yet.
    fn order(
        &self,
        spec: &Spec,
        act: Act,
        patience: Duration,
    ) -> Result<Option<Vec<u16>>, Trouble> {
        let done = self.runtime.block_on(self.view.order(spec, act, patience))?;
        match done {
            None => Ok(None),
            Some(Outcome::Done(ports)) => Ok(Some(ports)),
            Some(Outcome::Failed(why)) => Err(Trouble::Lasting(why)),
        }
    }

    /// As [`Hosts::order`], of what takes a moment.
    fn order_now(&self, spec: &Spec, act: Act) -> Result<(), Trouble> {
        let late = || Trouble::Passing(format!("the host {} has not done it yet", spec.host));
        self.order(spec, act, MOMENT)?.map(drop).ok_or_else(late)
    }

    /// Whether there is nothing of an instance on its host that the host does not remove by itself.
    fn is_forgotten(&self, spec: &Spec) -> Result<bool, Trouble> {
        self.runtime.block_on(self.view.is_forgotten(spec))
    }
}

/// Sees to it that the edge router beside the platform has its end of the way to an instance. What a process before this
/// one has under way may be in its way for a moment.
fn near(spec: &Spec) -> Result<(), Trouble> {
    tunnel::near(spec, tunnel::command).map_err(Trouble::Passing)
}

impl Driver for Hosts {
    fn unpack(&self, spec: &Spec) -> Result<Option<Vec<u16>>, Trouble> {
        self.runtime.block_on(self.view.bring(&spec.package))?;
        self.order(spec, Act::Unpack, GLANCE)
    }

    fn link(&self, spec: &Spec) -> Result<(), Trouble> {
        self.order_now(spec, Act::Link)?;
        near(spec)
    }

    fn start(&self, spec: &Spec) -> Result<bool, Trouble> {
        Ok(self.order(spec, Act::Start, GLANCE)?.is_some())
    }

    fn shape(&self, spec: &Spec) -> Result<(), Trouble> {
        // It is gone with this machine's last start.
        near(spec)?;
        self.runtime.block_on(self.view.keep(spec))
    }

    fn health(&self, spec: &Spec) -> Result<Health, Trouble> {
        self.runtime.block_on(self.view.health(spec))
    }

    fn stop(&self, spec: &Spec, is_forced: bool) -> Result<bool, Trouble> {
        if self.is_forgotten(spec)? || self.runtime.block_on(self.view.give_up(spec))? {
            return Ok(true);
        }
        let act = if is_forced { Act::End } else { Act::Stop };
        Ok(self.order(spec, act, GLANCE)?.is_some())
    }

    fn unlink(&self, spec: &Spec) -> Result<(), Trouble> {
        tunnel::near_gone(spec, tunnel::command).map_err(Trouble::Passing)?;
        if self.is_forgotten(spec)? {
            return Ok(());
        }
        self.order_now(spec, Act::Unlink)
    }

    fn clear(&self, spec: &Spec) -> Result<(), Trouble> {
        if !self.is_forgotten(spec)? {
            self.order_now(spec, Act::Clear)?;
        }
        self.runtime.block_on(self.view.forget(spec))
    }

    fn last_words(&self, spec: &Spec) -> String {
        self.view.words(spec).unwrap_or_else(|| {
            format!(
                "its host {} says nothing of it; waited for {} s",
                spec.host,
                AWAY_MS_MAX / 1000
            )
        })
    }

    fn away(&self) -> BTreeSet<String> {
        self.view.away()
    }
}

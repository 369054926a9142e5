//! Runs instances as pods of a Kubernetes cluster, each with a secret, a network policy and a service, all by
//! the instance's name and with labels that say whose they are.
//!
//! What is known of an instance is in the cluster, so that the process after this one finds it: each act looks
//! first, and what is there stays. Objects are made where none of that name is, and go by their identity:
//! one of somebody else is never changed, whatever its name. What somebody else takes away is made again.

mod client;
mod config;
mod objects;
mod view;

pub use config::{Cluster, ClusterFile};
pub use objects::Placing;

use crate::driver::{clear, image_of, unpack};
use crate::{Driver, Health, Spec, Trouble};
use client::{Client, ClusterError};
use objects::Kind;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use view::{Object, Phase, View};

/// Lines and bytes of output that are shown of an app that ended.
const WORDS: &str = "tailLines=5&limitBytes=400";

/// How long who is not allowed to change a pod waits before it asks for that again.
const RATES_AGAIN: Duration = Duration::from_secs(60);

/// A cluster that runs apps.
#[derive(Debug)]
pub struct Kubernetes {
    client: Client,
    namespace: String,
    placing: Placing,
    view: View,
    /// When it was not allowed last to say of a pod what its rates are.
    refused: Mutex<Option<Instant>>,
}

impl Kubernetes {
    /// A runtime whose instances have what is known of their images below a folder, which is made.
    ///
    /// # Errors
    /// What is wrong with the configuration, or with this machine. Whether the cluster answers is found out
    /// when something is done there: it may be away while the platform starts.
    pub fn open(cluster: Cluster, folder: &Path) -> Result<Self, String> {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let Cluster { access, namespace, placing } = cluster;
        let client = Client::new(access).map_err(|why| format!("runtime.kubernetes: {why}"))?;
        let (view, refused) = (View::default(), Mutex::default());
        Ok(Self { client, namespace, placing, view, refused })
    }

    /// What there is of an instance.
    fn look(&self, spec: &Spec) -> Result<BTreeMap<Kind, Object>, ClusterError> {
        self.view.of(&self.client, &self.namespace, &spec.instance)
    }

    fn path(&self, kind: Kind, spec: &Spec) -> String {
        format!("{}/{}", kind.path(&self.namespace), spec.name)
    }

    /// Makes an object.
    fn make(&self, kind: Kind, spec: &Spec, object: &Value) -> Result<(), Trouble> {
        let done = self.client.create(&kind.path(&self.namespace), object);
        self.view.forget();
        match done {
            // Its name is taken: by what was made before a crash, or what is about to go, or by another's.
            Err(ClusterError::IsThere(_)) => match self.look(spec)?.get(&kind) {
                Some(one) if one.goes_within_s.is_none() => Ok(()),
                Some(one) => Err(Trouble::Passing(self.not_gone(kind, spec, one))),
                None => Err(Trouble::Lasting(format!(
                    "{} is there already, and is not this app's",
                    self.path(kind, spec)
                ))),
            },
            done => Ok(done?),
        }
    }

    fn not_gone(&self, kind: Kind, spec: &Spec, object: &Object) -> String {
        let path = self.path(kind, spec);
        match object.finalizers.as_slice() {
            [] => format!("{path} is not gone yet"),
            finalizers => {
                format!("{path} is not gone yet: {} are to be done", finalizers.join(", "))
            }
        }
    }

    /// Has an object go, and no other one that took its place meanwhile.
    fn remove(
        &self,
        kind: Kind,
        spec: &Spec,
        object: &Object,
        grace_s: Option<u64>,
    ) -> Result<(), Trouble> {
        let mut options = json!({
            "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background",
            "preconditions": { "uid": object.uid },
        });
        if let Some(grace_s) = grace_s {
            options["gracePeriodSeconds"] = grace_s.into();
        }
        let done = self.client.delete(&self.path(kind, spec), &options);
        self.view.forget();
        Ok(done?)
    }

    /// The secret says what the app is started with, which may be another each time.
    fn keep_secret(&self, spec: &Spec) -> Result<(), Trouble> {
        let mut secret = objects::secret(spec);
        let Some(known) = self.look(spec)?.remove(&Kind::Secret) else {
            return self.make(Kind::Secret, spec, &secret);
        };
        secret["metadata"]["uid"] = known.uid.into();
        secret["metadata"]["resourceVersion"] = known.version.into();
        let done = self.client.replace(&self.path(Kind::Secret, spec), &secret);
        self.view.forget();
        Ok(done?)
    }

    /// Makes what is missing of an instance's network.
    fn keep_network(&self, spec: &Spec) -> Result<(), Trouble> {
        let ports = image_of(&spec.folder)?.ports;
        let known = self.look(spec)?;
        if !known.contains_key(&Kind::Policy) {
            self.make(Kind::Policy, spec, &objects::policy(spec, &ports))?;
        }
        if !ports.is_empty() && !known.contains_key(&Kind::Service) {
            self.make(Kind::Service, spec, &objects::service(spec, &ports))?;
        }
        Ok(())
    }
}

impl Driver for Kubernetes {
    fn unpack(&self, spec: &Spec) -> Result<Option<Vec<u16>>, Trouble> {
        // Machines of the cluster fetch it; here it is only held against its digests, and read.
        unpack(spec, |rootfs| fs::remove_dir_all(rootfs)).map(Some)
    }

    fn link(&self, spec: &Spec) -> Result<(), Trouble> {
        self.keep_secret(spec)?;
        self.keep_network(spec)
    }

    fn start(&self, spec: &Spec) -> Result<bool, Trouble> {
        if let Some(pod) = self.look(spec)?.get(&Kind::Pod) {
            return match pod.phase {
                _ if pod.goes_within_s.is_some() => Ok(false),
                Phase::Runs | Phase::Ready => Ok(true),
                Phase::Waits => Ok(false),
                Phase::InVain => {
                    Err(Trouble::Lasting(format!("the app cannot run: {}", self.last_words(spec))))
                }
                Phase::Over => Err(Trouble::Lasting(format!(
                    "the app ended at once: {}",
                    self.last_words(spec)
                ))),
            };
        }
        self.link(spec)?;
        let image = image_of(&spec.folder)?;
        let pod = objects::pod(spec, &self.placing, &image.digest, image.user, &image.ports);
        self.make(Kind::Pod, spec, &pod)?;
        Ok(false)
    }

    fn shape(&self, spec: &Spec) -> Result<(), Trouble> {
        // The cluster's network does it, as the pod says.
        let refused = || self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused().is_some_and(|at| at.elapsed() < RATES_AGAIN) {
            return Ok(());
        }
        let (pod, rates) = (self.look(spec)?.remove(&Kind::Pod), objects::rates(spec));
        let Some(pod) = pod.filter(|pod| pod.goes_within_s.is_none() && pod.rates != rates) else {
            return Ok(());
        };
        let change = objects::with_rates(&pod.uid, rates);
        let done = self.client.change(&self.path(Kind::Pod, spec), &change);
        self.view.forget();
        match done {
            // It goes, or has gone: the next one is made so.
            Err(ClusterError::NotFound(_)) => Ok(()),
            // An app runs without it, and its next pod is made so.
            Err(ClusterError::Forbidden(why)) => {
                *refused() = Some(Instant::now());
                tracing::warn!(why, "pods that run are not told what they may send and be sent");
                Ok(())
            }
            done => Ok(done?),
        }
    }

    fn health(&self, spec: &Spec) -> Result<Health, Trouble> {
        let known = self.look(spec)?;
        let Some(pod) = known.get(&Kind::Pod).filter(|pod| pod.goes_within_s.is_none()) else {
            return Ok(Health::Gone);
        };
        self.keep_network(spec)?;
        Ok(match pod.phase {
            Phase::Ready => Health::Up,
            Phase::Runs => Health::Silent,
            Phase::Waits => Health::Coming,
            Phase::InVain | Phase::Over => Health::Gone,
        })
    }

    fn stop(&self, spec: &Spec, is_forced: bool) -> Result<bool, Trouble> {
        let Some(pod) = self.look(spec)?.remove(&Kind::Pod) else { return Ok(true) };
        // Never at once: the object would go before the app, and another beside it begin.
        let grace_s = if is_forced { 1 } else { objects::GRACE_S };
        // One that goes as soon as it is to is not told again.
        if pod.goes_within_s.is_none_or(|known_s| grace_s < known_s) {
            self.remove(Kind::Pod, spec, &pod, Some(grace_s))?;
        }
        Ok(false)
    }

    fn unlink(&self, spec: &Spec) -> Result<(), Trouble> {
        let network = [Kind::Service, Kind::Policy, Kind::Secret];
        for kind in network {
            if let Some(one) = self.look(spec)?.get(&kind).filter(|one| one.goes_within_s.is_none())
            {
                self.remove(kind, spec, one, None)?;
            }
        }
        let left = self.look(spec)?;
        match network.into_iter().find_map(|kind| Some((kind, left.get(&kind)?))) {
            Some((kind, one)) => Err(Trouble::Passing(self.not_gone(kind, spec, one))),
            None => Ok(()),
        }
    }

    fn clear(&self, spec: &Spec) -> Result<(), Trouble> {
        Ok(clear(&spec.folder).map_err(|error| format!("{}: {error}", spec.folder.display()))?)
    }

    fn last_words(&self, spec: &Spec) -> String {
        let of_pod = self.look(spec).ok().and_then(|mut known| known.remove(&Kind::Pod)?.words);
        // Output there is of a container that was there.
        let target = format!("{}/log?{WORDS}", self.path(Kind::Pod, spec));
        let output = self.client.text(&target).unwrap_or_default();
        let said: Vec<&str> = [of_pod.as_deref().unwrap_or_default(), output.trim()]
            .into_iter()
            .filter(|words| !words.is_empty())
            .collect();
        if said.is_empty() { "it has said nothing".to_owned() } else { said.join("; ") }
    }
}

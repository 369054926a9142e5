//! What there is of the platform's in a cluster, as it was a moment ago.
//!
//! Each look at an app would ask for its objects one by one: so all are listed, a kind at a time, not more
//! often than [`AGE_MAX`] says, and every look is answered from that.

use super::client::{Client, ClusterError};
use super::objects::{INSTANCE, KINDS, Kind, OURS, RATES};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How old what is looked at may be.
const AGE_MAX: Duration = Duration::from_millis(500);
/// Objects of a page of a list: a pod has some 10 KB.
const PAGE: usize = 250;
/// Objects of a kind that are taken.
const OBJECTS_MAX: usize = 16_384;
/// How often a list is begun anew that expires between its pages.
const TRIES_MAX: u32 = 3;
/// Why a pod waits that waits for nothing that comes.
const IN_VAIN: [&str; 6] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "ImagePullBackOff",
    "InvalidImageName",
    "RunContainerError",
];

/// An object of the platform's.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Object {
    /// Unlike that of any other, also of one of the same name.
    pub(super) uid: String,
    /// Changes whenever it does.
    pub(super) version: String,
    /// Of one that is to go: how long it may take, in seconds.
    pub(super) goes_within_s: Option<u64>,
    /// What else has to be done before it can go.
    pub(super) finalizers: Vec<String>,
    pub(super) phase: Phase,
    /// Why it is not up, where the cluster says that.
    pub(super) words: Option<String>,
    /// What a pod says of its rates, by [`RATES`].
    pub(super) rates: [Option<String>; 2],
}

/// How far a pod is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Phase {
    /// It waits for a machine, its image, or its container; or it is no pod.
    Waits,
    /// It waits for what does not come by itself.
    InVain,
    /// It runs.
    Runs,
    /// It runs, and takes connections where it is asked whether it does.
    Ready,
    /// It does not run any more, and will not.
    Over,
}

/// Objects, by kind and instance.
pub(super) type Objects = BTreeMap<(Kind, String), Object>;

/// The last look at a cluster.
#[derive(Debug, Default)]
pub(super) struct View {
    last: Mutex<Option<(Instant, Result<Objects, ClusterError>)>>,
}

impl View {
    /// What there is of an instance. What cannot be looked at is not tried again at once, either.
    pub(super) fn of(
        &self,
        client: &Client,
        namespace: &str,
        instance: &str,
    ) -> Result<BTreeMap<Kind, Object>, ClusterError> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let known = last.take().filter(|(at, _)| at.elapsed() < AGE_MAX);
        let (at, objects) = known.unwrap_or_else(|| {
            let objects = list_all(client, namespace);
            (Instant::now(), objects)
        });
        let of_instance = objects.as_ref().map_err(Clone::clone).map(|objects| {
            let of =
                |kind: &Kind| Some((*kind, objects.get(&(*kind, instance.to_owned()))?.clone()));
            KINDS.iter().filter_map(of).collect()
        });
        *last = Some((at, objects));
        of_instance
    }

    /// Has the next look see what was done meanwhile.
    pub(super) fn forget(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn list_all(client: &Client, namespace: &str) -> Result<Objects, ClusterError> {
    let mut objects = Objects::new();
    for kind in KINDS {
        let mut tries = 1;
        let listed = loop {
            match list(client, kind, namespace) {
                // More was changed meanwhile than a cluster remembers.
                Err(ClusterError::Changed(_)) if tries < TRIES_MAX => tries += 1,
                listed => break listed?,
            }
        };
        objects.extend(listed.into_iter().map(|(instance, one)| ((kind, instance), one)));
    }
    Ok(objects)
}

/// Objects of a kind that are the platform's, page by page, by instance.
fn list(
    client: &Client,
    kind: Kind,
    namespace: &str,
) -> Result<BTreeMap<String, Object>, ClusterError> {
    let path = kind.path(namespace);
    let (mut listed, mut next) = (BTreeMap::new(), String::new());
    loop {
        let page = client
            .list(&format!("{path}?labelSelector={OURS}&limit={PAGE}{next}"), kind.is_whole())?;
        let items = page["items"].as_array().map_or(&[][..], Vec::as_slice);
        listed.extend(items.iter().filter_map(|item| {
            let instance = item["metadata"]["labels"][INSTANCE].as_str()?;
            Some((instance.to_owned(), object(item)))
        }));
        let token = page["metadata"]["continue"].as_str().unwrap_or_default();
        if token.is_empty() {
            return Ok(listed);
        }
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=".contains(&byte);
        if items.is_empty() || listed.len() > OBJECTS_MAX || !token.bytes().all(is_token) {
            return Err(ClusterError::Away(format!("the list of {path} does not end")));
        }
        next = format!("&continue={}", token.replace('=', "%3D"));
    }
}

fn object(item: &Value) -> Object {
    let metadata = &item["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let is_going = metadata.get("deletionTimestamp").is_some();
    let finalizers = metadata["finalizers"].as_array().into_iter().flatten();
    Object {
        uid: text(&metadata["uid"]),
        version: text(&metadata["resourceVersion"]),
        goes_within_s: is_going
            .then(|| metadata["deletionGracePeriodSeconds"].as_u64().unwrap_or_default()),
        finalizers: finalizers.map(text).collect(),
        phase: phase(&item["status"]),
        words: words(&item["status"]),
        rates: RATES.map(|name| metadata["annotations"][name].as_str().map(str::to_owned)),
    }
}

fn phase(status: &Value) -> Phase {
    let waits_for = status["containerStatuses"][0]["state"]["waiting"]["reason"].as_str();
    let is = |kind: &str| {
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        conditions.any(|one| one["type"] == kind && one["status"] == "True")
    };
    match status["phase"].as_str() {
        Some("Succeeded" | "Failed") => Phase::Over,
        _ if waits_for.is_some_and(|reason| IN_VAIN.contains(&reason)) => Phase::InVain,
        Some("Running") if is("Ready") => Phase::Ready,
        // One whose machine is silent, too.
        Some("Running" | "Unknown") => Phase::Runs,
        _ => Phase::Waits,
    }
}

/// Why a pod is not up: of its container, of its place on a machine, of itself.
fn words(status: &Value) -> Option<String> {
    let state = &status["containerStatuses"][0]["state"];
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let unplaced = conditions.find(|one| one["type"] == "PodScheduled" && one["status"] == "False");
    let of = |one: &Value| {
        let reason = one["reason"].as_str()?;
        let message = one["message"].as_str().unwrap_or_default();
        let code = one["exitCode"].as_i64().map(|code| format!(" with {code}")).unwrap_or_default();
        Some(format!("{reason}{code}: {message}").trim_end_matches([':', ' ']).to_owned())
    };
    of(&state["terminated"])
        .or_else(|| of(&state["waiting"]))
        .or_else(|| of(unplaced?))
        .or_else(|| of(status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_is_ready_when_it_says_so_and_in_vain_when_it_cannot_be() {
        let of = |value: Value| phase(&value);
        let ready = json!([{ "type": "Ready", "status": "True" }]);
        assert_eq!(of(json!({ "phase": "Pending" })), Phase::Waits);
        assert_eq!(of(json!({ "phase": "Running" })), Phase::Runs);
        assert_eq!(of(json!({ "phase": "Running", "conditions": ready })), Phase::Ready);
        assert_eq!(of(json!({ "phase": "Failed", "conditions": ready })), Phase::Over);
        let waits = json!([{ "state": { "waiting": { "reason": "ImagePullBackOff" } } }]);
        assert_eq!(of(json!({ "phase": "Pending", "containerStatuses": waits })), Phase::InVain);
        let comes = json!([{ "state": { "waiting": { "reason": "ContainerCreating" } } }]);
        assert_eq!(of(json!({ "phase": "Pending", "containerStatuses": comes })), Phase::Waits);
        assert_eq!(of(Value::Null), Phase::Waits);
    }

    #[test]
    fn why_a_pod_is_not_up_is_told_by_whoever_knows_best() {
        let of = |value: Value| words(&value).unwrap_or_default();
        let unplaced = json!([{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/3 nodes are available",
        }]);
        assert_eq!(of(json!({ "conditions": unplaced })), "Unschedulable: 0/3 nodes are available");
        let ended = json!([{ "state": { "terminated": { "reason": "Error", "exitCode": 7 } } }]);
        assert_eq!(of(json!({ "containerStatuses": ended })), "Error with 7");
        assert_eq!(of(json!({ "reason": "Evicted", "message": "disk" })), "Evicted: disk");
        assert_eq!(words(&json!({ "phase": "Running" })), None);
    }

    #[test]
    fn one_that_is_to_go_says_how_soon() {
        let metadata = json!({
            "uid": "u", "resourceVersion": "7", "deletionTimestamp": "2026-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": 10, "finalizers": ["example/hold"],
        });
        let going = object(&json!({ "metadata": metadata }));
        assert_eq!((going.goes_within_s, going.uid.as_str()), (Some(10), "u"));
        assert_eq!(going.finalizers, ["example/hold"]);
        let other = object(&json!({ "metadata": { "annotations": { RATES[1]: "1M" } } }));
        assert_eq!((other.goes_within_s, other.rates), (None, [None, Some("1M".to_owned())]));
    }
}

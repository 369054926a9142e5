//! What the platform counts, as OpenMetrics: for a monitor that has a token for it.

use crate::objective::{Objective, Promise};
use freshet_platform::Standing;
use freshet_platform::notify::Notified;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// The media type of the text.
pub(super) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Upper bounds of how long calls take, in seconds.
const BOUNDS_S: [f64; 8] = [0.000_1, 0.000_3, 0.001, 0.003, 0.01, 0.1, 1.0, 10.0];
/// Methods that are told apart.
const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Of {
    interface: String,
    method: String,
    status: u16,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct In {
    interface: String,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct State {
    state: String,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Promised {
    service: String,
    promise: String,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Outcome {
    outcome: &'static str,
}

type Seconds = Family<In, Histogram, fn() -> Histogram>;

/// What happened since the start.
#[derive(Debug)]
pub(super) struct Metrics {
    calls: Family<Of, Counter>,
    seconds: Seconds,
    promised: Family<Promised, Gauge<f64, AtomicU64>>,
}

impl Metrics {
    /// Nothing has happened yet, and this is promised.
    pub(super) fn new(objectives: &[Objective]) -> Self {
        let make: fn() -> Histogram = || Histogram::new(BOUNDS_S);
        let promised: Family<Promised, Gauge<f64, AtomicU64>> = Family::default();
        for objective in objectives {
            for (promise, share) in objective.promises.iter().map(Promise::told) {
                let service = objective.service.clone();
                promised.get_or_create(&Promised { service, promise }).set(share);
            }
        }
        Self { calls: Family::default(), seconds: Family::new_with_constructor(make), promised }
    }

    /// A call was answered. `interface` is one of the table, or nothing where it was of none.
    pub(super) fn count(&self, interface: Option<&str>, method: &str, status: u16, took: Duration) {
        // What clients make up is one, or labels would grow without end.
        let interface = interface.unwrap_or("none").to_owned();
        let method = METHODS.into_iter().find(|known| *known == method).unwrap_or("other");
        self.seconds
            .get_or_create(&In { interface: interface.clone() })
            .observe(took.as_secs_f64());
        self.calls.get_or_create(&Of { interface, method: method.to_owned(), status }).inc();
    }

    /// All of it, with what there is now.
    pub(super) fn text(&self, standing: &Standing, notified: Notified, waiting: usize) -> String {
        let mut registry = Registry::with_prefix("freshet_mec");
        registry.register("calls", "Calls that were answered", self.calls.clone());
        let help = "How long calls took, from the head to the answer";
        registry.register_with_unit("call", help, Unit::Seconds, self.seconds.clone());
        let help = "Share of a service's calls over 30 days that is promised";
        let ratio = Unit::Other("ratio".to_owned());
        registry.register_with_unit("promised", help, ratio, self.promised.clone());
        let mut gauge = |name: &str, help: &str, value: usize| {
            let gauge = Gauge::<i64>::default();
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
            registry.register(name, help, gauge);
        };
        gauge("documents", "Documents that are kept", standing.documents);
        gauge("subscriptions", "Subscriptions that are kept", standing.subscriptions);
        gauge("packages", "Packages whose archive is there", standing.packages);
        gauge("notifications_waiting", "Notifications that wait to be delivered", waiting);
        let apps: Family<State, Gauge> = Family::default();
        for (state, count) in &standing.apps {
            apps.get_or_create(&State { state: state.clone() }).set(*count);
        }
        registry.register("apps", "App instances", apps);
        let notifications: Family<Outcome, Counter> = Family::default();
        for (outcome, count) in [
            ("delivered", notified.delivered),
            ("given up", notified.given_up),
            ("dropped", notified.dropped),
        ] {
            notifications.get_or_create(&Outcome { outcome }).inc_by(count);
        }
        registry.register("notifications", "Notifications that are done with", notifications);
        let mut text = String::new();
        encode(&mut text, &registry).expect("a string takes all");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_make_up_is_counted_as_one() {
        let metrics = Metrics::new(&[]);
        for method in ["BREW", "STEEP", "GET"] {
            metrics.count(None, method, 404, Duration::from_millis(2));
        }
        let text = metrics.text(&Standing::default(), Notified::default(), 3);
        for line in [
            "freshet_mec_calls_total{interface=\"none\",method=\"other\",status=\"404\"} 2",
            "freshet_mec_calls_total{interface=\"none\",method=\"GET\",status=\"404\"} 1",
            "freshet_mec_call_seconds_bucket{le=\"0.003\",interface=\"none\"} 3",
            "freshet_mec_notifications_waiting 3",
            "freshet_mec_notifications_total{outcome=\"dropped\"} 0",
        ] {
            assert!(text.lines().any(|one| one == line), "{line}\n{text}");
        }
    }
}

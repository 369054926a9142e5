//! `[tracing]`: which requests are followed through the node, and who is told.

use super::document::Document;
use super::key::{Key, Kind, key};
use super::mistake::{Mistake, Place};
use super::values::optional;
pub use freshet_net::trust::Network;
use std::path::PathBuf;
use std::time::Duration;

/// The shortest time between two messages with metrics.
const METRICS_PERIOD_MIN: Duration = Duration::from_secs(1);

/// The keys.
pub(super) const KEYS: &[Key] = &[
    key(
        "tracing.otlp",
        Kind::Text,
        "",
        "Collector of OpenTelemetry that is sent what becomes of sampled requests, as \
         `http://127.0.0.1:4318`: over HTTP, to `/v1/traces` where no path is given. Without it nothing is \
         traced.",
    ),
    key(
        "tracing.sample",
        Kind::Count { min: 0, max: 1_000_000_000 },
        "1000",
        "One of so many requests is traced; 1 is for all, 0 for none but those that others have sampled.",
    ),
    key(
        "tracing.follow",
        Kind::TextList,
        "",
        "Networks of clients, such as balancers and other nodes, whose `traceparent` is believed: the \
         request belongs to their trace, and is traced where they have sampled it.",
    ),
    key("tracing.service", Kind::Text, "freshet", "Name of this node's service in traces."),
    key(
        "tracing.metrics",
        Kind::Span,
        "0s",
        "How often the node's metrics are sent to the collector too: to `/v1/metrics`, or beside the path \
         given, which then has to end with `/v1/traces`. A second at the least; 0 for never.",
    ),
    key(
        "tracing.fields",
        Kind::SecretFile,
        "",
        "File with fields that the collector is sent, one in a line, as `Authorization: Bearer …`.",
    ),
    key(
        "tracing.ca",
        Kind::File,
        "",
        "PEM file of the authorities the collector's certificate is of; the system's where left out.",
    ),
];

/// `[tracing]`
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Tracing {
    /// URL of the collector.
    pub otlp: String,
    /// One of so many requests; 0 is none.
    pub sample: u64,
    /// Whose word about traces counts.
    pub follow: Vec<Network>,
    /// Name of the service.
    pub service: String,
    /// How often metrics are sent; zero is never.
    pub metrics: Duration,
    /// File with more fields for the collector.
    pub fields: Option<PathBuf>,
    /// PEM file of authorities to trust with the collector.
    pub ca: Option<PathBuf>,
    /// Where the collector is named.
    pub place: Place,
}

/// What a document says of it, if it is wanted; what is wrong is listed.
pub(super) fn tracing(document: &Document, wrong: &mut Vec<Mistake>) -> Option<Tracing> {
    let text = |key: &str| document.value(&format!("tracing.{key}")).text();
    let place = document.at("tracing.otlp");
    let Some(otlp) = optional(text("otlp")) else {
        let said = ["sample", "follow", "service", "metrics", "fields", "ca"];
        let said = said.map(|key| document.at(&format!("tracing.{key}")));
        if let Some(said) = said.into_iter().find(|place| place.span().is_some()) {
            let message = "[tracing] does nothing without `otlp`, the URL of a collector";
            wrong.push(Mistake::error(said, message));
        }
        return None;
    };
    let mut follow = Vec::new();
    for network in document.value("tracing.follow").list() {
        match network.parse() {
            Ok(network) => follow.push(network),
            Err(error) => {
                let message = format!("tracing.follow: {error}");
                wrong.push(Mistake::error(document.at("tracing.follow"), message));
            }
        }
    }
    let metrics = document.value("tracing.metrics").span();
    if !metrics.is_zero() && metrics < METRICS_PERIOD_MIN {
        let message = "tracing.metrics: metrics are sent each second at most; 0 for never";
        wrong.push(Mistake::error(document.at("tracing.metrics"), message));
    }
    Some(Tracing {
        otlp,
        sample: document.value("tracing.sample").number(),
        follow,
        service: text("service"),
        metrics,
        fields: optional(text("fields")).map(Into::into),
        ca: optional(text("ca")).map(Into::into),
        place,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Option<Tracing>, Vec<Mistake>) {
        let mut wrong = Vec::new();
        let document = Document::parse(text).expect("the text is well-formed");
        (tracing(&document, &mut wrong), wrong)
    }

    #[test]
    fn a_collector_is_enough_and_without_one_nothing_else_means_anything() {
        assert_eq!(read(""), (None, Vec::new()));
        let (tracing, wrong) = read("[tracing]\notlp = \"http://127.0.0.1:4318\"\n");
        let tracing = tracing.unwrap();
        assert!(wrong.is_empty());
        assert_eq!((tracing.sample, &*tracing.service), (1000, "freshet"));
        assert_eq!(tracing.metrics, Duration::ZERO);
        let (_, wrong) = read("[tracing]\notlp = \"http://a\"\nmetrics = \"10ms\"\n");
        assert!(wrong[0].message.starts_with("tracing.metrics: "), "{wrong:?}");
        let (_, wrong) = read("[tracing]\nsample = 1\n");
        assert!(wrong[0].message.contains("does nothing without `otlp`"), "{wrong:?}");
        let (_, wrong) = read("[tracing]\notlp = \"http://a\"\nfollow = [\"10.0.0.0/99\"]\n");
        assert!(wrong[0].message.starts_with("tracing.follow: "), "{wrong:?}");
    }
}

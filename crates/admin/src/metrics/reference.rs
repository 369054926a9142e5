//! The reference page of all metrics, made by what writes them: families that have no value on a node are
//! listed all the same.

use super::writer::{Families, Family, Writer};
use freshet_node::node::Node;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt::{self, Write as _};
use std::sync::{Arc, PoisonError};

/// Puts down which families there are.
struct Listing(Arc<Node>, Families);

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listing")
    }
}

impl Collector for Listing {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        super::write(&self.0, None, &mut Writer::new(encoder, Some(Arc::clone(&self.1))))
    }
}

/// The page as Markdown, the text of `docs/metrics.md`; any node has it alike.
///
/// # Errors
/// None that is known: writing to memory does not fail.
pub fn markdown(node: &Arc<Node>) -> Result<String, fmt::Error> {
    let families = Families::default();
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Listing(Arc::clone(node), Arc::clone(&families))));
    encode(&mut String::new(), &registry)?;
    let families = families.lock().unwrap_or_else(PoisonError::into_inner);
    let mut out = String::from(
        "# Metrics of a node\n\nWhat `GET /metrics` of the admin interface has, in its order. Families \
         without a value are left out there: those of stores where\nthere is no store, those of sites \
         where there are none. Seconds and bytes are as the names say; a histogram has its `_bucket`,\n\
         `_sum` and `_count`. [operations.md](operations.md#metrics) has the expressions to begin \
         with.\n\n| family | type | labels | |\n|---|---|---|---|\n",
    );
    for Family { name, help, kind, labels } in &*families {
        let suffix = if matches!(kind, MetricType::Counter) { "_total" } else { "" };
        // What is no name of a label is said in words.
        let word = |label: &&str| match label.contains(' ') {
            true => (*label).to_owned(),
            false => format!("`{label}`"),
        };
        let labels = match labels {
            [] => "–".to_owned(),
            labels => labels.iter().map(word).collect::<Vec<_>>().join(", "),
        };
        writeln!(out, "| `{name}{suffix}` | {} | {labels} | {help} |", kind.as_str())?;
    }
    Ok(out)
}

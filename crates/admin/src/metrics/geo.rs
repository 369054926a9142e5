//! Metrics of the databases that say where clients are.

use super::writer::Writer;
use freshet_node::node::Node;
use std::fmt;

pub(super) fn write(node: &Node, out: &mut Writer<'_>) -> fmt::Result {
    let geo = node.snapshot().geo;
    let files = [("country", &geo.country), ("city", &geo.city), ("asn", &geo.asn)];
    let values = files
        .into_iter()
        .filter_map(|(key, file)| Some((key, file.as_ref()?.database().built_s() as f64)));
    let help = "When the database in use was made, by its key in [geo], since 1970.";
    out.gauges("freshet_geo_built_seconds", help, &["file"], values)
}

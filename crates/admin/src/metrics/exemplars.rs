//! Exemplars of latencies: traces of requests, beside the buckets they are counted in (OpenMetrics 1.0
//! §4.6). The encoder writes those of its own histograms only.

use freshet_node::exemplars::{Exemplar, Exemplars};
use std::fmt::Write as _;

/// The lines they belong to.
const BUCKETS: &str = "freshet_first_byte_seconds_bucket{";

/// The text with an exemplar behind each bucket that has one.
pub(super) fn put_in(text: &str, exemplars: &Exemplars) -> String {
    let mut out = String::with_capacity(text.len() + 4096);
    let (of_hits, of_others) = (exemplars.of(true), exemplars.of(false));
    let (mut hits, mut others) = (of_hits.iter(), of_others.iter());
    for line in text.lines() {
        out.push_str(line);
        // Buckets come in their order, those of one result behind those of the other.
        if line.starts_with(BUCKETS) {
            let of = if line.contains("result=\"hit\"") { &mut hits } else { &mut others };
            if let Some(Some(exemplar)) = of.next() {
                write_to(exemplar, &mut out);
            }
        }
        out.push('\n');
    }
    out
}

fn write_to(exemplar: &Exemplar, out: &mut String) {
    let Exemplar { trace_id, first_byte_us, at } = exemplar;
    let (value, at_s) = (*first_byte_us as f64 / 1e6, at.0 as f64 / 1e3);
    let _ = write!(out, " # {{trace_id=\"{trace_id}\"}} {value} {at_s:.3}");
}

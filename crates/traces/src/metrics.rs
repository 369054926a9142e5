//! The node's metrics as a message of OTLP in JSON: of their text form
//! (<https://prometheus.io/docs/specs/om/open_metrics_spec/>), so that a collector is told what `/metrics`
//! says and nothing else. Families are named as in that text, as OpenTelemetry's compatibility rules
//! ask (<https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/>).

use crate::encode::{Resource, resource, scope, text};
use serde_json::{Value, json};

/// Sums that are told since the beginning, not since the last message.
const CUMULATIVE: u8 = 2;

/// What a family's samples are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// A metric with all its samples.
#[derive(Debug)]
struct Family<'a> {
    name: &'a str,
    help: String,
    kind: Kind,
    samples: Vec<Sample<'a>>,
}

/// A line with a value.
#[derive(Debug)]
struct Sample<'a> {
    /// What the name has beyond its family's, such as `_total`.
    suffix: &'a str,
    labels: Vec<(&'a str, String)>,
    value: f64,
}

/// `ExportMetricsServiceRequest`. What cannot be read of the text is left out.
pub(crate) fn message(of: &Resource, metrics: &str, began_ns: u64, now_ns: u64) -> Value {
    let at = Times { began_ns, now_ns };
    let metrics: Vec<_> = families(metrics).iter().filter_map(|one| at.metric(one)).collect();
    json!({ "resourceMetrics": [{
        "resource": resource(of),
        "scopeMetrics": [{ "scope": scope(), "metrics": metrics }],
    }] })
}

/// What all points of a message have.
struct Times {
    began_ns: u64,
    now_ns: u64,
}

impl Times {
    fn metric(&self, family: &Family<'_>) -> Option<Value> {
        let points: Vec<_> = match family.kind {
            Kind::Histogram => self.histograms(family),
            _ => family.samples.iter().map(|one| self.number(family.kind, one)).collect(),
        };
        if points.is_empty() {
            return None;
        }
        let (key, data) = match family.kind {
            Kind::Gauge => ("gauge", json!({ "dataPoints": points })),
            Kind::Counter => (
                "sum",
                json!({
                    "dataPoints": points, "aggregationTemporality": CUMULATIVE, "isMonotonic": true,
                }),
            ),
            Kind::Histogram => {
                ("histogram", json!({ "dataPoints": points, "aggregationTemporality": CUMULATIVE }))
            }
        };
        let mut metric = json!({ "name": family.name, "description": family.help });
        // By the ends of names, as the text form has it.
        for (end, unit) in [("_seconds", "s"), ("_bytes", "By")] {
            if family.name.ends_with(end) {
                metric["unit"] = unit.into();
            }
        }
        metric[key] = data;
        Some(metric)
    }

    fn point(&self, kind: Kind, labels: &[(&str, String)]) -> Value {
        let attributes: Vec<_> = labels.iter().map(|(key, value)| text(key, value)).collect();
        let mut point =
            json!({ "timeUnixNano": self.now_ns.to_string(), "attributes": attributes });
        if kind != Kind::Gauge {
            point["startTimeUnixNano"] = self.began_ns.to_string().into();
        }
        point
    }

    fn number(&self, kind: Kind, sample: &Sample<'_>) -> Value {
        let mut point = self.point(kind, &sample.labels);
        if is_count(sample.value) {
            point["asInt"] = count(sample.value).into();
        } else {
            point["asDouble"] = sample.value.into();
        }
        point
    }

    /// One point for each set of labels: buckets say how many are below their bounds, the message how
    /// many are between them.
    fn histograms(&self, family: &Family<'_>) -> Vec<Value> {
        let mut points = Vec::new();
        for total in family.samples.iter().filter(|sample| sample.suffix == "_count") {
            let is_of = |sample: &Sample<'_>, suffix: &str| {
                let mut labels = sample.labels.iter().filter(|(name, _)| *name != "le");
                sample.suffix == suffix
                    && total.labels.iter().all(|label| labels.next() == Some(label))
            };
            let (mut bounds, mut counts, mut below) = (Vec::new(), Vec::new(), 0.0);
            for bucket in family.samples.iter().filter(|sample| is_of(sample, "_bucket")) {
                let bound = bucket.labels.iter().find(|(name, _)| *name == "le");
                let Some((_, bound)) = bound else { continue };
                counts.push(count(bucket.value - below));
                below = bucket.value;
                // The last one, +Inf, is said by there being one count more than bounds.
                bounds.extend(bound.parse::<f64>().ok().filter(|bound| bound.is_finite()));
            }
            let mut point = self.point(Kind::Histogram, &total.labels);
            let sum = family.samples.iter().find(|sample| is_of(sample, "_sum"));
            point["count"] = count(total.value).into();
            point["sum"] = sum.map(|sample| sample.value).into();
            point["bucketCounts"] = counts.into();
            point["explicitBounds"] = bounds.into();
            points.push(point);
        }
        points
    }
}

/// Whether a number is a count that is exact as a number of 64 bits.
fn is_count(value: f64) -> bool {
    value.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&value)
}

/// A count as OTLP's JSON has it: numbers of 64 bits are texts.
fn count(value: f64) -> String {
    (value as u64).to_string()
}

fn families(metrics: &str) -> Vec<Family<'_>> {
    let mut found: Vec<Family<'_>> = Vec::new();
    let mut help = String::new();
    for line in metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').map_or_else(String::new, |(_, text)| unescaped(text).0);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, ""));
            let kind = match kind {
                "counter" => Kind::Counter,
                "histogram" => Kind::Histogram,
                _ => Kind::Gauge,
            };
            found.push(Family { name, help: std::mem::take(&mut help), kind, samples: Vec::new() });
        } else if !line.starts_with('#')
            && let Some(family) = found.last_mut()
            && let Some(sample) = sample(line, family.name)
        {
            family.samples.push(sample);
        }
    }
    found
}

/// `name{label="text",…} value`
fn sample<'a>(line: &'a str, family: &str) -> Option<Sample<'a>> {
    let mut rest = line.strip_prefix(family)?;
    let end = rest.find(['{', ' '])?;
    let suffix = &rest[..end];
    rest = &rest[end..];
    let mut labels = Vec::new();
    if let Some(mut inside) = rest.strip_prefix('{') {
        while !inside.starts_with('}') {
            let (name, text) = inside.trim_start_matches(',').split_once("=\"")?;
            let (value, taken) = unescaped(text);
            labels.push((name, value));
            inside = text.get(taken..)?.strip_prefix('"')?;
        }
        rest = &inside[1..];
    }
    let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Sample { suffix, labels, value })
}

/// A text up to its quotation mark or its end, and how many bytes of it that takes.
fn unescaped(text: &str) -> (String, usize) {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.char_indices();
    while let Some((at, one)) = rest.next() {
        match one {
            '"' => return (plain, at),
            '\\' => match rest.next() {
                Some((_, 'n')) => plain.push('\n'),
                Some((_, other)) => plain.push(other),
                None => break,
            },
            other => plain.push(other),
        }
    }
    (plain, text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# HELP freshet_requests Requests, \\\"all\\\" of them.
# TYPE freshet_requests counter
freshet_requests_total{site=\"a\\\"b\\\\c\",class=\"2xx\"} 3
freshet_requests_total{site=\"x\",class=\"5xx\"} 4
# TYPE freshet_memory_bytes gauge
freshet_memory_bytes 1.5
# TYPE freshet_none counter
# TYPE freshet_first_byte_seconds histogram
freshet_first_byte_seconds_sum{result=\"hit\"} 0.25
freshet_first_byte_seconds_count{result=\"hit\"} 5
freshet_first_byte_seconds_bucket{le=\"0.001\",result=\"hit\"} 2
freshet_first_byte_seconds_bucket{le=\"0.1\",result=\"hit\"} 4
freshet_first_byte_seconds_bucket{le=\"+Inf\",result=\"hit\"} 5
freshet_first_byte_seconds_sum{result=\"miss\"} 0.0
freshet_first_byte_seconds_count{result=\"miss\"} 0
freshet_first_byte_seconds_bucket{le=\"+Inf\",result=\"miss\"} 0
# EOF
";

    fn metrics() -> Vec<Value> {
        let of = Resource { service: "edge".into(), host: "box".into() };
        let mut value = message(&of, TEXT, 1, 1_700_000_000_000_000_000);
        let scope = &mut value["resourceMetrics"][0]["scopeMetrics"][0];
        scope["metrics"].as_array().unwrap().clone()
    }

    #[test]
    fn counts_are_sums_from_the_beginning_and_what_comes_and_goes_has_none() {
        let metrics = metrics();
        let names: Vec<_> = metrics.iter().map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(
            names,
            ["freshet_requests", "freshet_memory_bytes", "freshet_first_byte_seconds"]
        );
        assert_eq!(metrics[0]["description"], "Requests, \"all\" of them.");
        let sum = &metrics[0]["sum"];
        assert_eq!(
            (&sum["isMonotonic"], &sum["aggregationTemporality"]),
            (&true.into(), &2.into())
        );
        let point = &sum["dataPoints"][0];
        assert_eq!(
            *point,
            json!({
                "timeUnixNano": "1700000000000000000", "startTimeUnixNano": "1", "asInt": "3",
                "attributes": [text("site", "a\"b\\c"), text("class", "2xx")],
            })
        );
        let gauge = &metrics[1]["gauge"]["dataPoints"][0];
        assert_eq!((&gauge["asDouble"], &metrics[1]["unit"]), (&1.5.into(), &"By".into()));
        assert!(gauge.get("startTimeUnixNano").is_none());
    }

    #[test]
    fn buckets_are_what_is_between_their_bounds() {
        let points = &metrics()[2]["histogram"]["dataPoints"];
        assert_eq!(points.as_array().unwrap().len(), 2);
        let hit = &points[0];
        assert_eq!(
            (&hit["count"], &hit["sum"], &hit["bucketCounts"], &hit["explicitBounds"]),
            (&"5".into(), &0.25.into(), &json!(["2", "2", "1"]), &json!([0.001, 0.1]))
        );
        assert_eq!(points[1]["bucketCounts"], json!(["0"]));
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        for line in ["a", "a{", "a{b", "a{b=\"", "a{b=\"c\\", "a{b=\"c\"", "a{b=\"c\"} x", "a 1e"] {
            let text = format!("# TYPE a gauge\n{line}\na 1\n");
            let found = families(&text);
            assert_eq!(found[0].samples.len(), 1, "{line}");
        }
        assert!(families("a 1\n").is_empty());
    }
}

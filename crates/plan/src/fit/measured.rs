//! What was measured: a result of the lab or a node's own curve, read from JSON.
//!
//! Both are read by the names of their fields and nothing else, so that fields may be added on their
//! side without a change here.

use crate::mistake::PlanError;
use crate::quantity::{Data, Power, Quantity, Rate};
use crate::reader::File;
use serde::Deserialize;

/// The version of the lab's results that is read here.
const LAB_SCHEMA: u32 = 1;

/// Points a curve may have: far more than a node keeps.
const POINTS_MAX: usize = 10_000;

/// A hit ratio this much lower at a larger capacity is the noise of sampling, and is said.
pub(super) const NOISE: f64 = 0.005;

/// What a file has.
pub(super) enum Measured {
    /// A run of the lab.
    Run(Run),
    /// A node's curve.
    Curve(NodeCurve),
}

/// A run of the lab, reduced to what a plan needs.
pub(super) struct Run {
    pub(super) scenario: String,
    pub(super) server: String,
    pub(super) machine: String,
    /// The load that is taken: the one that holds, else the one that delivered most.
    pub(super) step: String,
    pub(super) rate: Quantity<Rate>,
    pub(super) channels: Option<f64>,
    pub(super) byte_hit_ratio: Option<f64>,
    pub(super) power: Option<Quantity<Power>>,
    /// Name and rate of each load, in order.
    pub(super) steps: Vec<(String, Quantity<Rate>, Option<f64>)>,
    pub(super) warnings: Vec<String>,
}

/// A node's curve of hit ratios over capacity.
pub(super) struct NodeCurve {
    /// Rising capacities with request and byte hit ratios that do not fall.
    pub(super) points: Vec<Point>,
    pub(super) sample_rate: Option<f64>,
    pub(super) requests_seen: Option<f64>,
    pub(super) requests_sampled: Option<f64>,
    pub(super) capacity: Option<Quantity<Data>>,
    /// The largest fall of the byte hit ratio that was smoothed.
    pub(super) smoothed: f64,
}

/// One capacity of a curve.
#[derive(Clone, Copy)]
pub(super) struct Point {
    pub(super) capacity: Quantity<Data>,
    pub(super) request_hit_ratio: f64,
    pub(super) byte_hit_ratio: f64,
}

#[derive(Deserialize)]
struct RawRun {
    schema: u32,
    scenario: String,
    #[serde(default)]
    server: String,
    #[serde(default)]
    machine: RawMachine,
    steps: Vec<RawStep>,
    #[serde(default)]
    kpis: Vec<RawKpi>,
    #[serde(default)]
    warnings: Vec<String>,
    cut_short: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawMachine {
    processor: String,
    processors: u64,
    memory_bytes: u64,
}

#[derive(Deserialize)]
struct RawStep {
    name: String,
    x: f64,
    measured: RawMeasurement,
}

#[derive(Deserialize)]
struct RawMeasurement {
    goodput_bps: f64,
    byte_hit_ratio: Option<f64>,
    power: Option<RawPower>,
}

#[derive(Deserialize)]
struct RawPower {
    watts: f64,
}

#[derive(Deserialize)]
struct RawKpi {
    name: String,
    value: Option<f64>,
}

#[derive(Deserialize)]
struct RawCurve {
    points: Vec<RawPoint>,
    sample_rate: Option<f64>,
    requests_seen: Option<f64>,
    requests_sampled: Option<f64>,
    #[serde(alias = "current_capacity_bytes")]
    capacity_bytes: Option<f64>,
}

#[derive(Deserialize)]
struct RawPoint {
    capacity_bytes: f64,
    request_hit_ratio: f64,
    byte_hit_ratio: f64,
}

impl Measured {
    /// Reads either form, told apart by their fields.
    ///
    /// # Errors
    /// Says where the JSON is broken, or which field is missing or impossible.
    pub(super) fn parse(file: File<'_>) -> Result<Self, PlanError> {
        let refuse = |why: String| PlanError::ConfigResult(format!("{}: {why}", file.name));
        let value: serde_json::Value = serde_json::from_str(file.text).map_err(|error| {
            PlanError::ConfigResult(format!(
                "{}:{}:{}: this is not JSON: {error}; give a result of `freshet lab` or a node's \
                 curve as its admin interface gives it",
                file.name,
                error.line(),
                error.column()
            ))
        })?;
        if value.get("steps").is_some() {
            let run = serde_json::from_value(value);
            let run =
                run.map_err(|error| refuse(format!("as a result of `freshet lab`: {error}")))?;
            return Run::of(run).map(Self::Run).map_err(refuse);
        }
        // A node may wrap its curve; the points tell which object it is.
        let inner = ["curve", "data", "miss_ratio_curve"].iter().find_map(|name| value.get(name));
        let curve = match (value.get("points"), inner) {
            (None, Some(inner)) if inner.get("points").is_some() => inner.clone(),
            (Some(_), _) => value,
            _ => {
                return Err(refuse(
                    "neither `steps`, as a result of `freshet lab` has, nor `points`, as a node's \
                     curve has"
                        .to_owned(),
                ));
            }
        };
        let curve = serde_json::from_value(curve);
        let curve = curve.map_err(|error| refuse(format!("as a node's curve: {error}")))?;
        NodeCurve::of(curve).map(Self::Curve).map_err(refuse)
    }
}

impl Run {
    fn of(raw: RawRun) -> Result<Self, String> {
        if raw.schema != LAB_SCHEMA {
            return Err(format!(
                "it is of version {}; this program reads {LAB_SCHEMA}",
                raw.schema
            ));
        }
        let kpi = raw.kpis.iter().find(|kpi| kpi.name.starts_with("channels that hold"));
        let channels = kpi.and_then(|kpi| kpi.value);
        let holds = |step: &&RawStep| channels.is_none_or(|channels| step.x == channels);
        let taken = raw
            .steps
            .iter()
            .filter(holds)
            .filter(|step| step.measured.goodput_bps.is_finite() && step.measured.goodput_bps > 0.0)
            .max_by(|a, b| a.measured.goodput_bps.total_cmp(&b.measured.goodput_bps))
            .ok_or("no load of it delivered anything")?;
        let ratio = taken.measured.byte_hit_ratio;
        if ratio.is_some_and(|ratio| !(0.0..=1.0).contains(&ratio)) {
            return Err(format!("the byte hit ratio of `{}` is no share", taken.name));
        }
        let mut warnings = raw.warnings.clone();
        warnings.extend(raw.cut_short.map(|why| format!("The run was cut short: {why}")));
        let rate = |bps| Quantity::<Rate>::of(bps, "bit/s");
        let machine = format!(
            "{}, {} processors, {:.0} GiB",
            raw.machine.processor,
            raw.machine.processors,
            Quantity::<Data>::of(raw.machine.memory_bytes as f64, "B").to("GiB"),
        );
        Ok(Self {
            scenario: raw.scenario,
            server: raw.server,
            machine,
            step: taken.name.clone(),
            rate: rate(taken.measured.goodput_bps),
            channels,
            byte_hit_ratio: ratio,
            power: taken
                .measured
                .power
                .as_ref()
                .filter(|power| power.watts > 0.0)
                .map(|power| Quantity::of(power.watts, "W")),
            steps: raw
                .steps
                .iter()
                .map(|step| {
                    let measured = &step.measured;
                    (step.name.clone(), rate(measured.goodput_bps), measured.byte_hit_ratio)
                })
                .collect(),
            warnings,
        })
    }
}

impl NodeCurve {
    fn of(mut raw: RawCurve) -> Result<Self, String> {
        if raw.points.is_empty() {
            return Err(
                "the curve has no points yet: the node has seen too few requests".to_owned()
            );
        }
        if raw.points.len() > POINTS_MAX {
            return Err(format!("the curve has more than {POINTS_MAX} points"));
        }
        // A node gives them in the order they were asked for.
        raw.points.sort_by(|a, b| a.capacity_bytes.total_cmp(&b.capacity_bytes));
        raw.points.dedup_by(|a, b| a.capacity_bytes == b.capacity_bytes);
        let mut points: Vec<Point> = Vec::new();
        let mut smoothed = 0.0f64;
        for (index, one) in raw.points.iter().enumerate() {
            let is_share = |ratio: f64| (0.0..=1.0).contains(&ratio);
            if !is_share(one.request_hit_ratio) || !is_share(one.byte_hit_ratio) {
                return Err(format!("points[{index}]: a hit ratio is not from 0 to 1"));
            }
            // No cache hits nothing; a plan asks of some.
            if one.capacity_bytes == 0.0 {
                continue;
            }
            let capacity = Quantity::<Data>::of(one.capacity_bytes, "B");
            let before = points.last();
            if one.capacity_bytes < 0.0 {
                return Err(format!("points[{index}]: a capacity is below zero"));
            }
            let (requests, bytes) = before
                .map_or((0.0, 0.0), |before| (before.request_hit_ratio, before.byte_hit_ratio));
            smoothed = smoothed.max(bytes - one.byte_hit_ratio);
            points.push(Point {
                capacity,
                request_hit_ratio: one.request_hit_ratio.max(requests),
                byte_hit_ratio: one.byte_hit_ratio.max(bytes),
            });
        }
        if points.is_empty() {
            return Err("the curve has no capacity above zero".to_owned());
        }
        if raw.sample_rate.is_some_and(|rate| !(rate > 0.0 && rate <= 1.0)) {
            return Err("sample_rate is not more than 0 and at most 1".to_owned());
        }
        Ok(Self {
            points,
            sample_rate: raw.sample_rate,
            requests_seen: raw.requests_seen.filter(|seen| *seen >= 0.0),
            requests_sampled: raw.requests_sampled.filter(|sampled| *sampled >= 0.0),
            capacity: raw
                .capacity_bytes
                .filter(|bytes| *bytes > 0.0)
                .map(|bytes| Quantity::of(bytes, "B")),
            smoothed,
        })
    }
}

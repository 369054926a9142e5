//! A measurement in place of the papers' assumptions: channels and cost of this box.
//!
//! What was measured on one box says nothing of another: the outcome names the box and is to be read
//! for it alone.

mod measured;

use crate::mistake::PlanError;
use crate::models::{Curve, Request};
use crate::outcome::{Figure, Formula, Outcome, ResultColumn, ResultTable};
use crate::papers;
use crate::quantity::{
    Data, DataPrice, EnergyPrice, Frequency, Money, Power, Quantity, Rate, Space, SpacePrice,
    Spending, Time,
};
use crate::range;
use crate::reader::{Bound, File, Reader};
use freshet_report::{Axis, Plot, Series, number};
use measured::{Measured, NOISE, NodeCurve, Run};

/// The inputs besides the measurement, as a file to change.
pub const INPUTS: &str = include_str!("../inputs/fit.toml");

const CHANNELS: &str = "channels";
const COST: &str = "cost of the box";
const PER_TB: &str = "cost of a TB";
const PER_CHANNEL: &str = "cost of a channel in a month";
const HITS: &str = "hit ratio";
const ONWARD: &str = "from the origin";
const WRITES: &str = "writes a day";
const WANTED: &str = "capacity for the wanted hit ratio";

/// Fewer requests in the sample than this make a curve of noise.
const SAMPLE_MIN: f64 = 10_000.0;

struct Fit {
    cost: Quantity<Money>,
    power: Quantity<Power>,
    space: Quantity<Space>,
    years: Quantity<Time>,
    price: Quantity<EnergyPrice>,
    pue: f64,
    rack_price: Quantity<SpacePrice>,
    capacity_price: Quantity<DataPrice>,
    rate: Quantity<Rate>,
    average_to_peak: f64,
    byte_hit_ratio: f64,
    wanted: f64,
    origin_price: Quantity<DataPrice>,
    buffer: Quantity<Data>,
    cache: Quantity<Data>,
    currency: &'static str,
}

impl Fit {
    fn read(reader: &mut Reader<'_>) -> Self {
        let cost = reader.quantity("cost", Bound::NotNegative);
        let power = reader.quantity("power", Bound::NotNegative);
        let space = reader.quantity("rack-units", Bound::NotNegative);
        let years = reader.quantity("years", Bound::Positive);
        let price = reader.quantity("price", Bound::NotNegative);
        let pue = reader.number("pue", Bound::AtLeastOne);
        let rack_price = reader.quantity("rack-price", Bound::NotNegative);
        let capacity_price = reader.quantity("capacity-price", Bound::NotNegative);
        let rate = reader.quantity("rate", Bound::Positive);
        let average_to_peak = reader.number("average-to-peak", Bound::Share);
        let byte_hit_ratio = reader.number("byte-hit-ratio", Bound::Share);
        let wanted = reader.number("hit-ratio-wanted", Bound::Share);
        let origin_price = reader.quantity("origin-price", Bound::NotNegative);
        let segment: Quantity<Data> = reader.quantity("segment", Bound::Positive);
        let segment_time: Quantity<Time> = reader.quantity("segment-time", Bound::Positive);
        let buffer: Quantity<Time> = reader.quantity("buffer", Bound::Positive);
        let cache = reader.quantity("cache", Bound::NotNegative);
        if average_to_peak == 0.0 {
            let message = "a node that delivers nothing has no cost of a TB".to_owned();
            reader.refuse("average-to-peak", message, "write more than 0 %");
        }
        Self {
            cost,
            power,
            space,
            years,
            price,
            pue,
            rack_price,
            capacity_price,
            rate,
            average_to_peak,
            byte_hit_ratio,
            wanted,
            origin_price,
            buffer: segment * (buffer / segment_time),
            cache,
            currency: reader.currency(),
        }
    }

    /// The box over its life, without cache that is bought or left out.
    fn base(&self) -> Quantity<Money> {
        let spending: Quantity<Spending> = self.rack_price * self.space;
        self.cost + self.power * self.years * self.pue * self.price + spending * self.years
    }

    fn delivered(&self) -> Quantity<Data> {
        self.rate * self.average_to_peak * self.years
    }

    /// The box with what it fetches from the origin, and `more` of cache than it has.
    fn total(&self, byte_hit_ratio: f64, more: Quantity<Data>) -> Quantity<Money> {
        let fetched = self.delivered() * (1.0 - byte_hit_ratio);
        self.base() + self.origin_price * fetched + self.capacity_price * more
    }

    fn per_data(&self, byte_hit_ratio: f64, more: Quantity<Data>) -> Quantity<DataPrice> {
        self.total(byte_hit_ratio, more) / self.delivered()
    }

    fn onward(&self, byte_hit_ratio: f64) -> Quantity<Rate> {
        self.rate * (1.0 - byte_hit_ratio)
    }

    /// How often misses write a store of that capacity.
    fn writes(&self, byte_hit_ratio: f64, capacity: Quantity<Data>) -> Quantity<Frequency> {
        self.onward(byte_hit_ratio) * self.average_to_peak / capacity
    }
}

/// Fits a measurement.
///
/// # Errors
/// [`PlanError`] says what is wrong with the measurement or an input, where, and what to do.
pub fn fit(result: File<'_>, request: &Request<'_>) -> Result<Outcome, PlanError> {
    let measured = Measured::parse(result)?;
    let once = |set: &[(String, String)]| {
        let reader = Reader::new(INPUTS, request.file, set)?;
        match &measured {
            Measured::Run(run) => of_run(reader, run),
            Measured::Curve(curve) => of_curve(reader, curve),
        }
    };
    let mut outcome = once(&request.set)?;
    if !request.vary.is_empty() {
        range::add(&mut outcome, &request.set, &request.vary, once)?;
    }
    Ok(outcome)
}

fn outcome(title: &str, summary: String, fit: &Fit) -> Outcome {
    Outcome {
        model: "fit",
        title: title.to_owned(),
        summary,
        papers: vec![papers::P000],
        figures: Vec::new(),
        tables: Vec::new(),
        is_changed: false,
        checks: Vec::new(),
        contradictions: Vec::new(),
        assumptions: Vec::new(),
        formulas: formulas(fit),
        inputs: Vec::new(),
        range: None,
        plots: Vec::new(),
    }
}

fn of_run(mut reader: Reader<'_>, run: &Run) -> Result<Outcome, PlanError> {
    let mut fit = Fit::read(&mut reader);
    // What is given by hand wins over what was measured: it was given for a reason.
    let mut taken = Vec::new();
    if !reader.is_given("rate") {
        fit.rate = run.rate;
        taken.push(("rate", format!("{:.3} Gbit/s", run.rate.to("Gbit/s"))));
    }
    if let Some(ratio) = run.byte_hit_ratio.filter(|_| !reader.is_given("byte-hit-ratio")) {
        fit.byte_hit_ratio = ratio;
        taken.push(("byte-hit-ratio", format!("{:.2} %", ratio * 100.0)));
    }
    if let Some(power) = run.power.filter(|_| !reader.is_given("power")) {
        fit.power = power;
        taken.push(("power", format!("{:.1} W", power.to("W"))));
    }
    let mut inputs = reader.finish()?;
    for (key, value) in taken {
        if let Some(input) = inputs.iter_mut().find(|input| input.key == key) {
            input.value = value;
            input.source = format!("measured, `{}`", run.step);
        }
    }
    let by_equation = (fit.cache > Quantity::ZERO).then(|| fit.cache / fit.buffer);
    let channels = run.channels.or(by_equation);
    let summary = format!(
        "What the run `{}` of {} means for that box ({}).",
        run.scenario, run.server, run.machine
    );
    let mut out = outcome("This box, by a run of the lab", summary, &fit);
    let per_tb = format!("{}/TB", fit.currency);
    let value = fit.per_data(fit.byte_hit_ratio, Quantity::ZERO).to(&per_tb);
    out.figures.push(Figure::new("delivered at peak", fit.rate.to("Gbit/s"), "Gbit/s", 3, ONWARD));
    out.figures.push(Figure::new("cost of a TB", value, &per_tb, 4, PER_TB));
    if let Some(channels) = channels.filter(|channels| *channels > 0.0) {
        let month: Quantity<Spending> = fit.total(fit.byte_hit_ratio, Quantity::ZERO) / fit.years;
        let unit = format!("{}/month", fit.currency);
        let name =
            if run.channels.is_some() { "channels, measured" } else { "channels, by the equation" };
        out.figures.push(Figure::new(name, channels, "", 1, CHANNELS));
        let cost = (month / channels).to(&unit);
        out.figures.push(Figure::new("cost of a channel", cost, &unit, 3, PER_CHANNEL));
    }
    out.tables.push(ResultTable {
        name: "loads",
        title: "Loads of the run".to_owned(),
        columns: vec![
            ResultColumn::words("load"),
            ResultColumn::numbers("delivered", "Gbit/s", 3, ONWARD),
            ResultColumn::numbers("byte hit ratio", "%", 1, HITS),
        ],
        rows: run
            .steps
            .iter()
            .map(|(name, rate, ratio)| {
                let ratio = ratio.map_or(f64::NAN, |ratio| ratio * 100.0);
                vec![name.as_str().into(), rate.to("Gbit/s").into(), ratio.into()]
            })
            .collect(),
    });
    let names = run.steps.iter().map(|(name, ..)| name.clone());
    let rates = run.steps.iter().map(|(_, rate, _)| rate.to("Gbit/s"));
    let plot = Plot::bars("Delivered by load", names, Axis::new("rate").unit("Gbit/s"));
    out.plots.push(plot.series(Series::values("delivered", rates)));
    out.assumptions.extend(run.warnings.iter().cloned());
    if channels.is_none() {
        out.assumptions.push(
            "The run did not look for channels. `freshet lab channels` does, or give `cache`, the \
             size of the box's cache, for the equation."
                .to_owned(),
        );
    }
    if run.power.is_none() {
        out.assumptions.push("The run measured no power: it is an input here.".to_owned());
    }
    out.inputs = inputs;
    Ok(out)
}

fn of_curve(mut reader: Reader<'_>, node: &NodeCurve) -> Result<Outcome, PlanError> {
    let mut fit = Fit::read(&mut reader);
    let curve = Curve::new(node.points.iter().map(|p| (p.capacity, p.byte_hit_ratio)).collect());
    let curve = curve.expect("points were put in order");
    let now = match node.capacity {
        Some(capacity) if !reader.is_given("cache") => capacity,
        _ if fit.cache > Quantity::ZERO => fit.cache,
        _ => curve.end(),
    };
    fit.cache = now;
    if !reader.is_given("byte-hit-ratio") {
        fit.byte_hit_ratio = curve.at(now);
    }
    let mut inputs = reader.finish()?;
    for (key, value) in [
        ("cache", format!("{:.3} GB", now.to("GB"))),
        ("byte-hit-ratio", format!("{:.2} %", fit.byte_hit_ratio * 100.0)),
    ] {
        let found = inputs.iter_mut().find(|input| input.key == key);
        if let Some(input) = found.filter(|input| !input.source.contains("flag")) {
            input.value = value;
            input.source = "the node's curve".to_owned();
        }
    }
    let summary = format!(
        "What a node's own curve of hit ratios means for it, with a cache of {:.3} GB.",
        now.to("GB")
    );
    let mut out = outcome("This box, by its node's curve", summary, &fit);
    let per_tb = format!("{}/TB", fit.currency);
    let value = fit.per_data(fit.byte_hit_ratio, Quantity::ZERO).to(&per_tb);
    out.figures.push(Figure::new("byte hit ratio now", fit.byte_hit_ratio * 100.0, "%", 2, HITS));
    let onward = fit.onward(fit.byte_hit_ratio).to("Gbit/s");
    out.figures.push(Figure::new("from the origin at peak", onward, "Gbit/s", 3, ONWARD));
    out.figures.push(Figure::new("channels in the cache", now / fit.buffer, "", 1, CHANNELS));
    out.figures.push(Figure::new("cost of a TB", value, &per_tb, 4, PER_TB));
    if let Some(capacity) = curve.capacity_for(fit.wanted) {
        let name = format!("capacity for {:.1} %", fit.wanted * 100.0);
        out.figures.push(Figure::new(name, capacity.to("GB"), "GB", 3, WANTED));
    }
    out.tables.push(capacities(&fit, node));
    out.plots = curve_plots(&fit, node);
    out.assumptions = curve_notes(&fit, node, &curve, now);
    out.inputs = inputs;
    Ok(out)
}

fn capacities(fit: &Fit, node: &NodeCurve) -> ResultTable {
    let per_tb = format!("{}/TB", fit.currency);
    let columns = vec![
        ResultColumn::numbers("capacity", "GB", 3, CHANNELS),
        ResultColumn::numbers("request hits", "%", 2, HITS),
        ResultColumn::numbers("byte hits", "%", 2, HITS),
        ResultColumn::numbers("origin", "Gbit/s", 2, ONWARD),
        ResultColumn::numbers("channels", "", 1, CHANNELS),
        ResultColumn::numbers("writes", "DWPD", 2, WRITES),
        ResultColumn::numbers("cost", &per_tb, 4, PER_TB),
    ];
    let rows = node
        .points
        .iter()
        .map(|point| {
            let more = point.capacity - fit.cache;
            vec![
                point.capacity.to("GB").into(),
                (point.request_hit_ratio * 100.0).into(),
                (point.byte_hit_ratio * 100.0).into(),
                fit.onward(point.byte_hit_ratio).to("Gbit/s").into(),
                (point.capacity / fit.buffer).into(),
                fit.writes(point.byte_hit_ratio, point.capacity).to("DWPD").into(),
                fit.per_data(point.byte_hit_ratio, more).to(&per_tb).into(),
            ]
        })
        .collect();
    let title = "What each capacity would do".to_owned();
    ResultTable { name: "capacities", title, columns, rows }
}

fn curve_plots(fit: &Fit, node: &NodeCurve) -> Vec<Plot> {
    let of = |ratio: fn(&measured::Point) -> f64| -> Vec<(f64, f64)> {
        let points = node.points.iter();
        points.map(|point| (point.capacity.to("GB"), ratio(point) * 100.0)).collect()
    };
    let per_tb = format!("{}/TB", fit.currency);
    let costs = node.points.iter().map(|point| {
        let more = point.capacity - fit.cache;
        (point.capacity.to("GB"), fit.per_data(point.byte_hit_ratio, more).to(&per_tb))
    });
    let x = || Axis::new("capacity").unit("GB").log();
    vec![
        Plot::lines("Hit ratio over capacity", x(), Axis::new("hit ratio").unit("%"))
            .series(Series::new("by requests", of(|point| point.request_hit_ratio)))
            .series(Series::new("by bytes", of(|point| point.byte_hit_ratio)))
            .limit("wanted, by bytes", fit.wanted * 100.0),
        Plot::lines("Cost of a TB over capacity", x(), Axis::new("cost").unit(&per_tb))
            .series(Series::new("cost of a TB", costs.collect())),
    ]
}

fn curve_notes(fit: &Fit, node: &NodeCurve, curve: &Curve, now: Quantity<Data>) -> Vec<String> {
    let mut notes = Vec::new();
    if let (Some(rate), Some(seen)) = (node.sample_rate, node.requests_seen) {
        let sampled = node.requests_sampled.unwrap_or(rate * seen);
        // Two standard errors of a share; keys are sampled, not requests, so it is a lower bound.
        let ratio = fit.byte_hit_ratio;
        let error = 2.0 * (ratio * (1.0 - ratio) / sampled.max(1.0)).sqrt() * 100.0;
        notes.push(format!(
            "The curve is from {} requests, {} % of them sampled: its error is ±{error:.2} points at \
             the least, more where few keys get most requests.",
            number::fixed(seen, 0),
            number::significant(rate * 100.0, 3)
        ));
        if sampled < SAMPLE_MIN {
            notes.push(format!(
                "Only {} requests are in the sample; wait for {} before buying anything.",
                number::fixed(sampled, 0),
                number::fixed(SAMPLE_MIN, 0)
            ));
        }
    }
    if node.smoothed > NOISE {
        notes.push(format!(
            "The byte hit ratio fell by up to {:.1} points at larger capacities, which is noise; \
             it was taken as not falling.",
            node.smoothed * 100.0
        ));
    }
    if curve.capacity_for(fit.wanted).is_none() {
        notes.push(format!(
            "The curve does not reach {:.1} %: its best is {:.1} %. What is new at each request \
             misses at any capacity.",
            fit.wanted * 100.0,
            curve.at(curve.end()) * 100.0
        ));
    }
    if now > curve.end() {
        notes.push("The cache is larger than the last point: taken as if it were that.".to_owned());
    }
    if fit.capacity_price == Quantity::ZERO && fit.origin_price == Quantity::ZERO {
        notes.push(
            "Without `capacity-price` and `origin-price` all capacities cost the same: give them to \
             see the cheapest."
                .to_owned(),
        );
    }
    notes
}

fn formulas(fit: &Fit) -> Vec<Formula> {
    let money = |amount: Quantity<Money>| {
        format!("{} {}", number::fixed(amount.to(fit.currency), 0), fit.currency)
    };
    vec![
        Formula {
            result: HITS,
            formula: "as measured, in straight lines between points, never beyond the last",
            example: String::new(),
            inputs: &["byte-hit-ratio", "hit-ratio-wanted"],
            source: "the measurement",
        },
        Formula {
            result: CHANNELS,
            formula: "as measured; else cache / (segment × buffer / segment time)",
            example: format!(
                "a channel takes {:.0} MB of a cache of {:.3} GB",
                fit.buffer.to("MB"),
                fit.cache.to("GB")
            ),
            inputs: &["cache", "segment", "segment-time", "buffer"],
            source: "000 equations of §2.2.3",
        },
        Formula {
            result: COST,
            formula: "cost + power × years × PUE × price of energy + rack units × price of a rack \
                      unit × years",
            example: money(fit.base()),
            inputs: &["cost", "power", "years", "pue", "price", "rack-units", "rack-price"],
            source: "000 §2.8",
        },
        Formula {
            result: PER_TB,
            formula: "(cost of the box + price of the origin × what is fetched + price of capacity × \
                      what is more or less than the box has) / (rate × average-to-peak × years)",
            example: String::new(),
            inputs: &["rate", "average-to-peak", "origin-price", "capacity-price"],
            source: "000 §2.4",
        },
        Formula {
            result: PER_CHANNEL,
            formula: "(cost of the box + price of the origin × what is fetched) / years / channels",
            example: String::new(),
            inputs: &["origin-price"],
            source: "000 §2.4",
        },
        Formula {
            result: ONWARD,
            formula: "rate × (1 − byte hit ratio)",
            example: format!("{:.3} Gbit/s", fit.onward(fit.byte_hit_ratio).to("Gbit/s")),
            inputs: &["rate", "byte-hit-ratio"],
            source: "000 §2.1.4",
        },
        Formula {
            result: WRITES,
            formula: "rate × average-to-peak × (1 − byte hit ratio) / capacity",
            example: String::new(),
            inputs: &["rate", "average-to-peak"],
            source: "`freshet plan endurance` has how long drives last with it",
        },
        Formula {
            result: WANTED,
            formula: "the smallest capacity at which the curve reaches it",
            example: String::new(),
            inputs: &["hit-ratio-wanted"],
            source: "the measurement",
        },
    ]
}

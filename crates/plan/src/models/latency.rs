//! Round trip of a mobile client to a service, by where the service is, after paper 003.

use crate::mistake::PlanError;
use crate::outcome::{Check, Figure, Formula, Outcome, ResultColumn, ResultTable};
use crate::papers;
use crate::quantity::{Quantity, Time};
use crate::reader::{Bound, Input, Reader, uses};
use freshet_report::{Axis, Plot, Series};

/// The paper's case.
pub(crate) const INPUTS: &str = include_str!("../inputs/latency.toml");

const BEFORE: &str = "radio before";
const TRIP: &str = "round trip";

/// Nothing on earth is further apart than half its circumference, in km.
const KM_MAX: f64 = 20_038.0;

struct Place {
    name: String,
    km: f64,
    hops: f64,
    /// In ms.
    hop: f64,
    service: f64,
}

struct Latency {
    /// All in ms.
    radio: f64,
    before: f64,
    km: f64,
    budget: f64,
    places: Vec<Place>,
}

impl Latency {
    fn read(reader: &mut Reader<'_>) -> Self {
        let ms = |reader: &mut Reader<'_>, key| {
            let value: Quantity<Time> = reader.quantity(key, Bound::NotNegative);
            value.to("ms")
        };
        let radio = ms(reader, "radio");
        let less = reader.number("less-than-before", Bound::Share);
        if less >= 1.0 {
            let message = "nothing would be left of the delay before".to_owned();
            reader.refuse("less-than-before", message, "give a share below 100 %");
        }
        let km = ms(reader, "delay-of-km");
        let budget = ms(reader, "budget");
        let rows = reader.rows("place");
        let places = rows
            .iter()
            .map(|row| {
                let km = reader.number_of_row(row, "km", Bound::NotNegative, None);
                if km > KM_MAX {
                    let message = format!("`{}` is further away than the other side", row.name);
                    reader.refuse_row(row, "km", message, "the way is in kilometres");
                }
                let hops = reader.number_of_row(row, "hops", Bound::CountOrNone, None);
                let hop: Quantity<Time> =
                    reader.of_row(row, "delay-of-hop", Bound::NotNegative, None);
                let service: Quantity<Time> =
                    reader.of_row(row, "service", Bound::NotNegative, None);
                let (hop, service) = (hop.to("ms"), service.to("ms"));
                Place { name: row.name.clone(), km, hops, hop, service }
            })
            .collect();
        Self { radio, before: radio / (1.0 - less), km, budget, places }
    }

    /// The way there and back, without radio and service, in ms.
    fn way(&self, place: &Place) -> f64 {
        2.0 * (place.km * self.km + place.hops * place.hop)
    }

    fn trip(&self, place: &Place, radio: f64) -> f64 {
        radio + self.way(place) + place.service
    }
}

fn assumptions(inputs: &[Input]) -> Vec<String> {
    let mut all = vec!["Queues are empty.".to_owned()];
    if uses(inputs, ".km", "assumed") || uses(inputs, ".hops", "assumed") {
        all.push("The paper prints neither distances nor hops: its own are examples.".to_owned());
    }
    if uses(inputs, "radio", "003") && uses(inputs, "less-than-before", "003") {
        all.push(
            "`20 ms` for 4G is not printed either: it follows from 8 ms being 60 % less."
                .to_owned(),
        );
    }
    all
}

/// Runs the model.
pub(crate) fn latency(mut reader: Reader<'_>) -> Result<Outcome, PlanError> {
    let model = Latency::read(&mut reader);
    let is_paper = !reader.is_changed();
    let inputs = reader.finish()?;
    let mut figures = vec![Figure::new("radio before", model.before, "ms", 1, BEFORE)];
    for place in &model.places {
        let trip = model.trip(place, model.radio);
        figures.push(Figure::new(place.name.clone(), trip, "ms", 1, TRIP));
    }
    Ok(Outcome {
        model: "latency",
        title: "Round trips of mobile clients".to_owned(),
        summary: format!(
            "How long a request takes over the radio, to a service and back, by where the service is; \
             wanted are {} ms.",
            model.budget
        ),
        papers: vec![papers::P003],
        figures,
        tables: vec![table(&model)],
        is_changed: !is_paper,
        checks: if is_paper {
            vec![Check::printed("radio of 4G, ms", "20", model.before, "003 §1.2")]
        } else {
            Vec::new()
        },
        contradictions: Vec::new(),
        assumptions: assumptions(&inputs),
        formulas: formulas(&model),
        inputs,
        range: None,
        plots: vec![plot(&model)],
    })
}

fn table(model: &Latency) -> ResultTable {
    let columns = vec![
        ResultColumn::words("service"),
        ResultColumn::numbers("way", "ms", 2, TRIP),
        ResultColumn::numbers("in all", "ms", 1, TRIP),
        ResultColumn::numbers("before", "ms", 1, BEFORE),
        ResultColumn::words("enough"),
    ];
    let rows = model
        .places
        .iter()
        .map(|place| {
            let trip = model.trip(place, model.radio);
            vec![
                place.name.as_str().into(),
                model.way(place).into(),
                trip.into(),
                model.trip(place, model.before).into(),
                if trip <= model.budget { "yes" } else { "no" }.into(),
            ]
        })
        .collect();
    ResultTable { name: "latency", title: "By where the service is".to_owned(), columns, rows }
}

fn formulas(model: &Latency) -> Vec<Formula> {
    let first = model.places.first();
    vec![
        Formula {
            result: BEFORE,
            formula: "radio / (1 − less than before)",
            example: format!("{:.1} ms", model.before),
            inputs: &["radio", "less-than-before"],
            source: "003 §1.2",
        },
        Formula {
            result: TRIP,
            formula: "radio + 2 × (km × delay of km + hops × delay of hop) + service",
            example: first.map_or_else(String::new, |place| {
                format!("{}: {:.1} ms", place.name, model.trip(place, model.radio))
            }),
            inputs: &[
                "radio",
                "delay-of-km",
                "place.km",
                "place.hops",
                "place.delay-of-hop",
                "place.service",
            ],
            source: "003 §1.2",
        },
    ]
}

fn plot(model: &Latency) -> Plot {
    let names = model.places.iter().map(|place| place.name.clone());
    let trips = |radio: f64| model.places.iter().map(move |place| model.trip(place, radio));
    Plot::bars("Round trips", names, Axis::new("time").unit("ms"))
        .series(Series::values("now", trips(model.radio)))
        .series(Series::values("before", trips(model.before)))
        .limit("wanted", model.budget)
}

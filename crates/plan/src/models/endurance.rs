//! How often drives are written and how long they last, after papers 000 and 004.

use crate::mistake::PlanError;
use crate::outcome::{
    Agrees, Check, Contradiction, Figure, Formula, Outcome, ResultColumn, ResultTable,
};
use crate::papers;
use crate::quantity::{Data, Frequency, Quantity, Rate, Time};
use crate::reader::{Bound, Input, Reader, RowOf, uses};
use freshet_report::{Axis, Plot, Series, number};

/// The papers' case.
pub(crate) const INPUTS: &str = include_str!("../inputs/endurance.toml");

const RATING: &str = "rating";
const LIVE: &str = "live writes a day";
const DEMAND: &str = "on-demand writes a day";
const LIFE: &str = "life";

struct Endurance {
    wanted: Quantity<Time>,
    buffer: Quantity<Time>,
    live_share: f64,
    rate: Quantity<Rate>,
    average_to_peak: f64,
    byte_hit_ratio: f64,
    written_share: f64,
    amplification: f64,
    media: Vec<Medium>,
}

struct Medium {
    name: String,
    capacity: Quantity<Data>,
    drives: f64,
    /// What one drive stands in all.
    written: Quantity<Data>,
    warranty: Quantity<Time>,
}

impl Medium {
    fn rating(&self) -> Quantity<Frequency> {
        let rate: Quantity<Rate> = self.written / self.warranty;
        rate / self.capacity
    }

    /// How long it lasts at so many writes of the whole drive in a time; nothing when never written.
    fn life(&self, writes: Quantity<Frequency>) -> Option<Quantity<Time>> {
        let rate: Quantity<Rate> = writes * self.capacity;
        (rate > Quantity::ZERO).then(|| self.written / rate)
    }
}

impl Endurance {
    fn read(reader: &mut Reader<'_>) -> Self {
        let wanted = reader.quantity("wanted-life", Bound::Positive);
        let buffer = reader.quantity("buffer", Bound::Positive);
        let live_share = reader.number("live-share", Bound::Share);
        let rate = reader.quantity("rate", Bound::NotNegative);
        let average_to_peak = reader.number("average-to-peak", Bound::Share);
        let byte_hit_ratio = reader.number("byte-hit-ratio", Bound::Share);
        let written_share = reader.number("written-share", Bound::Share);
        let amplification = reader.number("write-amplification", Bound::AtLeastOne);
        let rows = reader.rows("medium");
        let media = rows.iter().map(|row| Self::medium(reader, row)).collect();
        Self {
            wanted,
            buffer,
            live_share,
            rate,
            average_to_peak,
            byte_hit_ratio,
            written_share,
            amplification,
            media,
        }
    }

    fn medium(reader: &mut Reader<'_>, row: &RowOf) -> Medium {
        let capacity: Quantity<Data> = reader.of_row(row, "capacity", Bound::Positive, None);
        let drives = reader.number_of_row(row, "drives", Bound::Count, Some("1"));
        let warranty: Quantity<Time> =
            reader.of_row(row, "warranty", Bound::Positive, Some("5 years"));
        let rating: Quantity<Frequency> =
            reader.of_row(row, "rating", Bound::NotNegative, Some("0 DWPD"));
        let written: Quantity<Data> =
            reader.of_row(row, "written", Bound::NotNegative, Some("0 PB"));
        let by_rating: Quantity<Rate> = rating * capacity;
        let written = if written > Quantity::ZERO { written } else { by_rating * warranty };
        if written <= Quantity::ZERO {
            let message = format!("`{}` has neither a rating nor an amount it stands", row.name);
            let help = "write `rating = \"3 DWPD\"` or `written = \"292 PB\"`";
            reader.refuse_row(row, "name", message, help);
        }
        Medium { name: row.name.clone(), capacity, drives, written, warranty }
    }

    /// How often live channels write the whole store.
    fn live(&self) -> Quantity<Frequency> {
        let whole = Quantity::ratio(self.live_share * self.amplification);
        whole / self.buffer
    }

    /// How often misses write the whole store.
    fn on_demand(&self, medium: &Medium) -> Quantity<Frequency> {
        let misses = self.rate * self.average_to_peak * (1.0 - self.byte_hit_ratio);
        let written = misses * self.written_share * self.amplification;
        written / (medium.capacity * medium.drives)
    }

    /// Years of a life, and whether they are enough. Never written lasts for ever.
    fn years(life: Option<Quantity<Time>>) -> f64 {
        life.map_or(f64::INFINITY, |life| life.to("years"))
    }
}

/// Runs the model.
pub(crate) fn endurance(mut reader: Reader<'_>) -> Result<Outcome, PlanError> {
    let model = Endurance::read(&mut reader);
    let is_paper = !reader.is_changed();
    let inputs = reader.finish()?;
    let mut figures =
        vec![Figure::new("live writes of a drive", per_day(model.live()), "times a day", 1, LIVE)];
    for one in &model.media {
        let live = Endurance::years(one.life(model.live()));
        let demand = Endurance::years(one.life(model.on_demand(one)));
        figures.push(Figure::new(format!("{}, live", one.name), live, "years", 2, LIFE));
        figures.push(Figure::new(format!("{}, on demand", one.name), demand, "years", 2, LIFE));
    }
    Ok(Outcome {
        model: "endurance",
        title: "Endurance of drives".to_owned(),
        summary: format!(
            "How often live channels with {} of buffer and misses of an on-demand service write \
             drives, and how long these last; wanted are {} years.",
            minutes(model.buffer),
            number::significant(model.wanted.to("years"), 3)
        ),
        papers: vec![papers::P000, papers::P004],
        figures,
        tables: vec![table(&model)],
        is_changed: !is_paper,
        checks: if is_paper { checks(&model) } else { Vec::new() },
        contradictions: if is_paper { contradictions(&model) } else { Vec::new() },
        assumptions: assumptions(&inputs),
        formulas: formulas(&model),
        inputs,
        range: None,
        plots: vec![plot(&model)],
    })
}

fn assumptions(inputs: &[Input]) -> Vec<String> {
    let mut all = Vec::new();
    if uses(inputs, "QLC.rating", "assumed") {
        all.push(
            "No paper gives the endurance of the QLC drive. 0.41 DWPD is for random writes of 64 KiB; \
             the data sheet of your drive has its own, often several times as much for sequential \
             ones."
                .to_owned(),
        );
    }
    all.push(
        "The byte hit ratio is the same on each medium, though a smaller one would miss more: \
         `freshet plan fit` takes a measured curve."
            .to_owned(),
    );
    all
}

fn per_day(writes: Quantity<Frequency>) -> f64 {
    writes.to("DWPD")
}

fn minutes(time: Quantity<Time>) -> String {
    format!("{} min", number::significant(time.to("min"), 4))
}

fn table(model: &Endurance) -> ResultTable {
    let columns = vec![
        ResultColumn::words("medium"),
        ResultColumn::numbers("rated", "DWPD", 2, RATING),
        ResultColumn::numbers("live", "DWPD", 1, LIVE),
        ResultColumn::numbers("live", "years", 2, LIFE),
        ResultColumn::words("enough"),
        ResultColumn::numbers("on demand", "DWPD", 2, DEMAND),
        ResultColumn::numbers("on demand", "years", 1, LIFE),
        ResultColumn::words("enough"),
    ];
    let enough = |life: f64| if life >= model.wanted.to("years") { "yes" } else { "no" };
    let rows = model
        .media
        .iter()
        .map(|one| {
            let (live, demand) = (model.live(), model.on_demand(one));
            let live_years = Endurance::years(one.life(live));
            let demand_years = Endurance::years(one.life(demand));
            vec![
                one.name.as_str().into(),
                per_day(one.rating()).into(),
                per_day(live).into(),
                live_years.into(),
                enough(live_years).into(),
                per_day(demand).into(),
                demand_years.into(),
                enough(demand_years).into(),
            ]
        })
        .collect();
    ResultTable { name: "endurance", title: "Writes and life".to_owned(), columns, rows }
}

fn checks(model: &Endurance) -> Vec<Check> {
    let live = per_day(model.live());
    let worn = |name: &str| {
        let found = model.media.iter().find(|one| one.name == name);
        found.map_or(f64::NAN, |one| Endurance::years(one.life(model.live())))
    };
    let words = |is: bool| if is { Agrees::WithinItsWords } else { Agrees::No };
    let years = model.wanted.to("years");
    let (flash, pmem) = (worn("NAND, 5 DWPD"), worn("PMem, 64 B writes"));
    vec![
        Check {
            what: "live buffers overwritten in a day".to_owned(),
            paper: "tens to hundreds".to_owned(),
            model: format!("{live:.0}"),
            agrees: words((10.0..1000.0).contains(&live)),
            source: "000 §2",
        },
        Check {
            what: "NAND of 3 to 5 DWPD for live buffers".to_owned(),
            paper: "insufficient".to_owned(),
            model: format!("worn out in {:.0} days", flash * 365.0),
            agrees: words(flash < years),
            source: "000 §2",
        },
        Check {
            what: "PMem for live buffers".to_owned(),
            paper: "not compromising reliability".to_owned(),
            model: format!("lasts {pmem:.1} years or more"),
            agrees: words(pmem >= years),
            source: "000 §2.2.2, Table 2",
        },
    ]
}

/// 004's two measured points: size of an object in MB, requests a second a watt, watts.
const MEASURED: [(f64, f64, f64); 2] = [(1.0, 46.9, 473.9), (50.0, 1.09, 426.5)];
/// 004: goodput of larger objects, Gbit/s; connections; mean time to the last byte at 50 MB.
const GOODPUT: f64 = 158.8;
const CONNECTIONS: f64 = 100.0;
const LAST_BYTE_MS: f64 = 995.2;

fn contradictions(model: &Endurance) -> Vec<Contradiction> {
    let rate = |(megabytes, per_watt, watts): (f64, f64, f64)| {
        let data = Quantity::<Data>::of(megabytes, "MB") * (per_watt * watts);
        (data / Quantity::<Time>::of(1.0, "s")).to("Gbit/s")
    };
    let [small, large] = MEASURED;
    let requests = large.1 * large.2;
    let by_time = CONNECTIONS / Quantity::<Time>::of(LAST_BYTE_MS, "ms").to("s");
    let qlc = model.media.iter().find(|one| one.name == "QLC");
    let tested = qlc.map_or(0.0, |one| (one.capacity * one.drives).to("TB"));
    let most = qlc.map_or(0.0, |one| (one.capacity * 10.0).to("TB"));
    vec![
        Contradiction {
            source: "004 performance, power",
            says: format!("100 connections, {LAST_BYTE_MS} ms to the last byte of 50 MB"),
            but: format!(
                "100 connections then finish {by_time:.0} requests a second; 1.09 requests a second a \
                 watt at 426.5 W are {requests:.0}"
            ),
            why: format!(
                "about {:.1} times as many requests were under way: 100 connections for each thread \
                 of the load generator, or as many clients",
                requests / by_time
            ),
        },
        Contradiction {
            source: "004 performance, power",
            says: format!("larger objects average {GOODPUT}+ Gbps of goodput"),
            but: format!(
                "its requests a second a watt give {:.1} Gbit/s at 1 MB and {:.1} at 50 MB",
                rate(small),
                rate(large)
            ),
            why: "both ends of the range are above the average of the range: sizes between them must \
                  have been far slower, or throughput and goodput were mixed"
                .to_owned(),
        },
        Contradiction {
            source: "004 balancing performance and cost",
            says: "ten bays of the server \"used here\" hold over 600TB".to_owned(),
            but: format!(
                "the eight drives used here hold {tested:.0} TB, ten of them {most:.0} TB"
            ),
            why: "600 TB needs ten of the 61.44TB drives the same section looks forward to".to_owned(),
        },
    ]
}

fn plot(model: &Endurance) -> Plot {
    let names = model.media.iter().map(|one| one.name.clone());
    let live = model.media.iter().map(|one| Endurance::years(one.life(model.live())));
    let demand = model.media.iter().map(|one| Endurance::years(one.life(model.on_demand(one))));
    Plot::bars("Life of a drive", names, Axis::new("life").unit("years").log())
        .series(Series::values("live", live))
        .series(Series::values("on demand", demand))
        .limit("wanted", model.wanted.to("years"))
}

fn formulas(model: &Endurance) -> Vec<Formula> {
    let first = model.media.first();
    let of = |example: &dyn Fn(&Medium) -> String| first.map_or_else(String::new, example);
    vec![
        Formula {
            result: RATING,
            formula: "as stated, or written / warranty / capacity",
            example: of(&|one| format!("{}: {:.2} DWPD", one.name, per_day(one.rating()))),
            inputs: &["medium.rating", "medium.written", "medium.warranty", "medium.capacity"],
            source: "000 §2, Table 2",
        },
        Formula {
            result: LIVE,
            formula: "live share × write amplification / buffer",
            example: format!(
                "1 / {} = {:.1} times a day",
                minutes(model.buffer),
                per_day(model.live())
            ),
            inputs: &["live-share", "write-amplification", "buffer"],
            source: "000 §2: buffers overwritten tens to hundreds of times a day",
        },
        Formula {
            result: DEMAND,
            formula: "rate × average-to-peak × (1 − byte hit ratio) × written share × write \
                      amplification / (drives × capacity)",
            example: of(&|one| {
                format!(
                    "{}: {:.1} Gbit/s × {:.0} % × {:.1} % / {:.1} TB = {:.2} times a day",
                    one.name,
                    model.rate.to("Gbit/s"),
                    model.average_to_peak * 100.0,
                    (1.0 - model.byte_hit_ratio) * 100.0,
                    (one.capacity * one.drives).to("TB"),
                    per_day(model.on_demand(one)),
                )
            }),
            inputs: &[
                "rate",
                "average-to-peak",
                "byte-hit-ratio",
                "written-share",
                "write-amplification",
                "medium.drives",
                "medium.capacity",
            ],
            source: "004: 90 % up to 95 % hits; 000 §2.8",
        },
        Formula {
            result: LIFE,
            formula: "written / (writes a day × capacity), written being rating × warranty × capacity \
                      where it is not given",
            example: of(&|one| {
                format!("{}, live: {:.2} years", one.name, Endurance::years(one.life(model.live())))
            }),
            inputs: &["medium.written", "medium.rating", "medium.warranty", "medium.capacity"],
            source: "000 Table 2",
        },
    ]
}

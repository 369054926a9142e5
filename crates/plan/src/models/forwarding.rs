//! Packets a router forwards on cores of a frequency, after paper 003.

use crate::mistake::PlanError;
use crate::outcome::{
    Agrees, Check, Contradiction, Figure, Formula, Outcome, ResultColumn, ResultTable,
};
use crate::papers;
use crate::quantity::{Data, Frequency, Quantity};
use crate::reader::{Bound, Reader};
use freshet_report::{Axis, Plot, Series};

/// The paper's case.
pub(crate) const INPUTS: &str = include_str!("../inputs/forwarding.toml");

const MEAN: &str = "mean packet";
const RATE: &str = "rate at a frequency";
const CORE: &str = "rate of a core";
const BITS: &str = "rate in bits";

/// How much more than its frequency a measured rate may grow: both are rounded where they are written.
const ROUNDED: f64 = 0.002;

struct Forwarding {
    /// Frequency and packets a second, before and after.
    points: [(f64, f64); 2],
    cores: f64,
    framing_bits: f64,
    flat: f64,
    frequencies: Vec<(String, f64)>,
    /// Name, bits and share.
    packets: Vec<(String, f64, f64)>,
}

impl Forwarding {
    fn read(reader: &mut Reader<'_>) -> Self {
        let hertz = |reader: &mut Reader<'_>, key| {
            let value: Quantity<Frequency> = reader.quantity(key, Bound::Positive);
            value.to("Hz")
        };
        let points = [
            (hertz(reader, "frequency-before"), hertz(reader, "rate-before")),
            (hertz(reader, "frequency-after"), hertz(reader, "rate-after")),
        ];
        let cores = reader.number("cores", Bound::Count);
        let framing: Quantity<Data> = reader.quantity("framing", Bound::NotNegative);
        let flat = hertz(reader, "rate-flat");
        refuse_points(reader, points);
        let rows = reader.rows("frequency");
        let frequencies = rows
            .iter()
            .map(|row| {
                let value: Quantity<Frequency> = reader.of_row(row, "value", Bound::Positive, None);
                (row.name.clone(), value.to("Hz"))
            })
            .collect();
        let rows = reader.rows("packet");
        let packets: Vec<_> = rows
            .iter()
            .map(|row| {
                let size: Quantity<Data> = reader.of_row(row, "size", Bound::Positive, None);
                let share = reader.number_of_row(row, "share", Bound::Share, None);
                (row.name.clone(), size.to("bit"), share)
            })
            .collect();
        reader.expect_whole(&rows, "share", packets.iter().map(|(_, _, share)| *share));
        Self { points, cores, framing_bits: framing.to("bit"), flat, frequencies, packets }
    }

    /// Bits of a packet on average.
    fn mean(&self) -> f64 {
        let shares: f64 = self.packets.iter().map(|(_, _, share)| share).sum();
        self.packets.iter().map(|(_, bits, share)| bits * share).sum::<f64>() / shares
    }

    /// Packets a second at a frequency: what does not wait for the cores takes its time anyway.
    fn rate(&self, hertz: f64) -> f64 {
        let [(low, before), (high, after)] = self.points;
        let cycles = (1.0 / before - 1.0 / after) / (1.0 / low - 1.0 / high);
        let fixed = (1.0 / before - cycles / low).max(0.0);
        1.0 / (fixed + cycles / hertz)
    }

    fn gain(&self, hertz: f64) -> f64 {
        self.rate(hertz) / self.points[0].1 - 1.0
    }
}

/// Two points that no processor has are refused: the model would go on to times below nothing.
fn refuse_points(reader: &mut Reader<'_>, points: [(f64, f64); 2]) {
    let [(low, before), (high, after)] = points;
    if points.iter().any(|(hertz, rate)| *hertz <= 0.0 || *rate <= 0.0) {
        // It was said.
        return;
    }
    if low >= high {
        let message = "the frequency after is not above the one before".to_owned();
        reader.refuse("frequency-after", message, "give the lower frequency as the one before");
        return;
    }
    let (more, cycles) = (after / before, high / low);
    if more < 1.0 {
        let message = format!("the rate falls by {} at the higher frequency", percent(1.0 - more));
        let help = "give the rate at the higher frequency as the one after: a packet costs a number of cycles";
        reader.refuse("rate-after", message, help);
    } else if more > cycles + ROUNDED {
        let message = format!(
            "the rate grows by {} and the frequency by {}",
            percent(more - 1.0),
            percent(cycles - 1.0)
        );
        let help = "correct one of the two points: cores that are faster by so much forward no more than that";
        reader.refuse("rate-after", message, help);
    }
}

/// A share in words.
fn percent(share: f64) -> String {
    format!("{} %", (share * 1000.0).round() / 10.0)
}

/// Runs the model.
pub(crate) fn forwarding(mut reader: Reader<'_>) -> Result<Outcome, PlanError> {
    let model = Forwarding::read(&mut reader);
    let is_paper = !reader.is_changed();
    let inputs = reader.finish()?;
    let core = model.flat / model.cores;
    let mut figures = vec![
        Figure::new("mean packet", model.mean() / 8.0, "B", 1, MEAN),
        Figure::new("rate of a core", core / 1e6, "Mpps", 3, CORE),
        Figure::new("cycles for a packet", model.points[1].0 / core, "cycles", 0, CORE),
        Figure::new("rate, mean packets", model.flat * model.mean() / 1e9, "Gbit/s", 1, BITS),
    ];
    for (name, hertz) in &model.frequencies {
        figures.push(Figure::new(
            format!("more at {name}"),
            model.gain(*hertz) * 100.0,
            "%",
            0,
            RATE,
        ));
    }
    Ok(Outcome {
        model: "forwarding",
        title: "Packets forwarded".to_owned(),
        summary: format!(
            "What {} cores forward at other frequencies, from two measured points, and what that is in \
             bits for each size of packet.",
            model.cores
        ),
        papers: vec![papers::P003],
        figures,
        tables: vec![frequencies(&model), sizes(&model)],
        is_changed: !is_paper,
        checks: if is_paper { checks(&model) } else { Vec::new() },
        contradictions: if is_paper { contradictions(&model) } else { Vec::new() },
        assumptions: vec![
            "A packet costs a fixed time and a number of cycles: two points give both. What else limits \
             (memory, the card) shows as less than the model at higher frequencies."
                .to_owned(),
        ],
        formulas: formulas(&model),
        inputs,
        range: None,
        plots: vec![plot(&model)],
    })
}

fn frequencies(model: &Forwarding) -> ResultTable {
    let columns = vec![
        ResultColumn::words("frequency"),
        ResultColumn::numbers("rate", "Mpps", 2, RATE),
        ResultColumn::numbers("more", "%", 0, RATE),
    ];
    let [before, after] = model.points.map(|(hertz, _)| (format!("{} GHz", hertz / 1e9), hertz));
    let all = [before, after].into_iter().chain(model.frequencies.iter().cloned());
    let rows = all
        .map(|(name, hertz)| {
            vec![name.into(), (model.rate(hertz) / 1e6).into(), (model.gain(hertz) * 100.0).into()]
        })
        .collect();
    ResultTable { name: "frequencies", title: "Rate by frequency".to_owned(), columns, rows }
}

fn sizes(model: &Forwarding) -> ResultTable {
    let columns = vec![
        ResultColumn::words("packets"),
        ResultColumn::numbers("of packets", "Gbit/s", 1, BITS),
        ResultColumn::numbers("on the line", "Gbit/s", 1, BITS),
    ];
    let mix = ("mix".to_owned(), model.mean(), 1.0);
    let rows = model
        .packets
        .iter()
        .chain([&mix])
        .map(|(name, bits, _)| {
            vec![
                name.as_str().into(),
                (model.flat * bits / 1e9).into(),
                (model.flat * (bits + model.framing_bits) / 1e9).into(),
            ]
        })
        .collect();
    ResultTable { name: "sizes", title: "The flat rate in bits".to_owned(), columns, rows }
}

fn checks(model: &Forwarding) -> Vec<Check> {
    let [_, (high, _)] = model.points;
    let at = |name: &str| {
        let found = model.frequencies.iter().find(|(one, _)| one == name);
        found.map_or(f64::NAN, |(_, hertz)| model.gain(*hertz) * 100.0)
    };
    let no = |what: &str, paper: &str, value: f64| Check {
        what: what.to_owned(),
        paper: paper.to_owned(),
        model: format!("{value:.0}"),
        agrees: Agrees::No,
        source: "003 §3.1, Figure 6",
    };
    // 3.47 / 2.92 is 1.1884: the paper divides less rounded figures.
    let gain = model.gain(high) * 100.0;
    vec![
        Check {
            what: "more at 2.8 GHz, %".to_owned(),
            paper: "18.65".to_owned(),
            model: format!("{gain:.2}"),
            agrees: if (gain - 18.65).abs() < 0.4 { Agrees::WithinItsWords } else { Agrees::No },
            source: "003 §3.1",
        },
        no("more at 3.3 GHz, %", "28", at("3.3 GHz")),
        no("more at 3.6 GHz, %", "28", at("3.6 GHz")),
    ]
}

fn contradictions(model: &Forwarding) -> Vec<Contradiction> {
    let mean = model.mean();
    let as_bits = |gigabits: f64| gigabits * 1e9 / mean / 1e6;
    let large = 1500.0 * 8.0;
    vec![
        Contradiction {
            source: "003 §3.1, Figures 6 and 7",
            says: "the throughput rises from 2.92 to 3.47 Gbps; about 3.4 Mpps at every size"
                .to_owned(),
            but: format!(
                "with this mix 2.92 and 3.47 Gbit/s are {:.2} and {:.2} Mpps, a sixth of Figure 7",
                as_bits(2.92),
                as_bits(3.47)
            ),
            why: "the unit must be Mpps: then both figures agree".to_owned(),
        },
        Contradiction {
            source: "003 §3.1 and the caption of Figure 6",
            says: "28 % more at 3.6 GHz; the caption of the same figure has 3.3 GHz".to_owned(),
            but: format!(
                "by the first step it would be {:.0} % at 3.3 and {:.0} % at 3.6 GHz",
                model.gain(3.3e9) * 100.0,
                model.gain(3.6e9) * 100.0
            ),
            why: "something else than the cores limits there, or turbo did not hold".to_owned(),
        },
        Contradiction {
            source: "003 §2.2.1, Figure 8",
            says: "one port of 40G".to_owned(),
            but: format!(
                "3.4 Mpps of 1500 B are {:.1} Gbit/s, {:.1} on the line: more than the port has",
                model.flat * large / 1e9,
                model.flat * (large + model.framing_bits) / 1e9
            ),
            why: "both directions are summed".to_owned(),
        },
    ]
}

fn formulas(model: &Forwarding) -> Vec<Formula> {
    let [(low, before), (high, after)] = model.points;
    vec![
        Formula {
            result: MEAN,
            formula: "sum of size × share",
            example: format!("{:.1} B", model.mean() / 8.0),
            inputs: &["packet.size", "packet.share"],
            source: "003 §2.2.1",
        },
        Formula {
            result: RATE,
            formula: "1 / (fixed time + cycles / frequency), both from the two measured points",
            example: format!(
                "{:.2} Mpps at {} GHz and {:.2} at {} GHz",
                before / 1e6,
                low / 1e9,
                after / 1e6,
                high / 1e9
            ),
            inputs: &[
                "rate-before",
                "frequency-before",
                "rate-after",
                "frequency-after",
                "frequency.value",
            ],
            source: "003 §3.1",
        },
        Formula {
            result: CORE,
            formula: "flat rate / cores; cycles are the frequency after by it",
            example: format!("{:.2} Mpps / {}", model.flat / 1e6, model.cores),
            inputs: &["rate-flat", "cores", "frequency-after"],
            source: "003 Figure 7",
        },
        Formula {
            result: BITS,
            formula: "flat rate × size; on the line with its framing",
            example: format!("{:.2} Mpps × {:.1} B", model.flat / 1e6, model.mean() / 8.0),
            inputs: &["rate-flat", "packet.size", "framing"],
            source: "003 §3.1",
        },
    ]
}

fn plot(model: &Forwarding) -> Plot {
    let names = model.packets.iter().map(|(name, ..)| name.clone());
    let rates = model.packets.iter().map(|(_, bits, _)| model.flat * bits / 1e9);
    Plot::bars("The flat rate in bits", names, Axis::new("rate").unit("Gbit/s"))
        .series(Series::values("packets", rates))
}

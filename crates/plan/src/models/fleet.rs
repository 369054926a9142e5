//! Nodes of a delivery network by site and tier, after paper 001.

use super::curve::Curve;
use crate::mistake::PlanError;
use crate::outcome::{
    Agrees, Check, Contradiction, Figure, Formula, Outcome, ResultColumn, ResultTable,
};
use crate::papers;
use crate::quantity::{Data, Quantity, Rate};
use crate::reader::{Bound, Reader};
use freshet_report::{Axis, Plot, Series, number};

/// The paper's case.
pub(crate) const INPUTS: &str = include_str!("../inputs/fleet.toml");

const DEMAND: &str = "demand of a site";
const NODES: &str = "nodes of a site";
const HITS: &str = "byte hit ratio";
const ONWARD: &str = "to the next tier";

struct Fleet {
    viewers: f64,
    use_at_most: f64,
    spare: f64,
    wanted: f64,
    streams: Vec<(f64, Quantity<Rate>)>,
    tiers: Vec<Tier>,
    curve: Curve,
}

struct Tier {
    name: String,
    sites: f64,
    rate: Quantity<Rate>,
    capacity: Quantity<Data>,
}

/// What a tier comes to.
struct Sized {
    demand: Quantity<Rate>,
    by_rate: f64,
    by_capacity: f64,
    nodes: f64,
    hit_ratio: f64,
    onward: Quantity<Rate>,
}

impl Sized {
    fn binds(&self) -> &'static str {
        if self.by_capacity > self.by_rate { "capacity" } else { "rate" }
    }
}

impl Fleet {
    fn read(reader: &mut Reader<'_>) -> Self {
        let viewers = reader.number("viewers", Bound::NotNegative);
        let use_at_most = reader.number("use-at-most", Bound::Share);
        if use_at_most == 0.0 {
            let message = "nodes that are not used need infinitely many".to_owned();
            reader.refuse("use-at-most", message, "write more than 0 %");
        }
        let spare = reader.number("spare-nodes", Bound::CountOrNone);
        let wanted = reader.number("hit-ratio-wanted", Bound::Share);
        let streams = Self::read_streams(reader);
        let tiers = Self::read_tiers(reader);
        let curve = Self::read_curve(reader);
        if !reader.is_mistaken() && curve.capacity_for(wanted).is_none() {
            let best = curve.at(curve.end()) * 100.0;
            let message =
                format!("the curve ends at {best:.1} % and does not reach what is wanted");
            reader.refuse("hit-ratio-wanted", message, "want less, or give a `[[point]]` beyond");
        }
        Self { viewers, use_at_most, spare, wanted, streams, tiers, curve }
    }

    fn read_streams(reader: &mut Reader<'_>) -> Vec<(f64, Quantity<Rate>)> {
        let rows = reader.rows("stream");
        let streams: Vec<_> = rows
            .iter()
            .map(|row| {
                let share = reader.number_of_row(row, "share", Bound::Share, None);
                (share, reader.of_row(row, "rate", Bound::Positive, None))
            })
            .collect();
        reader.expect_whole(&rows, "share", streams.iter().map(|(share, _)| *share));
        streams
    }

    fn read_tiers(reader: &mut Reader<'_>) -> Vec<Tier> {
        let rows = reader.rows("tier");
        rows.iter()
            .map(|row| Tier {
                name: row.name.clone(),
                sites: reader.number_of_row(row, "sites", Bound::Count, None),
                rate: reader.of_row(row, "node-rate", Bound::Positive, None),
                capacity: reader.of_row(row, "node-capacity", Bound::Positive, None),
            })
            .collect()
    }

    fn read_curve(reader: &mut Reader<'_>) -> Curve {
        let rows = reader.rows("point");
        let points = rows
            .iter()
            .map(|row| {
                let capacity = reader.of_row(row, "capacity", Bound::Positive, None);
                (capacity, reader.number_of_row(row, "byte-hit-ratio", Bound::Share, None))
            })
            .collect();
        Curve::new(points).unwrap_or_else(|index| {
            if let Some(row) = rows.get(index) {
                let message =
                    "capacities must rise from point to point, and hit ratios must not fall";
                reader.refuse_row(row, "capacity", message.to_owned(), "put the points in order");
            }
            Curve::new(Vec::new()).expect("no points are in order")
        })
    }

    /// All that viewers want at once.
    fn demand(&self) -> Quantity<Rate> {
        self.streams.iter().map(|(share, rate)| *rate * *share).sum::<Quantity<Rate>>()
            * self.viewers
    }

    /// The tiers in order, each with what the one before it lets through.
    fn sized(&self) -> Vec<Sized> {
        let all = self.demand();
        let mut arriving = all;
        // What is kept nearer to the viewers is kept by a larger cache behind it as well: a tier
        // lets through what its capacity alone would, never more than arrives.
        let mut best = 0.0f64;
        self.tiers
            .iter()
            .map(|tier| {
                let demand = arriving / tier.sites;
                let by_rate = (demand / (tier.rate * self.use_at_most) - 1e-9).ceil().max(1.0);
                let needed = self.curve.capacity_for(self.wanted).unwrap_or(Quantity::ZERO);
                let by_capacity = (needed / tier.capacity - 1e-9).ceil().max(0.0);
                let carrying = by_rate.max(by_capacity);
                let hit_ratio = self.curve.at(tier.capacity * carrying);
                best = best.max(hit_ratio);
                arriving = all * (1.0 - best);
                Sized {
                    demand,
                    by_rate,
                    by_capacity,
                    nodes: carrying + self.spare,
                    hit_ratio,
                    onward: arriving,
                }
            })
            .collect()
    }
}

/// Runs the model.
pub(crate) fn fleet(mut reader: Reader<'_>) -> Result<Outcome, PlanError> {
    let model = Fleet::read(&mut reader);
    let is_paper = !reader.is_changed();
    let inputs = reader.finish()?;
    let sized = model.sized();
    let mut figures = Vec::new();
    for (tier, one) in model.tiers.iter().zip(&sized) {
        let name = format!("{}, nodes of a site", tier.name);
        figures.push(Figure::new(name, one.nodes, "", 0, NODES));
        let name = format!("{}, nodes in all", tier.name);
        figures.push(Figure::new(name, one.nodes * tier.sites, "", 0, NODES));
    }
    figures.push(Figure::new("viewers' demand", model.demand().to("Gbit/s"), "Gbit/s", 0, DEMAND));
    if let Some(last) = sized.last() {
        figures.push(Figure::new("to the origin", last.onward.to("Gbit/s"), "Gbit/s", 0, ONWARD));
    }
    Ok(Outcome {
        model: "fleet",
        title: "Nodes of a delivery network".to_owned(),
        summary: format!(
            "Nodes of each site and tier for {} viewers at once, with {} spare in each site.",
            number::fixed(model.viewers, 0),
            number::significant(model.spare, 3)
        ),
        papers: vec![papers::P001, papers::P000, papers::P004],
        figures,
        tables: vec![table(&model, &sized), curve(&model)],
        is_changed: !is_paper,
        checks: if is_paper { checks() } else { Vec::new() },
        contradictions: if is_paper { contradictions() } else { Vec::new() },
        assumptions: assumptions(&model, &sized),
        formulas: formulas(&model, &sized),
        inputs,
        range: None,
        plots: plots(&model),
    })
}

fn table(model: &Fleet, sized: &[Sized]) -> ResultTable {
    let columns = vec![
        ResultColumn::words("tier"),
        ResultColumn::numbers("sites", "", 0, NODES),
        ResultColumn::numbers("demand of a site", "Gbit/s", 1, DEMAND),
        ResultColumn::numbers("by rate", "", 0, NODES),
        ResultColumn::numbers("by capacity", "", 0, NODES),
        ResultColumn::numbers("nodes with spare", "", 0, NODES),
        ResultColumn::words("binds"),
        ResultColumn::numbers("byte hit ratio", "%", 1, HITS),
        ResultColumn::numbers("onward", "Gbit/s", 0, ONWARD),
    ];
    let rows = model
        .tiers
        .iter()
        .zip(sized)
        .map(|(tier, one)| {
            vec![
                tier.name.as_str().into(),
                tier.sites.into(),
                one.demand.to("Gbit/s").into(),
                one.by_rate.into(),
                one.by_capacity.into(),
                one.nodes.into(),
                one.binds().into(),
                (one.hit_ratio * 100.0).into(),
                one.onward.to("Gbit/s").into(),
            ]
        })
        .collect();
    ResultTable { name: "tiers", title: "Tiers, from the viewers on".to_owned(), columns, rows }
}

fn curve(model: &Fleet) -> ResultTable {
    let columns = vec![
        ResultColumn::numbers("capacity of a site", "TB", 2, ""),
        ResultColumn::numbers("byte hit ratio", "%", 1, HITS),
    ];
    let points = model.curve.points().iter();
    let rows =
        points.map(|(size, ratio)| vec![size.to("TB").into(), (ratio * 100.0).into()]).collect();
    ResultTable { name: "curve", title: "Hit ratios".to_owned(), columns, rows }
}

/// 001: bit rates of 1080p and 2160p, and the growth it names.
const HD_4K_MBIT: (f64, f64) = (6.77, 26.82);
/// 001: viewers and mean rate behind 25,000 Tbps.
const AKAMAI: (f64, f64, f64) = (2.5e9, 10.0, 25_000.0);
/// 001: Gbit/s of the single processor server on demand, at 256 and 512 connections.
const SINGLE_ON_DEMAND: (f64, f64) = (315.4, 340.18);
/// 001 Appendix B: live objects of 1 MB, and the hit ratio they were chosen for.
const LIVE_SET: (f64, f64) = (140_400.0, 0.933);

fn checks() -> Vec<Check> {
    let words = |is: bool| if is { Agrees::WithinItsWords } else { Agrees::No };
    let (hd, uhd) = HD_4K_MBIT;
    let growth = uhd / hd;
    let (viewers, rate, printed) = AKAMAI;
    let total = (Quantity::<Rate>::of(rate, "Mbit/s") * viewers).to("Tbit/s");
    let kept = Quantity::<Data>::of(LIVE_SET.0 * LIVE_SET.1, "MB");
    vec![
        Check {
            what: "4K needs this many times the rate of HD".to_owned(),
            paper: "near 4".to_owned(),
            model: format!("{growth:.2}"),
            agrees: words((3.5..4.5).contains(&growth)),
            source: "001 page 1",
        },
        Check {
            what: "2.5 billion viewers at 10 Mbit/s, Tbit/s".to_owned(),
            paper: number::fixed(printed, 0),
            model: number::fixed(total, 0),
            agrees: words((total - printed).abs() < 0.5),
            source: "001 page 1",
        },
        Check {
            what: "live set kept at 93.3 %, \"128gb\", GB".to_owned(),
            paper: "128".to_owned(),
            model: format!("{:.1}", kept.to("GB")),
            agrees: words((128.0..138.0).contains(&kept.to("GB"))),
            source: "001 Appendix B",
        },
    ]
}

fn contradictions() -> Vec<Contradiction> {
    let (at_256, at_512) = SINGLE_ON_DEMAND;
    vec![Contradiction {
        source: "001 Figure 5, text",
        says: "on demand \"the highest performance came with 256 connections\" (Figure 5)"
            .to_owned(),
        but: format!(
            "the text has {at_256} Gbit/s at 256 connections and {at_512} at 512 for the single \
             processor, {:.0} % more",
            (at_512 / at_256 - 1.0) * 100.0
        ),
        why: "the caption is that of Figure 4, where it holds".to_owned(),
    }]
}

fn assumptions(model: &Fleet, sized: &[Sized]) -> Vec<String> {
    let mut all = vec![
        "Nodes of a site share what they keep, each object on one of them: capacities add up. \
         Viewers spread evenly over sites; for the largest site give its share as viewers and one \
         site."
            .to_owned(),
        "A tier behind another lets through what its own capacity would: what viewers' sites keep is \
         the same content. Where sites' audiences differ, a parent misses more."
            .to_owned(),
        "A node delivers what it was measured to with hits; the tests of 001 asked for 93.3 % and \
         100 %."
            .to_owned(),
    ];
    for (tier, one) in model.tiers.iter().zip(sized) {
        let capacity = tier.capacity * (one.nodes - model.spare);
        if capacity > model.curve.end() {
            all.push(format!(
                "Tier {} has {:.1} TB in a site, more than the last point of the curve ({:.1} TB): \
                 taken as if it were the last.",
                tier.name,
                capacity.to("TB"),
                model.curve.end().to("TB")
            ));
        }
    }
    all
}

fn plots(model: &Fleet) -> Vec<Plot> {
    let points = model.curve.points().iter();
    let curve = points.map(|(size, ratio)| (size.to("TB"), ratio * 100.0)).collect();
    let x = Axis::new("capacity of a site").unit("TB").log();
    vec![
        Plot::lines("Hit ratio over capacity", x, Axis::new("byte hit ratio").unit("%"))
            .series(Series::new("curve", curve))
            .limit("wanted", model.wanted * 100.0),
    ]
}

fn formulas(model: &Fleet, sized: &[Sized]) -> Vec<Formula> {
    let first = model.tiers.first().zip(sized.first());
    let of = |example: &dyn Fn(&Tier, &Sized) -> String| {
        first.map_or_else(String::new, |(tier, one)| example(tier, one))
    };
    vec![
        Formula {
            result: DEMAND,
            formula: "viewers × Σ(share × bit rate) / sites; for later tiers what the one before \
                      misses / sites",
            example: of(&|tier, one| {
                format!(
                    "{}: {} × {:.2} Mbit/s / {:.0} = {:.1} Gbit/s",
                    tier.name,
                    number::fixed(model.viewers, 0),
                    (model.demand() / model.viewers.max(1.0)).to("Mbit/s"),
                    tier.sites,
                    one.demand.to("Gbit/s"),
                )
            }),
            inputs: &["viewers", "stream.share", "stream.rate", "tier.sites"],
            source: "001 page 1: bit rates; its growth model is viewers × mean rate",
        },
        Formula {
            result: NODES,
            formula: "the larger of demand / (node rate × use at most) and capacity wanted / node \
                      capacity, each rounded up, + spare nodes",
            example: of(&|tier, one| {
                format!(
                    "{}: max({:.0}, {:.0}) + {:.0} = {:.0}",
                    tier.name, one.by_rate, one.by_capacity, model.spare, one.nodes
                )
            }),
            inputs: &[
                "tier.node-rate",
                "use-at-most",
                "hit-ratio-wanted",
                "tier.node-capacity",
                "spare-nodes",
            ],
            source: "001 Figures 4 and 5: rates",
        },
        Formula {
            result: HITS,
            formula: "the curve at the capacity of the nodes that carry the load",
            example: of(&|tier, one| format!("{}: {:.1} %", tier.name, one.hit_ratio * 100.0)),
            inputs: &["point.capacity", "point.byte-hit-ratio", "tier.node-capacity"],
            source: "000 §2.1.4, 001, 004: ratios; straight lines between points",
        },
        Formula {
            result: ONWARD,
            formula: "viewers' demand × (1 − the best byte hit ratio so far)",
            example: of(&|tier, one| {
                format!("{}: {:.0} Gbit/s", tier.name, one.onward.to("Gbit/s"))
            }),
            inputs: &["point.byte-hit-ratio"],
            source: "001 Figure 1: tiers",
        },
    ]
}

//! What the energy of a site costs over its life.

use super::{Sites, energy::saved, keep};
use crate::mistake::PlanError;
use crate::outcome::{
    Agrees, Check, Contradiction, Figure, Formula, Outcome, ResultColumn, ResultTable,
};
use crate::papers;
use crate::quantity::{Energy, EnergyPrice, Money, Quantity};
use crate::reader::{Input, Reader, uses};
use freshet_report::{Axis, Plot, Series, number};

const COST: &str = "energy cost over the years";
const SAVED: &str = "energy cost saved over the years";

/// Runs the model.
pub(crate) fn cost(mut reader: Reader<'_>) -> Result<Outcome, PlanError> {
    let sites = Sites::read(&mut reader);
    let keys = ["sites", "headline-site", "years", "pue", "price", "load", "server", "replacement"];
    let inputs = keep(reader.finish()?, &keys);
    let unit = sites.currency;
    let years = number::significant(sites.year_count(), 3);
    let of = |server: &super::Server, site| {
        money(&sites, sites.annual(sites.power(server, site, None).power)).to(unit)
    };
    let title = format!("Energy cost over {years} years");
    let grid = sites.grid("cost", &title, unit, 0, COST, of);
    let (headline, rate) = &sites.headline;
    let figures = sites
        .listed()
        .map(|one| {
            Figure::new(format!("{headline} of {}", one.name), of(one, *rate), unit, 0, COST)
        })
        .collect();
    let names = sites.sites.iter().map(|(site, _)| site.clone());
    let plot = sites.listed().fold(
        Plot::bars(&title, names, Axis::new("cost").unit(unit)),
        |plot, one| {
            let values = sites.sites.iter().map(|(_, site)| of(one, *site));
            plot.series(Series::values(&one.name, values))
        },
    );
    Ok(Outcome {
        model: "cost",
        title: "Energy cost of delivery sites".to_owned(),
        summary: format!(
            "What the energy of a site costs over {years} years, cooling and losses included by the \
             PUE; the figures are for a site of {headline}."
        ),
        papers: vec![papers::P002],
        figures,
        tables: vec![grid, replacements(&sites)],
        is_changed: !sites.is_paper,
        checks: if sites.is_paper { checks(&sites) } else { Vec::new() },
        contradictions: if sites.is_paper { contradictions(&sites) } else { Vec::new() },
        assumptions: assumptions(&inputs, sites.is_paper),
        formulas: formulas(&sites),
        inputs,
        range: None,
        plots: vec![plot],
    })
}

fn assumptions(inputs: &[Input], is_paper: bool) -> Vec<String> {
    let mut all = Vec::new();
    if is_paper {
        all.push(
            "Figure 4 of the paper, its own costs, is a picture: its values are not in the text and \
             are not compared."
                .to_owned(),
        );
    }
    if uses(inputs, "price", "solved from") {
        all.push(
            "The price is the one that gives the paper's conclusion, 0.125 USD/kWh: the 0.0125 that it \
             states twice is a misprint."
                .to_owned(),
        );
    }
    all
}

fn money(sites: &Sites, annual: Quantity<Energy>) -> Quantity<Money> {
    annual * sites.year_count() * sites.pue * sites.price
}

fn replacements(sites: &Sites) -> ResultTable {
    let rows = sites
        .replacements
        .iter()
        .map(|one| {
            vec![one.name.as_str().into(), money(sites, sites.saved(one)).to(sites.currency).into()]
        })
        .collect();
    ResultTable {
        name: "replacement",
        title: "Energy cost saved by replacing".to_owned(),
        columns: vec![
            ResultColumn::words("replacement"),
            ResultColumn::numbers("saved", sites.currency, 0, SAVED),
        ],
        rows,
    }
}

/// Energy over the years with the PUE, that a replacement of the paper saves.
fn lifetime(sites: &Sites, name: &str) -> Quantity<Energy> {
    Quantity::<Energy>::of(saved(sites, name), "MWh") * sites.year_count() * sites.pue
}

fn checks(sites: &Sites) -> Vec<Check> {
    papers::SAVED_COST
        .iter()
        .map(|(name, printed)| {
            let model = (lifetime(sites, name) * sites.price).to("USD");
            Check {
                what: format!("{name}, USD over five years"),
                paper: number::fixed(*printed, 0),
                model: number::fixed(model, 0),
                agrees: if (model - printed).abs() < 50.0 {
                    Agrees::WithinItsWords
                } else {
                    Agrees::No
                },
                source: "002 conclusion",
            }
        })
        .collect()
}

fn contradictions(sites: &Sites) -> Vec<Contradiction> {
    let [(first, cost), (second, low)] = papers::SAVED_COST;
    let energy = lifetime(sites, first);
    let implied: Quantity<EnergyPrice> = Quantity::<Money>::of(cost, "USD") / energy;
    let stated = Quantity::<EnergyPrice>::of(papers::STATED_PRICE, "USD/kWh");
    let costs = |name| number::fixed((lifetime(sites, name) * sites.price).to("USD"), 0);
    vec![
        Contradiction {
            source: "002 energy consumption modeling, conclusion",
            says:
                "energy costs $.0125/kWh, and the 25 Gbit/s site costs $42,700 more in five years"
                    .to_owned(),
            but: format!(
                "{} MWh at that price are {} USD; the conclusion's sum needs {:.4} USD/kWh",
                number::fixed(energy.to("MWh"), 2),
                number::fixed((energy * stated).to("USD"), 0),
                implied.to("USD/kWh")
            ),
            why: format!(
                "a decimal place was lost in the text: 0.125 USD/kWh gives {} USD",
                costs(first)
            ),
        },
        Contradiction {
            source: "002 conclusion",
            says: "the 40 Gbit/s site costs $29,000 more in five years".to_owned(),
            but: format!("its own 31.77 MWh a year at 0.125 USD/kWh are {} USD", costs(second)),
            why: format!(
                "$42,700 is rounded to the nearest hundred, {} was cut to the thousand",
                number::fixed(low, 0)
            ),
        },
        Contradiction {
            source: "002 energy consumption modeling",
            says: "$.0125/kWh or $12.5/mWh".to_owned(),
            but:
                "mWh are thousandths of a watt-hour; $12.5/mWh would be 12.5 million dollars a kWh"
                    .to_owned(),
            why: "MWh was meant".to_owned(),
        },
    ]
}

fn formulas(sites: &Sites) -> Vec<Formula> {
    let (headline, rate) = &sites.headline;
    let example = sites.listed().next().map_or_else(String::new, |server| {
        let annual = sites.annual(sites.power(server, *rate, None).power);
        let price = format!("{}/kWh", sites.currency);
        format!(
            "{headline} of {}: {} × {:.2} MWh × {} × {} {price} = {} {}",
            server.name,
            number::significant(sites.year_count(), 3),
            annual.to("MWh"),
            number::significant(sites.pue, 4),
            number::significant(sites.price.to(&price), 4),
            number::fixed(money(sites, annual).to(sites.currency), 0),
            sites.currency,
        )
    });
    vec![
        Formula {
            result: COST,
            formula: "years × energy in a year × PUE × price of energy",
            example,
            inputs: &["years", "pue", "price"],
            source: "002 Figure 4's equation; `freshet plan energy` has the energy",
        },
        Formula {
            result: SAVED,
            formula: "years × energy saved in a year × PUE × price of energy",
            example: String::new(),
            inputs: &["years", "pue", "price", "replacement.old", "replacement.new"],
            source: "002 conclusion",
        },
    ]
}

//! Carbon of a site over its life.

use super::{Sites, energy::saved, keep};
use crate::mistake::PlanError;
use crate::outcome::{Check, Contradiction, Figure, Formula, Outcome, ResultColumn, ResultTable};
use crate::papers;
use crate::quantity::{Carbon, Energy, Intensity, Quantity};
use crate::reader::Reader;
use freshet_report::{Axis, Plot, Series, number};

const CARBON: &str = "carbon over the years";
const INTENSITY: &str = "carbon intensity of the mix";
const SAVED: &str = "carbon avoided over the years";

/// US electricity of 2022, GWh: all of it, and what was made from oil (US Energy Information
/// Administration, frequently asked question 74).
const US_ELECTRICITY_2022_GWH: (f64, f64) = (4_230_672.0, 22_931.0);

/// Carbon of US electricity of 2022, tonnes; same place.
const US_CARBON_2022_T: f64 = 1_650e6;

/// Runs the model.
pub(crate) fn carbon(mut reader: Reader<'_>) -> Result<Outcome, PlanError> {
    let sites = Sites::read(&mut reader);
    let keys = [
        "sites",
        "headline-site",
        "years",
        "pue",
        "carbon-counts-pue",
        "load",
        "server",
        "replacement",
        "fuel",
    ];
    let inputs = keep(reader.finish()?, &keys);
    let years = number::significant(sites.year_count(), 3);
    let of = |server: &super::Server, site| {
        mass(&sites, sites.annual(sites.power(server, site, None).power)).to("tCO2e")
    };
    let title = format!("Carbon over {years} years");
    let grid = sites.grid("carbon", &title, "tCO2e", 2, CARBON, of);
    let (headline, rate) = &sites.headline;
    let mut figures: Vec<Figure> = sites
        .listed()
        .map(|one| {
            Figure::new(format!("{headline} of {}", one.name), of(one, *rate), "tCO2e", 2, CARBON)
        })
        .collect();
    let intensity = sites.intensity().to("kgCO2e/MWh");
    figures.push(Figure::new("intensity of the mix", intensity, "kgCO2e/MWh", 2, INTENSITY));
    let names = sites.sites.iter().map(|(site, _)| site.clone());
    let plot = sites.listed().fold(
        Plot::bars(&title, names, Axis::new("carbon").unit("tCO2e")),
        |plot, one| {
            let values = sites.sites.iter().map(|(_, site)| of(one, *site));
            plot.series(Series::values(&one.name, values))
        },
    );
    Ok(Outcome {
        model: "carbon",
        title: "Carbon of delivery sites".to_owned(),
        summary: format!(
            "What making the electricity of a site emits over {years} years, {} its PUE; the \
             figures are for a site of {headline}.",
            if sites.carbon_counts_pue { "with" } else { "without" }
        ),
        papers: vec![papers::P002],
        figures,
        tables: vec![grid, replacements(&sites)],
        is_changed: !sites.is_paper,
        checks: if sites.is_paper { checks(&sites) } else { Vec::new() },
        contradictions: if sites.is_paper { contradictions(&sites) } else { Vec::new() },
        assumptions: vec![
            "Table 3 of the paper is made with the unrounded intensity, 181.5384 kgCO2e/MWh: the printed \
             181.54 would give 194.36 where it prints 194.35."
                .to_owned(),
            "`--set carbon-counts-pue=true` and the intensity of your grid as the only `[[fuel]]` \
             give the carbon of a place."
                .to_owned(),
        ],
        formulas: formulas(&sites),
        inputs,
        range: None,
        plots: vec![plot],
    })
}

fn mass(sites: &Sites, annual: Quantity<Energy>) -> Quantity<Carbon> {
    let overhead = if sites.carbon_counts_pue { sites.pue } else { 1.0 };
    annual * sites.year_count() * overhead * sites.intensity()
}

fn replacements(sites: &Sites) -> ResultTable {
    let rows = sites
        .replacements
        .iter()
        .map(|one| vec![one.name.as_str().into(), mass(sites, sites.saved(one)).to("tCO2e").into()])
        .collect();
    ResultTable {
        name: "replacement",
        title: "Carbon avoided by replacing".to_owned(),
        columns: vec![
            ResultColumn::words("replacement"),
            ResultColumn::numbers("avoided", "tCO2e", 2, SAVED),
        ],
        rows,
    }
}

fn checks(sites: &Sites) -> Vec<Check> {
    let mut checks = Vec::new();
    for (server, row) in papers::SERVERS.iter().zip(&papers::TABLE_3) {
        for (site, printed) in papers::SITES.iter().zip(row) {
            let one = sites.servers.iter().find(|one| one.name == *server);
            let rate = sites.sites.iter().find(|(name, _)| name == site);
            let (one, (_, rate)) = one.zip(rate).expect("the paper's inputs have them");
            let value = mass(sites, sites.annual(sites.power(one, *rate, None).power)).to("tCO2e");
            let what = format!("{server}, {site}, tCO2e");
            checks.push(Check::printed(what, printed, value, "002 Table 3"));
        }
    }
    let intensity = sites.intensity().to("kgCO2e/MWh");
    let what = "intensity of the mix, kgCO2e/MWh";
    checks.push(Check::printed(what, papers::MIX_INTENSITY, intensity, "002 below Figure 5"));
    for (name, printed) in papers::SAVED_CARBON {
        let energy = Quantity::<Energy>::of(saved(sites, name), "MWh");
        let what = format!("{name}, tCO2e avoided");
        checks.push(Check::printed(
            what,
            printed,
            mass(sites, energy).to("tCO2e"),
            "002 conclusion",
        ));
    }
    checks
}

fn contradictions(sites: &Sites) -> Vec<Contradiction> {
    let (all, of_oil) = US_ELECTRICITY_2022_GWH;
    let grid: Quantity<Intensity> =
        Quantity::<Carbon>::of(US_CARBON_2022_T, "tCO2e") / Quantity::<Energy>::of(all, "GWh");
    vec![
        Contradiction {
            source: "002 energy consumption modeling, Table 3",
            says: format!(
                "energy over the years is 5 × energy in a year × PUE, with a PUE of {}",
                number::significant(sites.pue, 3)
            ),
            but: "every cell of Table 3 is 5 × Table 2 × intensity, without the PUE".to_owned(),
            why: format!(
                "the PUE was left out of the carbon, which is {:.0} % too low for a site that has it",
                (1.0 - 1.0 / sites.pue) * 100.0
            ),
        },
        Contradiction {
            source: "002 below Figure 5",
            says: "US electricity is made from 36 % oil and emits 181.54 kgCO2e/MWh".to_owned(),
            but: format!(
                "in 2022 oil made {:.1} % of US electricity, which emitted {:.0} kg/MWh, {:.2} times \
                 as much (EIA, question 74)",
                of_oil / all * 100.0,
                grid.to("kgCO2e/MWh"),
                grid / sites.intensity()
            ),
            why: "the shares are those of all primary energy, cars and heating included, and the \
                  intensities are per MWh of fuel burnt, not of electricity made from it"
                .to_owned(),
        },
    ]
}

fn formulas(sites: &Sites) -> Vec<Formula> {
    let (headline, rate) = &sites.headline;
    let example = sites.listed().next().map_or_else(String::new, |server| {
        let annual = sites.annual(sites.power(server, *rate, None).power);
        format!(
            "{headline} of {}: {} × {:.2} MWh × {:.4} kgCO2e/MWh = {:.2} tCO2e",
            server.name,
            number::significant(sites.year_count(), 3),
            annual.to("MWh"),
            sites.intensity().to("kgCO2e/MWh"),
            mass(sites, annual).to("tCO2e"),
        )
    });
    vec![
        Formula {
            result: INTENSITY,
            formula: "Σ(share of the fuel × its intensity)",
            example: format!("{:.4} kgCO2e/MWh", sites.intensity().to("kgCO2e/MWh")),
            inputs: &["fuel.share", "fuel.intensity"],
            source: "002 below Figure 5",
        },
        Formula {
            result: CARBON,
            formula: "years × energy in a year × intensity of the mix, × PUE where \
                      carbon-counts-pue says so",
            example,
            inputs: &["years", "pue", "carbon-counts-pue", "fuel.share", "fuel.intensity"],
            source: "002 Table 3; `freshet plan energy` has the energy",
        },
        Formula {
            result: SAVED,
            formula: "years × energy saved in a year × intensity of the mix, × PUE likewise",
            example: String::new(),
            inputs: &["replacement.old", "replacement.new"],
            source: "002 conclusion",
        },
    ]
}

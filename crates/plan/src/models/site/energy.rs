//! Energy of a site in a year.

use super::{Sites, keep};
use crate::mistake::PlanError;
use crate::outcome::{Check, Contradiction, Figure, Formula, Outcome, ResultColumn, ResultTable};
use crate::papers;
use crate::quantity::{Efficiency, Quantity, Rate};
use crate::reader::{Input, Reader, uses};
use freshet_report::{Axis, Plot, Series};

const ENERGY: &str = "energy in a year";
const POWER: &str = "typical power of a site";
const SAVED: &str = "energy saved in a year";

/// Runs the model.
pub(crate) fn energy(mut reader: Reader<'_>) -> Result<Outcome, PlanError> {
    let sites = Sites::read(&mut reader);
    let inputs =
        keep(reader.finish()?, &["sites", "headline-site", "load", "server", "replacement"]);
    let grid = sites.grid("energy", "Energy in a year", "MWh", 2, ENERGY, |server, site| {
        sites.annual(sites.power(server, site, None).power).to("MWh")
    });
    let (headline, rate) = &sites.headline;
    let figures = sites
        .listed()
        .map(|server| {
            let energy = sites.annual(sites.power(server, *rate, None).power).to("MWh");
            Figure::new(format!("{headline} of {}", server.name), energy, "MWh/year", 2, ENERGY)
        })
        .collect();
    let plot = Plot::bars(
        "Energy of a site in a year",
        sites.sites.iter().map(|(site, _)| site.clone()),
        Axis::new("energy").unit("MWh"),
    );
    let plot = sites.listed().fold(plot, |plot, server| {
        let annual = |site| sites.annual(sites.power(server, site, None).power).to("MWh");
        plot.series(Series::values(&server.name, sites.sites.iter().map(|(_, site)| annual(*site))))
    });
    Ok(Outcome {
        model: "energy",
        title: "Energy of delivery sites".to_owned(),
        summary: format!(
            "What sites use in a year when built from servers of different rates, switches \
             included; the figures are for a site of {headline}."
        ),
        papers: vec![papers::P002],
        figures,
        tables: vec![grid, powers(&sites), replacements(&sites)],
        is_changed: !sites.is_paper,
        checks: if sites.is_paper { checks(&sites) } else { Vec::new() },
        contradictions: if sites.is_paper { contradictions(&sites) } else { Vec::new() },
        assumptions: assumptions(&inputs),
        formulas: formulas(&sites),
        inputs,
        range: None,
        plots: vec![plot],
    })
}

fn assumptions(inputs: &[Input]) -> Vec<String> {
    let mut all = Vec::new();
    if uses(inputs, "servers.power", "solved from") {
        all.push(
            "The paper prints no powers. Those that are its own here are solved from Table 2: in steps \
             of 10 W they are the ones that give each of its cells to the last digit."
                .to_owned(),
        );
    }
    if uses(inputs, "400 Gbit/s servers.power", "solved from") {
        all.push(
            "In the row of 400 Gbit/s servers a server takes 380 W and the switch 1,100 W: only \
             their sum and what each further server adds can be told from the table."
                .to_owned(),
        );
    }
    all
}

fn powers(sites: &Sites) -> ResultTable {
    let columns = vec![
        ResultColumn::words("servers"),
        ResultColumn::words("site"),
        ResultColumn::numbers("servers in it", "", 0, POWER),
        ResultColumn::numbers("switches", "", 0, POWER),
        ResultColumn::numbers("typical power", "W", 0, POWER),
        ResultColumn::numbers("efficiency", "Gbit/s/W", 2, "efficiency"),
    ];
    let mut rows = Vec::new();
    for server in sites.listed() {
        for (name, rate) in &sites.sites {
            let site = sites.power(server, *rate, None);
            let efficiency: Quantity<Efficiency> = *rate / site.power;
            rows.push(vec![
                server.name.as_str().into(),
                name.as_str().into(),
                site.servers.into(),
                site.switches.into(),
                site.power.to("W").into(),
                efficiency.to("Gbit/s/W").into(),
            ]);
        }
    }
    ResultTable { name: "power", title: "What each site is made of".to_owned(), columns, rows }
}

fn replacements(sites: &Sites) -> ResultTable {
    let columns = vec![
        ResultColumn::words("replacement"),
        ResultColumn::numbers("saved in a year", "MWh", 2, SAVED),
    ];
    let rows = sites
        .replacements
        .iter()
        .map(|one| vec![one.name.as_str().into(), sites.saved(one).to("MWh").into()])
        .collect();
    ResultTable {
        name: "replacement",
        title: "Energy saved by replacing".to_owned(),
        columns,
        rows,
    }
}

fn annual(sites: &Sites, server: &str, site: &str) -> f64 {
    let found = sites.servers.iter().find(|one| one.name == server);
    let rate = sites.sites.iter().find(|(name, _)| name == site);
    let (server, (_, rate)) = found.zip(rate).expect("the paper's inputs have them");
    sites.annual(sites.power(server, *rate, None).power).to("MWh")
}

/// The saving of a replacement of the paper, MWh in a year.
pub(super) fn saved(sites: &Sites, name: &str) -> f64 {
    let one = sites.replacements.iter().find(|one| one.name == name);
    sites.saved(one.expect("the paper's inputs have it")).to("MWh")
}

fn checks(sites: &Sites) -> Vec<Check> {
    let mut checks = Vec::new();
    for (server, row) in papers::SERVERS.iter().zip(&papers::TABLE_2) {
        for (site, printed) in papers::SITES.iter().zip(row) {
            let what = format!("{server}, {site}, MWh");
            checks.push(Check::printed(what, printed, annual(sites, server, site), "002 Table 2"));
        }
    }
    for (name, printed) in papers::SAVED_ENERGY {
        let what = format!("{name}, MWh saved in a year");
        checks.push(Check::printed(what, printed, saved(sites, name), "002 conclusion"));
    }
    checks
}

fn contradictions(sites: &Sites) -> Vec<Contradiction> {
    let (old, new) = ("25 Gbit/s servers", "200 Gbit/s servers");
    let site = "400 Gbit/s";
    let by_table = annual(sites, old, site) - annual(sites, new, site);
    let by_conclusion = saved(sites, "25 by 200, as in the conclusion");
    let rate = Quantity::<Rate>::of(1.2, "Tbit/s");
    let power = rate / Quantity::<Efficiency>::of(1.18, "Gbit/s/W");
    vec![
        Contradiction {
            source: "002 conclusion, Table 2",
            says: "replacing 25 Gbit/s servers by 200 Gbit/s ones at 400 Gbit/s saves 45.59 MWh a year"
                .to_owned(),
            but: format!(
                "its Table 2 gives {:.2} − {:.2} = {by_table:.2} MWh",
                annual(sites, old, site),
                annual(sites, new, site)
            ),
            why: format!(
                "with a second switch of 400 W beside the two 200 Gbit/s servers the saving is \
                 {by_conclusion:.2} MWh: the conclusion was worked out with two switches, the table \
                 with one"
            ),
        },
        Contradiction {
            source: "002 conclusion, Tables 1 and 2",
            says: "replacing servers of 40 Gbit/s saves 31.77 MWh a year".to_owned(),
            but: "no table of the paper has servers of 40 Gbit/s".to_owned(),
            why: format!(
                "ten servers of 480 W and one switch against the site with two switches give {:.2} \
                 MWh, so a row was dropped from Table 2",
                saved(sites, "40 by 200, as in the conclusion")
            ),
        },
        Contradiction {
            source: "002 page 1",
            says: "1.2 Tbps at an \"energy consumption of only 1.18 Gbps/Watt\"".to_owned(),
            but: format!(
                "Gbps/Watt says how much is delivered, not consumed; it means a power of {:.0} W",
                power.to("W")
            ),
            why: "efficiency and consumption are taken for each other: more of it is better".to_owned(),
        },
        Contradiction {
            source: "002 Table 2",
            says: "\"Estimated Annual Power Usage (MWh)\"".to_owned(),
            but: "MWh is energy; the power of a site is what the second table here has".to_owned(),
            why: "the caption below it says energy, and the equation has the 365 × 24 hours in it"
                .to_owned(),
        },
    ]
}

fn formulas(sites: &Sites) -> Vec<Formula> {
    let (headline, rate) = &sites.headline;
    let example = sites.listed().next().map(|server| {
        let site = sites.power(server, *rate, None);
        let power = format!(
            "{headline}: {:.0} × {:.0} W + {:.0} × {:.0} W = {:.0} W",
            site.servers,
            server.power.to("W"),
            site.switches,
            server.switch_power.to("W"),
            site.power.to("W"),
        );
        let energy = format!(
            "8760 h × {:.4} × {:.0} W = {:.2} MWh",
            sites.load_factor(),
            site.power.to("W"),
            sites.annual(site.power).to("MWh"),
        );
        (power, energy)
    });
    let (power, energy) = example.unwrap_or_default();
    let saved = sites.replacements.first().map_or_else(String::new, |one| {
        format!("{}: {:.2} MWh", one.name, sites.saved(one).to("MWh"))
    });
    vec![
        Formula {
            result: POWER,
            formula: "servers × power + switches × switch power, with the fewest servers and \
                      switches that carry the site's rate",
            example: power,
            inputs: &[
                "server.power",
                "server.rate",
                "server.switch-power",
                "server.switch-rate",
                "sites",
            ],
            source: "002 energy consumption modeling: \"the minimal amount of servers\"; switch included",
        },
        Formula {
            result: ENERGY,
            formula: "8760 h × Σ(time × share of power) × typical power",
            example: energy,
            inputs: &["load.time", "load.power"],
            source: "002 Figure 3's equation",
        },
        Formula {
            result: SAVED,
            formula: "energy in a year with the old servers − with the new ones",
            example: saved,
            inputs: &["replacement.old", "replacement.new", "replacement.new-switches"],
            source: "002 conclusion",
        },
        Formula {
            result: "efficiency",
            formula: "rate of the site / its typical power",
            example: String::new(),
            inputs: &["sites", "server.power"],
            source: "002 page 1",
        },
    ]
}

//! What a rack costs over its life, and a TB and a channel with it, after paper 000.

use crate::mistake::PlanError;
use crate::outcome::{
    Agrees, Check, Contradiction, Figure, Formula, Outcome, ResultColumn, ResultTable,
};
use crate::papers;
use crate::quantity::{
    Data, DataPrice, EnergyPrice, Money, Power, Quantity, Rate, Space, SpacePrice, Spending, Time,
};
use crate::reader::{Bound, Input, Reader, uses};
use freshet_report::{Axis, Plot, Series, number};

/// The paper's case.
pub(crate) const INPUTS: &str = include_str!("../inputs/tco.toml");

const TOTAL: &str = "cost of a rack";
const PER_TB: &str = "cost of a TB";
const PER_CHANNEL: &str = "cost of a channel in a month";
const CHANGE: &str = "against";

/// A finding such as "30 % lower" is met by what rounds to it within this.
const FINDING_SLACK: f64 = 0.02;

struct Tco {
    years: Quantity<Time>,
    price: Quantity<EnergyPrice>,
    pue: f64,
    rack_price: Quantity<SpacePrice>,
    servers: f64,
    rack_power: Quantity<Power>,
    average_to_peak: f64,
    configurations: Vec<Configuration>,
    /// Index of the configuration that others are compared with.
    base: usize,
    currency: &'static str,
}

struct Configuration {
    name: String,
    cost: Quantity<Money>,
    power: Quantity<Power>,
    space: Quantity<Space>,
    rate: Quantity<Rate>,
    channels: f64,
}

/// What a rack costs, by part.
struct Rack {
    servers: Quantity<Money>,
    energy: Quantity<Money>,
    space: Quantity<Money>,
}

impl Rack {
    fn total(&self) -> Quantity<Money> {
        self.servers + self.energy + self.space
    }
}

impl Tco {
    fn read(reader: &mut Reader<'_>) -> Self {
        let years = reader.quantity("years", Bound::Positive);
        let price = reader.quantity("price", Bound::NotNegative);
        let pue = reader.number("pue", Bound::AtLeastOne);
        let rack_price = reader.quantity("rack-price", Bound::NotNegative);
        let servers = reader.number("servers-per-rack", Bound::Count);
        let rack_power = reader.quantity("rack-power", Bound::Positive);
        let average_to_peak = reader.number("average-to-peak", Bound::Share);
        if average_to_peak == 0.0 {
            let message = "a node that delivers nothing has no cost of a TB".to_owned();
            reader.refuse("average-to-peak", message, "write more than 0 %");
        }
        let rows = reader.rows("configuration");
        let configurations: Vec<Configuration> = rows
            .iter()
            .map(|row| Configuration {
                name: row.name.clone(),
                cost: reader.of_row(row, "cost", Bound::NotNegative, None),
                power: reader.of_row(row, "power", Bound::Positive, None),
                space: reader.of_row(row, "rack-units", Bound::Positive, None),
                rate: reader.of_row(row, "rate", Bound::Positive, None),
                channels: reader.number_of_row(row, "channels", Bound::Count, None),
            })
            .collect();
        let base = Self::base(reader, &configurations);
        Self {
            years,
            price,
            pue,
            rack_price,
            servers,
            rack_power,
            average_to_peak,
            configurations,
            base,
            currency: reader.currency(),
        }
    }

    /// The configuration that is named, else the first where the file brings its own.
    fn base(reader: &mut Reader<'_>, configurations: &[Configuration]) -> usize {
        let name = reader.text("compare-with");
        let found = configurations.iter().position(|one| one.name == name);
        if found.is_none() && reader.is_given("compare-with") {
            let names: Vec<&str> = configurations.iter().map(|one| one.name.as_str()).collect();
            let message = format!("no `[[configuration]]` is called `{name}`");
            reader.refuse("compare-with", message, &format!("write one of: {}", names.join(", ")));
        }
        found.unwrap_or(0)
    }

    fn rack(&self, one: &Configuration) -> Rack {
        let power = one.power * self.servers;
        let spending: Quantity<Spending> = self.rack_price * (one.space * self.servers);
        Rack {
            servers: one.cost * self.servers,
            energy: power * self.years * self.pue * self.price,
            space: spending * self.years,
        }
    }

    /// What a rack delivers over the years.
    fn delivered(&self, one: &Configuration) -> Quantity<Data> {
        one.rate * self.servers * self.average_to_peak * self.years
    }

    fn per_data(&self, one: &Configuration) -> Quantity<DataPrice> {
        self.rack(one).total() / self.delivered(one)
    }

    fn per_channel(&self, one: &Configuration) -> Quantity<Spending> {
        let spending: Quantity<Spending> = self.rack(one).total() / self.years;
        spending / (one.channels * self.servers)
    }

    fn find(&self, name: &str) -> Option<&Configuration> {
        self.configurations.iter().find(|one| one.name == name)
    }
}

/// Runs the model.
pub(crate) fn tco(mut reader: Reader<'_>) -> Result<Outcome, PlanError> {
    let model = Tco::read(&mut reader);
    let is_paper = !reader.is_changed();
    let inputs = reader.finish()?;
    let per_tb = format!("{}/TB", model.currency);
    let figures = model
        .configurations
        .iter()
        .map(|one| {
            let value = model.per_data(one).to(&per_tb);
            Figure::new(format!("a TB from {}", one.name), value, &per_tb, 5, PER_TB)
        })
        .collect();
    let years = number::significant(model.years.to("year"), 3);
    Ok(Outcome {
        model: "tco",
        title: "Cost of a rack".to_owned(),
        summary: format!(
            "What a rack of {} servers costs in {years} years with energy and space, and what a TB \
             delivered and a channel kept cost with it.",
            number::significant(model.servers, 3)
        ),
        papers: vec![papers::P000],
        figures,
        tables: vec![racks(&model), unit_costs(&model)],
        is_changed: !is_paper,
        checks: if is_paper { checks(&model) } else { Vec::new() },
        contradictions: if is_paper { contradictions(&model) } else { Vec::new() },
        assumptions: assumptions(&model, &inputs, is_paper),
        formulas: formulas(&model),
        inputs,
        range: None,
        plots: plots(&model),
    })
}

fn racks(model: &Tco) -> ResultTable {
    let money = |title: &str| ResultColumn::numbers(title, model.currency, 0, TOTAL);
    let columns = vec![
        ResultColumn::words("configuration"),
        money("servers"),
        money("energy"),
        money("space"),
        money("rack"),
        ResultColumn::numbers("power", "kW", 2, ""),
    ];
    let rows = model
        .configurations
        .iter()
        .map(|one| {
            let rack = model.rack(one);
            let parts = [rack.servers, rack.energy, rack.space, rack.total()];
            std::iter::once(one.name.as_str().into())
                .chain(parts.map(|part| part.to(model.currency).into()))
                .chain([(one.power * model.servers).to("kW").into()])
                .collect()
        })
        .collect();
    ResultTable { name: "rack", title: "Cost of a rack".to_owned(), columns, rows }
}

fn unit_costs(model: &Tco) -> ResultTable {
    let month = format!("{}/month", model.currency);
    let per_tb = format!("{}/TB", model.currency);
    let base = model.configurations.get(model.base);
    let base_name = base.map_or("", |one| one.name.as_str());
    let columns = vec![
        ResultColumn::words("configuration"),
        ResultColumn::numbers("delivered by a rack in a month", "TB", 0, "delivered"),
        ResultColumn::numbers("TB", model.currency, 5, PER_TB),
        ResultColumn::numbers(format!("TB against {base_name}"), "%", 1, CHANGE),
        ResultColumn::numbers("channel in a month", model.currency, 3, PER_CHANNEL),
        ResultColumn::numbers(format!("channel against {base_name}"), "%", 1, CHANGE),
    ];
    let rows = model
        .configurations
        .iter()
        .map(|one| {
            let change = |of: &dyn Fn(&Configuration) -> f64| {
                base.map_or(f64::NAN, |base| (of(one) / of(base) - 1.0) * 100.0)
            };
            let monthly = model.delivered(one) / model.years.to("month");
            vec![
                one.name.as_str().into(),
                monthly.to("TB").into(),
                model.per_data(one).to(&per_tb).into(),
                change(&|one| model.per_data(one).to(&per_tb)).into(),
                model.per_channel(one).to(&month).into(),
                change(&|one| model.per_channel(one).to(&month)).into(),
            ]
        })
        .collect();
    ResultTable { name: "unit", title: "Cost of a TB and of a channel".to_owned(), columns, rows }
}

fn change(model: &Tco, one: &Configuration, base: &Configuration) -> f64 {
    model.per_data(one) / model.per_data(base) - 1.0
}

fn checks(model: &Tco) -> Vec<Check> {
    let mut checks = Vec::new();
    for (name, with, finding, printed) in papers::COST_FINDINGS {
        let (Some(one), Some(base)) = (model.find(name), model.find(with)) else { continue };
        let value = change(model, one, base);
        let word = if value < 0.0 { "lower" } else { "higher" };
        checks.push(Check {
            what: format!("{name} against {with}, cost of a TB"),
            paper: printed.to_owned(),
            model: format!("{:.1} % {word}", value.abs() * 100.0),
            agrees: if (value - finding).abs() <= FINDING_SLACK {
                Agrees::WithinItsWords
            } else {
                Agrees::No
            },
            source: "000 §2.4 key findings",
        });
    }
    checks
}

/// The rate a configuration would need for a finding about its cost of a TB, and what it has.
fn needed(model: &Tco, name: &str, with: &str, finding: f64) -> Option<(f64, f64)> {
    let (one, base) = (model.find(name)?, model.find(with)?);
    let ratio = model.rack(one).total() / model.rack(base).total();
    Some((ratio / (1.0 + finding), one.rate / base.rate))
}

fn assumptions(model: &Tco, inputs: &[Input], is_paper: bool) -> Vec<String> {
    let mut all = Vec::new();
    if uses(inputs, ".rate", "4 VMs") {
        all.push(
            "Rates of the 2nd generation are not in the text but in Figure 12, a picture. Taken: 42.5 \
             Gbit/s for each virtual machine with PMem (§2.2.1), that ÷ 1.28 for DRAM (28 %, §2.2.4), \
             both sockets of a server alike."
                .to_owned(),
        );
    }
    if uses(inputs, ".rack-units", "assumed") {
        all.push("Rack units of the paper's servers: not given, 2 taken.".to_owned());
    }
    all.extend([
        "The average-to-peak ratio applies to what is delivered, not to the power, which the paper \
         gives as what the wall has to supply."
            .to_owned(),
        "The paper's c€/TB/month are taken as cents for a TB delivered, with a month's cost over a \
         month's TB. No rate of exchange is given; in the findings, which are ratios, it cancels."
            .to_owned(),
    ]);
    for one in &model.configurations {
        let power = one.power * model.servers;
        if power > model.rack_power {
            all.push(format!(
                "{} takes {:.2} kW, more than the {:.2} kW of the rack: fewer servers fit.",
                one.name,
                power.to("kW"),
                model.rack_power.to("kW")
            ));
        }
    }
    if !is_paper {
        return all;
    }
    for (name, with, finding, printed) in papers::COST_FINDINGS {
        if let Some((needed, has)) = needed(model, name, with, finding) {
            all.push(format!(
                "\"{printed}\" for {name} against {with} needs {needed:.2} times the rate; the text \
                 gives {has:.2} times."
            ));
        }
    }
    all
}

fn contradictions(model: &Tco) -> Vec<Contradiction> {
    let mut all = Vec::new();
    let third = papers::COST_FINDINGS[2];
    if let (Some(one), Some(base)) = (model.find(third.0), model.find(third.1)) {
        let rack = one.power * model.servers;
        all.push(Contradiction {
            source: "000 §2.4, §2.8",
            says: "power feeds of a rack are under 14kW (§2.4), 8 servers are in a 10KW rack (§2.8)"
                .to_owned(),
            but: format!("8 servers of {} take {:.2} kW", third.0, rack.to("kW")),
            why: "the 3rd generation does not fit the rack of §2.8 at full power, it does that of §2.4"
                .to_owned(),
        });
        let by_channel = model.per_channel(one) / model.per_channel(base) - 1.0;
        let (needed, has) = needed(model, third.0, third.1, third.2).unwrap_or_default();
        all.push(Contradiction {
            source: "000 §2.4 key findings, §2.8",
            says: "the 3rd generation has an up to 72% lower TCO than DRAM".to_owned(),
            but: format!(
                "with the rates of the text it is {:.0} % lower for a TB and {:.0} % for a channel",
                -change(model, one, base) * 100.0,
                -by_channel * 100.0
            ),
            why: format!(
                "72 % needs {needed:.2} times the rate of DRAM, not {has:.2}: it is at the number of \
                 channels where DRAM's rate has collapsed for want of memory, as \"up to\" allows; \
                 that rate is in Figure 12 only"
            ),
        });
    }
    let (name, with, finding, _) = papers::COST_FINDINGS[1];
    if let (Some(one), Some(base)) = (model.find(name), model.find(with)) {
        let (needed, _) = needed(model, name, with, finding).unwrap_or_default();
        all.push(Contradiction {
            source: "000 §2.4 key findings",
            says:
                "2-2-2 has a 14% higher cost of a TB than 2-2-1 \"maintaining a similar throughput \
                   level\""
                    .to_owned(),
            but: format!(
                "at the same rate its costs make it {:.0} % higher",
                change(model, one, base) * 100.0
            ),
            why: format!("14 % needs {:.0} % more throughput than 2-2-1", (needed - 1.0) * 100.0),
        });
        all.push(Contradiction {
            source: "000 §2.4 key findings, Table 1",
            says: "2-2-2 offers 40% more channels in a virtual machine than 2-2-1".to_owned(),
            but: format!(
                "Table 1's 250 over 175 are {:.0} %, and the equations give 50 %",
                (one.channels / base.channels - 1.0) * 100.0
            ),
            why: "memory grows from two stores to three; the channels were rounded, and again"
                .to_owned(),
        });
    }
    all.push(Contradiction {
        source: "000 §2.4, §2.8",
        says: "costs are in c€/TB/month".to_owned(),
        but: "all prices are in dollars, and no rate of exchange is given".to_owned(),
        why: "the absolute costs of Figure 18 cannot be checked, the percentages can".to_owned(),
    });
    all
}

fn plots(model: &Tco) -> Vec<Plot> {
    let names = || model.configurations.iter().map(|one| one.name.clone());
    let racks: Vec<Rack> = model.configurations.iter().map(|one| model.rack(one)).collect();
    let part = |label: &str, of: fn(&Rack) -> Quantity<Money>| {
        Series::values(label, racks.iter().map(|rack| of(rack).to(model.currency)))
    };
    let cost = Plot::bars("Cost of a rack", names(), Axis::new("cost").unit(model.currency))
        .series(part("servers", |rack| rack.servers))
        .series(part("energy", |rack| rack.energy))
        .series(part("space", |rack| rack.space));
    let per_tb = format!("{}/TB", model.currency);
    let values = model.configurations.iter().map(|one| model.per_data(one).to(&per_tb));
    let data = Plot::bars("Cost of a TB delivered", names(), Axis::new("cost").unit(&per_tb))
        .series(Series::values("cost of a TB", values));
    vec![cost, data]
}

fn formulas(model: &Tco) -> Vec<Formula> {
    let currency = model.currency;
    let example = |of: &dyn Fn(&Configuration) -> String| {
        model.configurations.get(model.base).map_or_else(String::new, of)
    };
    vec![
        Formula {
            result: TOTAL,
            formula: "servers × (cost + power × years × PUE × price of energy + rack units × price \
                      of a rack unit × years)",
            example: example(&|one| {
                let rack = model.rack(one);
                format!(
                    "{}: {} + {} + {} = {} {currency}",
                    one.name,
                    number::fixed(rack.servers.to(currency), 0),
                    number::fixed(rack.energy.to(currency), 0),
                    number::fixed(rack.space.to(currency), 0),
                    number::fixed(rack.total().to(currency), 0),
                )
            }),
            inputs: &[
                "servers-per-rack",
                "configuration.cost",
                "configuration.power",
                "years",
                "pue",
                "price",
                "configuration.rack-units",
                "rack-price",
            ],
            source: "000 §2.4, §2.8",
        },
        Formula {
            result: "delivered",
            formula: "servers × rate × average-to-peak × time",
            example: example(&|one| {
                format!(
                    "{}: {} × {:.1} Gbit/s × {:.0} % × 1 month = {} TB",
                    one.name,
                    number::significant(model.servers, 3),
                    one.rate.to("Gbit/s"),
                    model.average_to_peak * 100.0,
                    number::fixed((model.delivered(one) / model.years.to("month")).to("TB"), 0),
                )
            }),
            inputs: &["servers-per-rack", "configuration.rate", "average-to-peak"],
            source: "000 §2.4: cost per TB and month; §2.8: average to peak",
        },
        Formula {
            result: PER_TB,
            formula: "cost of a rack / delivered over the years",
            example: String::new(),
            inputs: &["years"],
            source: "000 §2.4",
        },
        Formula {
            result: PER_CHANNEL,
            formula: "cost of a rack / years / (servers × channels)",
            example: String::new(),
            inputs: &["configuration.channels"],
            source: "000 §2.4, Tables 1 and 4",
        },
        Formula {
            result: CHANGE,
            formula: "cost / cost of the configuration compared with − 1",
            example: String::new(),
            inputs: &["compare-with"],
            source: "000 §2.4",
        },
    ]
}

//! Energy, cost and carbon of delivery sites, after paper 002: one set of inputs, three questions.

mod carbon;
mod cost;
mod energy;

pub(crate) use carbon::carbon;
pub(crate) use cost::cost;
pub(crate) use energy::energy;

use crate::outcome::{ResultColumn, ResultTable, Value};
use crate::quantity::{Energy, EnergyPrice, Intensity, Power, Quantity, Rate, Time};
use crate::reader::{Bound, Reader};

/// The paper's case.
pub(crate) const INPUTS: &str = include_str!("../../inputs/site.toml");

/// The inputs of a site's models.
pub(super) struct Sites {
    /// Name and rate of each site.
    sites: Vec<(String, Quantity<Rate>)>,
    headline: (String, Quantity<Rate>),
    load: Vec<Load>,
    servers: Vec<Server>,
    replacements: Vec<Replacement>,
    years: Quantity<Time>,
    pue: f64,
    price: Quantity<EnergyPrice>,
    fuels: Vec<Fuel>,
    carbon_counts_pue: bool,
    is_paper: bool,
    currency: &'static str,
}

struct Load {
    time: f64,
    power: f64,
}

struct Server {
    name: String,
    in_table: bool,
    rate: Quantity<Rate>,
    power: Quantity<Power>,
    switch_rate: Quantity<Rate>,
    switch_power: Quantity<Power>,
}

struct Replacement {
    name: String,
    site: Quantity<Rate>,
    old: usize,
    new: usize,
    /// Switches of the new servers; none: as many as their rate needs.
    new_switches: Option<f64>,
}

struct Fuel {
    share: f64,
    intensity: Quantity<Intensity>,
}

impl Sites {
    fn read(reader: &mut Reader<'_>) -> Self {
        let sites = reader.quantities::<Rate>("sites", Bound::Positive);
        let headline: Quantity<Rate> = reader.quantity("headline-site", Bound::Positive);
        let headline_name = match reader.is_varied("headline-site") {
            true => "headline-site".to_owned(),
            false => {
                let rate = freshet_report::number::significant(headline.to("Gbit/s"), 4);
                format!("{rate} Gbit/s")
            }
        };
        let years = reader.quantity("years", Bound::Positive);
        let pue = reader.number("pue", Bound::AtLeastOne);
        let price = reader.quantity("price", Bound::NotNegative);
        let carbon_counts_pue = reader.truth("carbon-counts-pue");
        let load = Self::read_load(reader);
        let servers = Self::read_servers(reader);
        let replacements = Self::read_replacements(reader, &servers);
        let fuels = Self::read_fuels(reader);
        Self {
            sites,
            headline: (headline_name, headline),
            load,
            servers,
            replacements,
            years,
            pue,
            price,
            fuels,
            carbon_counts_pue,
            is_paper: !reader.is_changed(),
            currency: reader.currency(),
        }
    }

    fn read_load(reader: &mut Reader<'_>) -> Vec<Load> {
        let rows = reader.rows("load");
        let load: Vec<Load> = rows
            .iter()
            .map(|row| Load {
                time: reader.number_of_row(row, "time", Bound::Share, None),
                power: reader.number_of_row(row, "power", Bound::NotNegative, None),
            })
            .collect();
        reader.expect_whole(&rows, "time", load.iter().map(|one| one.time));
        load
    }

    fn read_servers(reader: &mut Reader<'_>) -> Vec<Server> {
        let rows = reader.rows("server");
        rows.iter()
            .map(|row| Server {
                name: row.name.clone(),
                in_table: reader.truth_of_row(row, "in-table", true),
                rate: reader.of_row(row, "rate", Bound::Positive, None),
                power: reader.of_row(row, "power", Bound::Positive, None),
                switch_rate: reader.of_row(row, "switch-rate", Bound::Positive, None),
                switch_power: reader.of_row(row, "switch-power", Bound::NotNegative, None),
            })
            .collect()
    }

    fn read_replacements(reader: &mut Reader<'_>, servers: &[Server]) -> Vec<Replacement> {
        // Those of the paper name the paper's servers: with servers of one's own they are left out
        // unless replacements are given too.
        if reader.is_given("server") && !reader.is_given("replacement") {
            let _ = reader.rows("replacement");
            return Vec::new();
        }
        let rows = reader.rows("replacement");
        let mut all = Vec::new();
        for row in &rows {
            let site = reader.of_row(row, "site", Bound::Positive, None);
            let has_switches = reader.is_in_row(row, "new-switches");
            let switches = reader.number_of_row(row, "new-switches", Bound::CountOrNone, Some("0"));
            let mut index_of = |key: &str| {
                let name = reader.text_of_row(row, key);
                let index = servers.iter().position(|server| server.name == name);
                if index.is_none() {
                    let names: Vec<&str> = servers.iter().map(|one| one.name.as_str()).collect();
                    let message =
                        format!("`{key}` is `{name}`, and no `[[server]]` is called that");
                    let help = format!("write one of: {}", names.join(", "));
                    reader.refuse_row(row, key, message, &help);
                }
                index
            };
            if let (Some(old), Some(new)) = (index_of("old"), index_of("new")) {
                let new_switches = has_switches.then_some(switches);
                all.push(Replacement { name: row.name.clone(), site, old, new, new_switches });
            }
        }
        all
    }

    fn read_fuels(reader: &mut Reader<'_>) -> Vec<Fuel> {
        let rows = reader.rows("fuel");
        let fuels: Vec<Fuel> = rows
            .iter()
            .map(|row| Fuel {
                share: reader.number_of_row(row, "share", Bound::Share, None),
                intensity: reader.of_row(row, "intensity", Bound::NotNegative, None),
            })
            .collect();
        reader.expect_whole(&rows, "share", fuels.iter().map(|one| one.share));
        fuels
    }

    /// Share of its typical power that a server takes on average.
    fn load_factor(&self) -> f64 {
        self.load.iter().map(|one| one.time * one.power).sum()
    }

    /// Carbon of a unit of energy, over the mix.
    fn intensity(&self) -> Quantity<Intensity> {
        self.fuels.iter().map(|fuel| fuel.intensity * fuel.share).sum()
    }

    /// Servers, switches and typical power of a site.
    fn power(&self, server: &Server, site: Quantity<Rate>, switches: Option<f64>) -> SitePower {
        let servers = whole_number(site / server.rate);
        let switches = switches.unwrap_or_else(|| whole_number(site / server.switch_rate));
        SitePower {
            servers,
            switches,
            power: server.power * servers + server.switch_power * switches,
        }
    }

    /// Energy of a typical power in a year.
    fn annual(&self, power: Quantity<Power>) -> Quantity<Energy> {
        power * self.load_factor() * Quantity::<Time>::of(1.0, "year")
    }

    /// Years of the plan, as a number.
    fn year_count(&self) -> f64 {
        self.years.to("year")
    }

    /// The servers of the paper's tables.
    fn listed(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter().filter(|server| server.in_table)
    }

    /// The energy that a replacement saves in a year.
    fn saved(&self, one: &Replacement) -> Quantity<Energy> {
        let power = |index: usize, switches| {
            self.servers
                .get(index)
                .map_or(Quantity::ZERO, |server| self.power(server, one.site, switches).power)
        };
        self.annual(power(one.old, None)) - self.annual(power(one.new, one.new_switches))
    }

    /// A table of one number for each server and site.
    fn grid(
        &self,
        name: &'static str,
        title: &str,
        unit: &str,
        decimals: usize,
        formula: &'static str,
        cell: impl Fn(&Server, Quantity<Rate>) -> f64,
    ) -> ResultTable {
        let columns = std::iter::once(ResultColumn::words("servers"))
            .chain(
                self.sites
                    .iter()
                    .map(|(site, _)| ResultColumn::numbers(site.clone(), unit, decimals, formula)),
            )
            .collect();
        let rows = self
            .listed()
            .map(|server| {
                std::iter::once(Value::from(server.name.as_str()))
                    .chain(self.sites.iter().map(|(_, site)| Value::from(cell(server, *site))))
                    .collect()
            })
            .collect();
        ResultTable { name, title: title.to_owned(), columns, rows }
    }
}

struct SitePower {
    servers: f64,
    switches: f64,
    power: Quantity<Power>,
}

/// The smallest whole number that is enough; what is above one by less than a rounding error counts
/// as that one.
fn whole_number(needed: f64) -> f64 {
    (needed - 1e-9).ceil().max(1.0)
}

/// The part of the inputs that a model shows: those whose key starts with one of `keys`.
fn keep(inputs: Vec<crate::reader::Input>, keys: &[&str]) -> Vec<crate::reader::Input> {
    inputs.into_iter().filter(|input| keys.iter().any(|key| input.key.starts_with(key))).collect()
}

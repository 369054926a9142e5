//! Virtual machines that a host's memory holds, and what their load asks, after paper 003.

use super::whole;
use crate::mistake::PlanError;
use crate::outcome::{
    Agrees, Check, Contradiction, Figure, Formula, Outcome, ResultColumn, ResultTable,
};
use crate::papers;
use crate::quantity::{Data, Quantity, Rate, Time};
use crate::reader::{Bound, Reader};
use freshet_report::{Axis, Plot, Series};

/// The paper's case.
pub(crate) const INPUTS: &str = include_str!("../inputs/memory.toml");

const FIT: &str = "machines that fit";
const CONTENT: &str = "content of the load";
const NEEDED: &str = "operations needed";
const OUT: &str = "answers of all machines";

struct Host {
    name: String,
    /// In GB.
    size: f64,
    of_a_vm: f64,
    vms: f64,
}

impl Host {
    fn fit(&self) -> f64 {
        whole(self.size / self.of_a_vm)
    }
}

struct Memory {
    /// In GB.
    content: f64,
    value_bits: f64,
    under_way: f64,
    reads: f64,
    longest_s: f64,
    network: f64,
    hosts: Vec<Host>,
}

impl Memory {
    fn read(reader: &mut Reader<'_>) -> Self {
        let keys = reader.number("keys", Bound::Positive);
        let value: Quantity<Data> = reader.quantity("value", Bound::Positive);
        let [threads, connections, pipeline] =
            ["threads", "connections", "pipeline"].map(|key| reader.number(key, Bound::Count));
        let reads = reader.number("reads", Bound::Share);
        let longest: Quantity<Time> = reader.quantity("longest", Bound::Positive);
        let network: Quantity<Rate> = reader.quantity("network", Bound::Positive);
        let rows = reader.rows("memory");
        let hosts = rows
            .iter()
            .map(|row| {
                let size: Quantity<Data> = reader.of_row(row, "size", Bound::Positive, None);
                let of_a_vm: Quantity<Data> = reader.of_row(row, "of-a-vm", Bound::Positive, None);
                let vms = reader.number_of_row(row, "vms", Bound::Count, None);
                let (size, of_a_vm) = (size.to("GB"), of_a_vm.to("GB"));
                Host { name: row.name.clone(), size, of_a_vm, vms }
            })
            .collect();
        Self {
            content: (value * keys).to("GB"),
            value_bits: value.to("bit"),
            under_way: threads * connections * pipeline,
            reads,
            longest_s: longest.to("s"),
            network: network.to("Gbit/s"),
            hosts,
        }
    }

    /// Operations a second of a machine that keeps so many under way no longer than wanted.
    fn needed(&self) -> f64 {
        self.under_way / self.longest_s
    }

    /// What all machines then answer with, in Gbit/s.
    fn out(&self, vms: f64) -> f64 {
        self.needed() * self.reads * self.value_bits * vms / 1e9
    }
}

/// Runs the model.
pub(crate) fn memory(mut reader: Reader<'_>) -> Result<Outcome, PlanError> {
    let model = Memory::read(&mut reader);
    let is_paper = !reader.is_changed();
    let inputs = reader.finish()?;
    let mut figures = vec![
        Figure::new("content of the load", model.content, "GB", 0, CONTENT),
        Figure::new("operations a machine needs", model.needed() / 1e3, "kop/s", 0, NEEDED),
    ];
    for host in &model.hosts {
        figures.push(Figure::new(host.name.clone(), host.fit(), "machines", 0, FIT));
    }
    Ok(Outcome {
        model: "memory",
        title: "Machines in memory".to_owned(),
        summary:
            "How many virtual machines each memory holds, and what a load that is answered in \
                  time asks of them and of the network."
                .to_owned(),
        papers: vec![papers::P003],
        figures,
        tables: vec![table(&model)],
        is_changed: !is_paper,
        checks: if is_paper { checks(&model) } else { Vec::new() },
        contradictions: if is_paper { contradictions(&model) } else { Vec::new() },
        assumptions: vec![
            "Nothing is kept back for the host, and DRAM that is a cache holds nothing more."
                .to_owned(),
        ],
        formulas: formulas(&model),
        inputs,
        range: None,
        plots: vec![plot(&model)],
    })
}

fn table(model: &Memory) -> ResultTable {
    let columns = vec![
        ResultColumn::words("memory"),
        ResultColumn::numbers("holds", "machines", 0, FIT),
        ResultColumn::numbers("used", "machines", 0, ""),
        ResultColumn::numbers("answers", "Gbit/s", 1, OUT),
        ResultColumn::words("network"),
    ];
    let rows = model
        .hosts
        .iter()
        .map(|host| {
            let out = model.out(host.vms);
            vec![
                host.name.as_str().into(),
                host.fit().into(),
                host.vms.into(),
                out.into(),
                if out <= model.network { "enough" } else { "too slow" }.into(),
            ]
        })
        .collect();
    ResultTable { name: "memory", title: "By memory".to_owned(), columns, rows }
}

fn checks(model: &Memory) -> Vec<Check> {
    let fits = |host: &Host| Check {
        what: format!("{}: machines", host.name),
        paper: format!("{:.0}", host.vms),
        model: format!("holds {:.0}", host.fit()),
        agrees: if host.vms <= host.fit() { Agrees::WithinItsWords } else { Agrees::No },
        source: "003 Table 5",
    };
    model.hosts.iter().map(fits).collect()
}

fn contradictions(model: &Memory) -> Vec<Contradiction> {
    vec![
        Contradiction {
            source: "003 §2.2.2 and Table 5",
            says: "210,000,001 keys of 1024 B, in machines of 16 GB".to_owned(),
            but: format!("the keys' values alone are {:.0} GB", model.content),
            why: "most keys are never set, or Redis evicts: then fewer GETs find something"
                .to_owned(),
        },
        Contradiction {
            source: "003 §2.2.2 and §3.2",
            says: "all tests meet an SLA of less than 1 ms".to_owned(),
            but: format!(
                "{:.0} operations under way in each machine then need more than {:.0} kop/s, and 20 \
                 machines {:.0} Gbit/s of answers, above two ports of 25G",
                model.under_way,
                model.needed() / 1e3,
                model.out(20.0)
            ),
            why: "the 1 ms may be of an operation without those before it in the pipeline"
                .to_owned(),
        },
        Contradiction {
            source: "003 §3.2 and the caption of Figure 9",
            says: "total throughput grows by \"2x0.7\" with 40 machines in place of 20".to_owned(),
            but: "that is 1.4 times; the caption says almost doubled".to_owned(),
            why: "one of them may be a machine's share, which falls while the sum rises".to_owned(),
        },
    ]
}

fn formulas(model: &Memory) -> Vec<Formula> {
    let first = model.hosts.first();
    vec![
        Formula {
            result: FIT,
            formula: "size / of a VM, whole machines",
            example: first.map_or_else(String::new, |host| {
                format!("{} GB / {} GB = {:.0}", host.size, host.of_a_vm, host.fit())
            }),
            inputs: &["memory.size", "memory.of-a-vm"],
            source: "003 Table 5",
        },
        Formula {
            result: CONTENT,
            formula: "keys × value",
            example: format!("{:.0} GB", model.content),
            inputs: &["keys", "value"],
            source: "003 §2.2.2",
        },
        Formula {
            result: NEEDED,
            formula: "threads × connections × pipeline / longest",
            example: format!("{:.0} / {} s", model.under_way, model.longest_s),
            inputs: &["threads", "connections", "pipeline", "longest"],
            source: "003 §2.2.2, §3.2",
        },
        Formula {
            result: OUT,
            formula: "operations needed × reads × value × machines used",
            example: format!("{:.1} Gbit/s of 20 machines", model.out(20.0)),
            inputs: &["reads", "value", "memory.vms", "network"],
            source: "003 §2.2.2",
        },
    ]
}

fn plot(model: &Memory) -> Plot {
    let names = model.hosts.iter().map(|host| host.name.clone());
    Plot::bars("Machines", names, Axis::new("machines"))
        .series(Series::values("held", model.hosts.iter().map(Host::fit)))
        .series(Series::values("used", model.hosts.iter().map(|host| host.vms)))
}

//! How many live channels a server holds, after paper 000.

use super::whole;
use crate::mistake::PlanError;
use crate::outcome::{
    Agrees, Check, Contradiction, Figure, Formula, Outcome, ResultColumn, ResultTable,
};
use crate::papers;
use crate::quantity::{Data, Quantity, Rate, Time};
use crate::reader::{Bound, Reader};
use freshet_report::{Axis, Plot, Series, number};

/// The paper's case.
pub(crate) const INPUTS: &str = include_str!("../inputs/channels.toml");

const CHANNELS: &str = "channels";
const SEGMENT: &str = "segment of a channel";
const BUFFER: &str = "buffer of a channel";

/// The paper gives its channels as "approximately": what it prints is at most so far from what its
/// equations give.
const APPROXIMATELY: f64 = 0.06;

/// The paper's channels for a virtual machine are multiples of this.
const PAPER_STEP: f64 = 25.0;

struct Channels {
    segment: Quantity<Data>,
    segments: f64,
    sockets: f64,
    vms_per_socket: f64,
    configurations: Vec<Configuration>,
    objects: Vec<Object>,
}

struct Configuration {
    name: String,
    /// Cache of one virtual machine.
    cache: Quantity<Data>,
}

struct Object {
    name: String,
    format: String,
    size: Quantity<Data>,
}

impl Channels {
    fn read(reader: &mut Reader<'_>) -> Self {
        let segment_time = reader.quantity::<Time>("segment-time", Bound::Positive);
        let buffer = reader.quantity::<Time>("buffer", Bound::Positive);
        let sockets = reader.number("sockets", Bound::Count);
        let vms_per_socket = reader.number("vms-per-socket", Bound::Count);
        let configurations = Self::read_configurations(reader);
        let objects = Self::read_objects(reader, segment_time);
        let is_from_objects = reader.is_touched("object") && !reader.is_given("segment");
        let segment = if is_from_objects {
            objects.iter().map(|object| object.size).sum()
        } else {
            reader.quantity("segment", Bound::Positive)
        };
        if buffer < segment_time {
            let message = "the buffer is shorter than one segment".to_owned();
            reader.refuse("buffer", message, "make it at least as long as segment-time");
        }
        Self {
            segment,
            segments: buffer / segment_time,
            sockets,
            vms_per_socket,
            configurations,
            objects,
        }
    }

    fn read_configurations(reader: &mut Reader<'_>) -> Vec<Configuration> {
        let rows = reader.rows("configuration");
        rows.iter()
            .map(|row| {
                let store: Quantity<Data> = reader.of_row(row, "store", Bound::Positive, None);
                let stores = reader.number_of_row(row, "stores", Bound::Count, Some("1"));
                Configuration { name: row.name.clone(), cache: store * stores }
            })
            .collect()
    }

    fn read_objects(reader: &mut Reader<'_>, segment_time: Quantity<Time>) -> Vec<Object> {
        let rows = reader.rows("object");
        let mut objects = Vec::new();
        for row in &rows {
            let format = reader.text_of_row(row, "format");
            let rate: Quantity<Rate> =
                reader.of_row(row, "rate", Bound::NotNegative, Some("0 bit/s"));
            let stated: Quantity<Data> =
                reader.of_row(row, "size", Bound::NotNegative, Some("0 B"));
            let size = if rate > Quantity::ZERO { rate * segment_time } else { stated };
            if size <= Quantity::ZERO {
                let message = format!("`{}` has neither a size nor a bit rate", row.name);
                reader.refuse_row(
                    row,
                    "name",
                    message,
                    "write `rate = \"5 Mbit/s\"` or `size = \"4 MB\"`",
                );
            }
            objects.push(Object { name: row.name.clone(), format, size });
        }
        objects
    }

    fn vms(&self) -> f64 {
        self.sockets * self.vms_per_socket
    }

    fn buffer(&self) -> Quantity<Data> {
        self.segment * self.segments
    }

    /// Channels of one virtual machine, not rounded.
    fn of_vm(&self, configuration: &Configuration) -> f64 {
        configuration.cache / self.buffer()
    }
}

/// Runs the model.
pub(crate) fn channels(mut reader: Reader<'_>) -> Result<Outcome, PlanError> {
    let model = Channels::read(&mut reader);
    let is_paper = !reader.is_changed();
    let inputs = reader.finish()?;
    let figures = model
        .configurations
        .iter()
        .map(|one| {
            let value = whole(model.of_vm(one) * model.vms());
            Figure::new(format!("{}, server", one.name), value, "channels", 0, CHANNELS)
        })
        .collect();
    let names = model.configurations.iter().map(|one| one.name.clone());
    let plot = Plot::bars("Channels in a virtual machine", names, Axis::new("channels")).series(
        Series::values("by the equations", model.configurations.iter().map(|one| model.of_vm(one))),
    );
    let plot = if is_paper {
        plot.series(Series::values("the paper prints", papers::CHANNELS.map(|(_, vm, ..)| vm)))
    } else {
        plot
    };
    Ok(Outcome {
        model: "channels",
        title: "Channels in a server".to_owned(),
        summary: format!(
            "How many live channels a server holds when each keeps {} of {} in its cache.",
            many(model.segments, "segment"),
            size(model.segment)
        ),
        papers: vec![papers::P000],
        figures,
        tables: vec![table(&model), formats(&model), ladder(&model)],
        is_changed: !is_paper,
        checks: if is_paper { checks(&model) } else { Vec::new() },
        contradictions: if is_paper { contradictions(&model) } else { Vec::new() },
        assumptions: vec![
            "The whole of each store holds segments: no share for metadata, fragmentation or \
             content that is not live. The RAM cache of 16 to 24 GB in front of it is not counted."
                .to_owned(),
        ],
        formulas: formulas(&model),
        inputs,
        range: None,
        plots: vec![plot],
    })
}

fn many(count: f64, word: &str) -> String {
    format!("{} {word}s", number::significant(count, 4))
}

fn size(data: Quantity<Data>) -> String {
    format!("{} MB", number::significant(data.to("MB"), 4))
}

fn table(model: &Channels) -> ResultTable {
    let numbers = |title: &str| ResultColumn::numbers(title, "", 1, CHANNELS);
    let columns = vec![
        ResultColumn::words("configuration"),
        ResultColumn::numbers("cache", "GB", 0, ""),
        numbers("server"),
        numbers("socket"),
        numbers("virtual machine"),
        ResultColumn::numbers("whole in a VM", "", 0, CHANNELS),
    ];
    let rows = model
        .configurations
        .iter()
        .map(|one| {
            let vm = model.of_vm(one);
            vec![
                one.name.as_str().into(),
                (one.cache.to("GB") * model.vms()).into(),
                (vm * model.vms()).into(),
                (vm * model.vms_per_socket).into(),
                vm.into(),
                whole(vm).into(),
            ]
        })
        .collect();
    ResultTable { name: "channels", title: "Channels".to_owned(), columns, rows }
}

/// Channels if only one format were kept.
fn formats(model: &Channels) -> ResultTable {
    let mut columns =
        vec![ResultColumn::words("only"), ResultColumn::numbers("segment", "MB", 2, SEGMENT)];
    columns.extend(
        model.configurations.iter().map(|one| ResultColumn::numbers(&one.name, "", 0, CHANNELS)),
    );
    let mut names: Vec<&str> = Vec::new();
    for object in &model.objects {
        if !object.format.is_empty() && !names.contains(&object.format.as_str()) {
            names.push(&object.format);
        }
    }
    let rows = names
        .into_iter()
        .map(|format| {
            let of_format = model.objects.iter().filter(|object| object.format == format);
            let segment: Quantity<Data> = of_format.map(|object| object.size).sum();
            let mut row = vec![format.into(), segment.to("MB").into()];
            row.extend(
                model
                    .configurations
                    .iter()
                    .map(|one| (one.cache * model.vms() / (segment * model.segments)).into()),
            );
            row
        })
        .collect();
    let title = "Channels in a server that keeps one format only".to_owned();
    ResultTable { name: "formats", title, columns, rows }
}

fn ladder(model: &Channels) -> ResultTable {
    let total: Quantity<Data> = model.objects.iter().map(|object| object.size).sum();
    let columns = vec![
        ResultColumn::words("object"),
        ResultColumn::words("format"),
        ResultColumn::numbers("size", "kB", 0, SEGMENT),
        ResultColumn::numbers("share", "%", 1, SEGMENT),
    ];
    let row = |name: &str, format: &str, size: Quantity<Data>| {
        vec![name.into(), format.into(), size.to("kB").into(), (size / total * 100.0).into()]
    };
    let mut rows: Vec<_> =
        model.objects.iter().map(|one| row(&one.name, &one.format, one.size)).collect();
    rows.push(row("all", "", total));
    ResultTable { name: "objects", title: "Objects of a segment".to_owned(), columns, rows }
}

fn checks(model: &Channels) -> Vec<Check> {
    let mut checks = Vec::new();
    for (one, (name, vm, socket, source)) in model.configurations.iter().zip(papers::CHANNELS) {
        let of_vm = model.of_vm(one);
        let places = [
            ("VM", vm, of_vm),
            ("socket", socket, of_vm * model.vms_per_socket),
            // The paper tests one socket; its equations have two.
            ("server", socket * model.sockets, of_vm * model.vms()),
        ];
        for (place, printed, value) in places {
            let off = (value / printed - 1.0).abs();
            checks.push(Check {
                what: format!("{name}, channels in a {place}"),
                paper: format!("{printed:.0}"),
                model: format!("{value:.1}"),
                agrees: if off <= APPROXIMATELY { Agrees::WithinItsWords } else { Agrees::No },
                source,
            });
        }
    }
    checks
}

fn contradictions(model: &Channels) -> Vec<Contradiction> {
    let sum: Quantity<Data> = model.objects.iter().map(|object| object.size).sum();
    let urls = Quantity::<Data>::of(papers::URL_SIZES_KB.iter().sum(), "kB");
    let steps: Vec<String> = model
        .configurations
        .iter()
        .map(|one| format!("{:.0}", (model.of_vm(one) / PAPER_STEP).round() * PAPER_STEP))
        .collect();
    let [(_, dram, dram_socket, _), .., (_, third, third_socket, _)] = papers::CHANNELS;
    let two = papers::CHANNELS[2].2;
    let last = model.configurations.last().map_or(0.0, |one| model.of_vm(one));
    vec![
        Contradiction {
            source: "000 Tables 1 and 4, equations of §2.2.3",
            says: format!("{third:.0} channels in a virtual machine of the 3rd generation"),
            but: format!("its equations give {last:.1}; rounded like the others it would be 350"),
            why: format!(
                "taken to the nearest {PAPER_STEP:.0}, the equations give {}: the first four are what \
                 the paper prints, the last was rounded down or left with a reserve",
                steps.join(", ")
            ),
        },
        Contradiction {
            source: "000 §2.4 key findings",
            says: format!(
                "\"up to {:.0} channels per server\" on the 3rd generation",
                papers::FINDING_CHANNELS
            ),
            but: format!(
                "its Table 4 has {third:.0} in a virtual machine, {third_socket:.0} in a socket, {:.0} \
                 in a server of four",
                third * model.vms()
            ),
            why: format!(
                "{:.0} is 2 × 350, the equations' {last:.1} for a virtual machine taken to the \
                 nearest {PAPER_STEP:.0} in both of one socket: a socket was meant",
                papers::FINDING_CHANNELS
            ),
        },
        Contradiction {
            source: "000 §2.2.4",
            says: format!(
                "from {dram_socket:.0} to {two:.0} channels is \"a 250% increase in channel density\""
            ),
            but: format!("it is an increase of {:.0} %", (two / dram_socket - 1.0) * 100.0),
            why: format!("{two:.0} is 250 % of {dram_socket:.0}"),
        },
        Contradiction {
            source: "000 §2.2.3, Table 3",
            says: "the eleven objects total 25 MB".to_owned(),
            but: format!(
                "its column of sizes adds up to {:.2} MB, the sizes in its URLs to {:.2} MB",
                sum.to("MB"),
                urls.to("MB")
            ),
            why: format!(
                "{0:.0} kB are {1:.1} MiB, and {0:.0} KiB would be {2:.1}: the 25 are binary \
                 megabytes. With the URLs' sizes a virtual machine of the first configuration holds \
                 {3:.0} channels, not {dram:.0}",
                sum.to("kB"),
                sum.to("MiB"),
                sum.to("kB") / 1024.0,
                model.configurations.first().map_or(0.0, |one| one.cache / (urls * model.segments))
            ),
        },
        Contradiction {
            source: "000 Tables 1 and 4, §2.7",
            says: "servers of Table 1 have 96 cores, of which 4 + 4 × 22 are used".to_owned(),
            but: "§2.7 has two processors of 24 cores, and Table 4 calls the 96 threads, of which \
                  16 + 4 × 20 are used"
                .to_owned(),
            why: "96 is the number of threads; 4 + 4 × 22 makes 92, so four are in no table"
                .to_owned(),
        },
        Contradiction {
            source: "000 §2.7, Table 4",
            says:
                "the 3rd generation node has a total memory of 2048GB, 16 × 16 GB and 16 × 128 GB"
                    .to_owned(),
            but: format!("16 × 16 GB + 16 × 128 GB are {} GB", 16 * 16 + 16 * 128),
            why: "the DRAM was left out; that of the 2nd generation, 1728GB, has both".to_owned(),
        },
    ]
}

fn formulas(model: &Channels) -> Vec<Formula> {
    let example = model.configurations.first().map_or_else(String::new, |one| {
        format!(
            "{}: {} × {:.0} GB / {:.0} MB = {:.1} in a server, {:.1} in a virtual machine",
            one.name,
            number::significant(model.vms(), 3),
            one.cache.to("GB"),
            model.buffer().to("MB"),
            model.of_vm(one) * model.vms(),
            model.of_vm(one),
        )
    });
    vec![
        Formula {
            result: SEGMENT,
            formula: "as stated, or Σ(size of each object), or Σ(bit rate × segment time)",
            example: size(model.segment),
            inputs: &["segment", "object.size", "object.rate", "segment-time"],
            source: "000 §2.2.3, Table 3",
        },
        Formula {
            result: BUFFER,
            formula: "segment × buffer / segment time",
            example: format!(
                "{} × {} = {:.0} MB",
                size(model.segment),
                number::significant(model.segments, 4),
                model.buffer().to("MB")
            ),
            inputs: &["segment", "buffer", "segment-time"],
            source: "000 equations of §2.2.3",
        },
        Formula {
            result: CHANNELS,
            formula: "cache of the server / buffer of a channel; / sockets for a socket; / virtual \
                      machines for one of them",
            example,
            inputs: &["configuration.store", "configuration.stores", "sockets", "vms-per-socket"],
            source: "000 equations of §2.2.3",
        },
    ]
}

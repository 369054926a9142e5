//! An outcome as a report: a page, or text for a terminal.

use super::{Outcome, Step, Verdict};
use freshet_base::units::format_bytes;
use freshet_load::measurement::{Latency, Series as TimeSeries};
use freshet_report::{
    Axis, Block, Cell, Column, Document, KeyFigure, Plot, Section, Series, Table,
};

/// Lines in one plot at most; more cannot be told apart.
const LINES_MAX: usize = 6;

/// The whole report.
pub fn document(outcome: &Outcome) -> Document {
    let date = date(outcome.started_unix_ms);
    let summary = format!(
        "{} at {}, measured on {date} in {:.0} s{}. Method: {}.",
        outcome.server,
        outcome.target,
        outcome.seconds,
        // What makes its own load says in its tables how often.
        match outcome.steps.len() {
            0 => String::new(),
            many => format!(" with {many} loads"),
        },
        outcome.source,
    );
    let footer = format!("freshet lab {}, {date}", outcome.scenario);
    let title = format!("{}: {}", outcome.title, outcome.server);
    let mut document = Document::new(title).summary(summary).footer(footer);
    notes(outcome, &mut document);
    document.push(indicators(outcome));
    let mut section = Section::new("Results");
    for plot in &outcome.plots {
        section.push(Block::from(extra_plot(plot)));
    }
    for extra in &outcome.tables {
        section.push(Block::from(extra_table(extra)));
    }
    over_steps(outcome, &mut section);
    if !section.blocks.is_empty() {
        document.push(section);
    }
    if !outcome.steps.is_empty() {
        document.push(loads(outcome));
        document.push(over_time(outcome));
        document.push(costs(outcome));
    }
    document.push(settings(outcome));
    document
}

/// What a terminal shows: warnings, indicators, and what each load did. The rest is in the page.
pub fn summary(outcome: &Outcome) -> Document {
    let mut document = Document::new(format!("{}: {}", outcome.title, outcome.server));
    notes(outcome, &mut document);
    let mut table =
        Table::new([Column::text("indicator"), Column::number("measured"), Column::text("wanted")]);
    for kpi in &outcome.kpis {
        let wanted = if kpi.wanted.is_empty() { "–" } else { &kpi.wanted };
        table.push::<Cell>([kpi.name.as_str().into(), measured(kpi), wanted.into()]);
    }
    document.push(Section::new("Indicators").with(table));
    let mut section = Section::new("Loads");
    let mut table = Table::new([
        Column::text("load"),
        Column::number("Gbit/s"),
        Column::number("requests/s"),
        Column::number("last byte, ms"),
        Column::number("99 %, ms"),
        Column::number("hits, %"),
        Column::number("errors"),
    ]);
    for step in &outcome.steps {
        let m = &step.measured;
        let [last, slow] = times(&m.last_byte);
        table.push([
            label(step, outcome),
            number(m.goodput_bps / 1e9),
            number(m.requests_per_second),
            last,
            slow,
            m.byte_hit_ratio.map_or_else(|| "–".to_owned(), |r| format!("{:.1}", r * 100.0)),
            m.errors.total().to_string(),
        ]);
    }
    if table.rows.is_empty() {
        for extra in &outcome.tables {
            section.push(Block::from(extra_table(extra)));
        }
    } else {
        section.push(Block::from(table));
    }
    document.with(section)
}

/// A number with as many digits as matter.
pub(crate) fn number(value: f64) -> String {
    freshet_report::number::significant(value, 4)
}

/// The report's word for a verdict; none for what is not judged.
pub(crate) fn as_verdict(verdict: Verdict) -> Option<freshet_report::Verdict> {
    match verdict {
        Verdict::Pass => Some(freshet_report::Verdict::Pass),
        Verdict::Fail => Some(freshet_report::Verdict::Fail),
        Verdict::Open => None,
    }
}

/// What a reader must not miss.
fn notes(outcome: &Outcome, document: &mut Document) {
    if let Some(why) = &outcome.cut_short {
        document.push(Block::note(format!(
            "This run is not complete: {why}. What is here was measured until then."
        )));
    }
    for warning in &outcome.warnings {
        document.push(Block::note(warning.clone()));
    }
}

/// A figure with its unit and its verdict.
fn measured(kpi: &super::Kpi) -> Cell {
    let value = kpi.value.map_or_else(
        || "not measured".to_owned(),
        |value| format!("{} {}", number(value), kpi.unit).trim().to_owned(),
    );
    match as_verdict(kpi.verdict) {
        Some(verdict) => Cell::judged(value, verdict),
        None => Cell::from(value),
    }
}

fn indicators(outcome: &Outcome) -> Section {
    let mut section = Section::new("Indicators");
    for kpi in outcome.kpis.iter().take(6) {
        let Some(value) = kpi.value else { continue };
        let text = format!("{} {}", number(value), kpi.unit);
        let mut figure = KeyFigure::new(&kpi.name, text.trim());
        if !kpi.wanted.is_empty() {
            figure = figure.limit(&kpi.wanted);
        }
        if let Some(verdict) = as_verdict(kpi.verdict) {
            figure = figure.verdict(verdict);
        }
        section.push(figure);
    }
    let mut table = Table::new([
        Column::text("indicator"),
        Column::number("measured"),
        Column::text("wanted"),
        Column::text("published"),
    ])
    .caption("Published figures are of other machines and networks: they say what the study found, not what \
              this one should reach.");
    for kpi in &outcome.kpis {
        let wanted = if kpi.wanted.is_empty() { "–" } else { &kpi.wanted };
        let published = if kpi.published.is_empty() { "–" } else { &kpi.published };
        table.push::<Cell>([
            kpi.name.as_str().into(),
            measured(kpi),
            wanted.into(),
            published.into(),
        ]);
    }
    section.with(table)
}

/// A table without the columns that say nothing in any row.
fn extra_table(extra: &super::ExtraTable) -> Table {
    let says = |index: usize| {
        index == 0 || extra.rows.iter().any(|row| row.get(index).is_some_and(|cell| cell != "–"))
    };
    let kept: Vec<usize> = (0..extra.columns.len()).filter(|index| says(*index)).collect();
    let columns = kept.iter().filter_map(|index| {
        let title = extra.columns.get(*index)?;
        Some(if *index == 0 { Column::text(title) } else { Column::number(title) })
    });
    let mut table = Table::new(columns).caption(&extra.caption);
    for row in &extra.rows {
        let cells = kept.iter().map(|index| row.get(*index).cloned().unwrap_or_default());
        table.push(cells.map(Cell::from));
    }
    table
}

fn extra_plot(plot: &super::ExtraPlot) -> Plot {
    let y = Axis::new(&plot.y).least(0.0, if plot.y.ends_with('%') { 100.0 } else { 0.0 });
    let mut drawn = Plot::lines(&plot.title, Axis::new(&plot.x), y);
    for (name, points) in &plot.series {
        drawn.push(Series::new(name, points.clone()));
    }
    match &plot.limit {
        Some((name, value)) => drawn.limit(name, *value),
        None => drawn,
    }
}

/// Throughput and response times over the steps, where their axis has several places.
fn over_steps(outcome: &Outcome, section: &mut Section) {
    let mut places: Vec<f64> = outcome.steps.iter().map(|step| step.x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    if places.len() < 2 || !outcome.plots.is_empty() {
        return;
    }
    let is_wide = places.first().is_some_and(|first| *first > 0.0)
        && places.last().zip(places.first()).is_some_and(|(last, first)| last / first > 20.0);
    let axis = || {
        let axis = Axis::new(&outcome.axis);
        if is_wide { axis.log() } else { axis }
    };
    let mean = |of: &dyn Fn(&Step) -> f64| -> Vec<(f64, f64)> {
        places
            .iter()
            .map(|place| {
                let values: Vec<f64> =
                    outcome.steps.iter().filter(|step| step.x == *place).map(of).collect();
                (*place, values.iter().sum::<f64>() / values.len().max(1) as f64)
            })
            .collect()
    };
    let mut plot =
        Plot::lines("Throughput", axis(), Axis::new("rate").unit("Gbit/s").least(0.0, 0.0));
    plot.push(Series::new("goodput", mean(&|step| step.measured.goodput_bps / 1e9)));
    if outcome.steps.iter().any(|step| step.measured.throughput_bps.is_some()) {
        let on_wire =
            |step: &Step| step.measured.throughput_bps.map_or(f64::NAN, |bits| bits / 1e9);
        plot.push(Series::new("on the wire", mean(&on_wire)));
    }
    section.push(Block::from(plot));
    let mut plot = Plot::lines("Response times", axis(), Axis::new("time").unit("ms").log());
    plot.push(Series::new("first byte, mean", mean(&|s| s.measured.first_byte.mean_us / 1e3)));
    if has_last_bytes(outcome) {
        let slow = |step: &Step| step.measured.last_byte.p99_us as f64 / 1e3;
        plot.push(Series::new("last byte, mean", mean(&|s| s.measured.last_byte.mean_us / 1e3)));
        plot.push(Series::new("last byte, 99 %", mean(&slow)));
    }
    section.push(Block::from(plot));
}

/// Players know when a response began, not when it ended.
fn has_last_bytes(outcome: &Outcome) -> bool {
    outcome.steps.iter().any(|step| step.measured.last_byte.count > 0)
}

/// A mean and the 99th percentile in milliseconds; dashes where nothing was measured.
fn times(latency: &Latency) -> [String; 2] {
    if latency.count == 0 {
        return ["–", "–"].map(str::to_owned);
    }
    [number(latency.mean_us / 1e3), number(latency.p99_us as f64 / 1e3)]
}

fn loads(outcome: &Outcome) -> Section {
    let mut table = Table::new([
        Column::text("load"),
        Column::text("protocol"),
        Column::number("Gbit/s"),
        Column::number("requests/s"),
        Column::number("first byte, ms"),
        Column::number("last byte, ms"),
        Column::number("99 %, ms"),
        Column::number("byte hits, %"),
        Column::number("connections"),
        Column::number("errors"),
    ])
    .caption("Means, and the time within which 99 % of the responses were complete.");
    for step in &outcome.steps {
        let m = &step.measured;
        let ([first, _], [last, slow]) = (times(&m.first_byte), times(&m.last_byte));
        table.push([
            label(step, outcome),
            protocol(step),
            number(m.goodput_bps / 1e9),
            number(m.requests_per_second),
            first,
            last,
            slow,
            m.byte_hit_ratio.map_or_else(|| "–".to_owned(), |r| format!("{:.2}", r * 100.0)),
            m.connections_peak.to_string(),
            m.errors.total().to_string(),
        ]);
    }
    let mut section = Section::new("Loads").with(table);
    let mut classes = Table::new([
        Column::text("load"),
        Column::text("object"),
        Column::number("responses"),
        Column::number("first byte, ms"),
        Column::number("last byte, ms"),
        Column::number("99 %, ms"),
    ])
    .caption("By kind of object");
    let picked = picked(outcome);
    for step in &picked {
        if step.measured.classes.len() < 2 {
            continue;
        }
        for class in &step.measured.classes {
            classes.push([
                step.name.clone(),
                class.name.clone(),
                class.requests.to_string(),
                number(class.first_byte.mean_us / 1e3),
                number(class.last_byte.mean_us / 1e3),
                number(class.last_byte.p99_us as f64 / 1e3),
            ]);
        }
    }
    if !classes.rows.is_empty() {
        section.push(Block::from(classes));
    }
    let mut plot = Plot::percentiles(
        "Time to the last byte by percentile",
        Axis::new("time").unit("ms").log(),
    );
    let mut has_any = false;
    for step in picked {
        let curve = &step.measured.last_byte.curve;
        let points: Vec<(f64, f64)> =
            curve.iter().map(|(share, us)| (share * 100.0, *us as f64 / 1e3)).collect();
        if !points.is_empty() {
            has_any = true;
            plot.push(Series::new(&step.name, points));
        }
    }
    if has_any {
        section.push(Block::from(plot));
    }
    section
}

/// One run of each load, as many as a plot shows; of more, evenly from the first to the last.
fn picked(outcome: &Outcome) -> Vec<&Step> {
    let first: Vec<&Step> = outcome.steps.iter().filter(|step| step.run == 1).collect();
    if first.len() <= LINES_MAX {
        return first;
    }
    let last = first.len() - 1;
    (0..LINES_MAX).filter_map(|n| first.get(n * last / (LINES_MAX - 1)).copied()).collect()
}

/// What clients spoke; who played or idled did not say.
fn protocol(step: &Step) -> String {
    match step.measured.protocol.as_str() {
        "" => "–".to_owned(),
        spoken => spoken.to_owned(),
    }
}

fn label(step: &Step, outcome: &Outcome) -> String {
    let runs = outcome.steps.iter().filter(|other| other.name == step.name).count();
    if runs > 1 { format!("{}, run {}", step.name, step.run) } else { step.name.clone() }
}

fn over_time(outcome: &Outcome) -> Section {
    let mut section = Section::new("Over time");
    let picked = picked(outcome);
    let seconds = || Axis::new("time").unit("s");
    type Of = fn(&TimeSeries, usize) -> Option<f64>;
    let all: [(&str, Axis, Of); 7] = [
        ("Throughput", Axis::new("goodput").unit("Gbit/s").least(0.0, 0.0), |s, i| {
            s.bits_per_second.get(i).map(|bits| bits / 1e9)
        }),
        ("Byte hit ratio", Axis::new("byte hits").unit("%").least(0.0, 100.0), |s, i| {
            s.byte_hit_ratio.get(i).copied().flatten().map(|ratio| ratio * 100.0)
        }),
        ("Time to the last byte, 99 %", Axis::new("time").unit("ms").least(0.0, 0.0), |s, i| {
            s.p99_us.get(i).map(|us| *us as f64 / 1e3)
        }),
        ("Server's processor time", Axis::new("processors in use").least(0.0, 0.0), |s, i| {
            s.server_cores.get(i).copied().flatten()
        }),
        ("Server's memory", Axis::new("resident").unit("MB").least(0.0, 0.0), |s, i| {
            s.server_memory_bytes.get(i).copied().flatten().map(|bytes| bytes as f64 / 1e6)
        }),
        ("Power", Axis::new("power").unit("W").least(0.0, 0.0), |s, i| {
            s.watts.get(i).copied().flatten()
        }),
        (
            "Generator's busiest thread",
            Axis::new("share of a processor").unit("%").least(0.0, 100.0),
            |s, i| s.client_busy.get(i).map(|share| share * 100.0),
        ),
    ];
    let has_last = has_last_bytes(outcome);
    for (title, axis, of) in all {
        let title = if has_last { title.to_owned() } else { title.replace("last", "first") };
        let mut plot = Plot::lines(title, seconds(), axis);
        let mut has_any = false;
        for step in &picked {
            let series = &step.measured.series;
            let points: Vec<(f64, f64)> = series
                .at_s
                .iter()
                .enumerate()
                .map(|(index, at)| (*at, of(series, index).unwrap_or(f64::NAN)))
                .collect();
            let drawn = points.iter().filter(|(_, y)| y.is_finite()).count();
            if drawn >= 2 {
                has_any = true;
                plot.push(Series::new(&step.name, points));
            }
        }
        if has_any {
            section.push(Block::from(plot));
        }
    }
    if section.blocks.is_empty() {
        section.push(Block::paragraph("The loads were too short for more than one figure each."));
    }
    section
}

fn costs(outcome: &Outcome) -> Section {
    let mut table = Table::new([
        Column::text("load"),
        Column::number("server, cores"),
        Column::number("server, CPU s/GB"),
        Column::number("server, MB"),
        Column::number("generator, CPU s/GB"),
        Column::number("generator, busy %"),
        Column::number("sent twice, MB"),
        Column::number("out of order"),
        Column::number("datagrams, in for one out"),
    ])
    .caption("Processor time of the server includes its kernel's part. What the server sent twice is known \
              where it runs on the generator's machine; how many datagrams came for each that was sent, over HTTP/3.");
    for step in &outcome.steps {
        let m = &step.measured;
        let server = m.server.as_ref();
        let dash = || "–".to_owned();
        let tcp = m.tcp.as_ref();
        table.push([
            label(step, outcome),
            server.map_or_else(dash, |s| number(s.cores)),
            server.map_or_else(dash, |s| number(s.cpu_seconds_per_gb)),
            server.map_or_else(dash, |s| number(s.memory_bytes as f64 / 1e6)),
            number(m.client.cpu_seconds_per_gb),
            format!("{:.0}", m.client.busiest * 100.0),
            tcp.and_then(|tcp| tcp.server_repeated_bytes)
                .map_or_else(dash, |bytes| number(bytes as f64 / 1e6)),
            tcp.map_or_else(dash, |tcp| tcp.out_of_order.to_string()),
            m.quic.filter(|quic| quic.datagrams_sent > 0).map_or_else(dash, |quic| {
                number(quic.datagrams_received as f64 / quic.datagrams_sent as f64)
            }),
        ]);
    }
    let mut section = Section::new("What it cost").with(table);
    let server = outcome.steps.iter().find_map(|step| step.measured.server.as_ref());
    let power = outcome.steps.iter().find_map(|step| step.measured.power.as_ref());
    if let Some(server) = server {
        section.push(Block::paragraph(format!("Server: {}.", server.source)));
    }
    if let Some(power) = power {
        section.push(Block::paragraph(format!("Power: {}.", power.source)));
    }
    section
}

fn settings(outcome: &Outcome) -> Section {
    let mut table = Table::new([Column::text("setting"), Column::text("value")]);
    for (name, value) in &outcome.settings {
        table.push([name.as_str(), value.as_str()]);
    }
    let machine = &outcome.machine;
    table.push([
        "generator's machine".to_owned(),
        format!(
            "{}, {} processors, {}, Linux {}",
            machine.processor,
            machine.processors,
            format_bytes(machine.memory_bytes),
            machine.kernel
        ),
    ]);
    Section::new("Settings").with(table)
}

/// A day as `2026-01-31`.
fn date(unix_ms: u64) -> String {
    freshet_media::mpd::time::instant_text(freshet_base::clock::UnixMillis(unix_ms))
        .chars()
        .take(10)
        .collect()
}

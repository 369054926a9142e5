//! `run`: a scenario of one's own, from a TOML file.
//!
//! ```toml
//! title = "Two sizes, then a rush"
//!
//! [variables]
//! title = { zipf = 500, exponent = 0.8 }   # also: { uniform = [1, 500] }, "random"
//!
//! [[requests]]
//! class = "1 MB"
//! path = "/download/1MB/film-{title}-{1-20}"
//! weight = 3                                # 1 if not said
//!
//! [[requests]]
//! class = "100 KB"
//! path = "/download/100KB/{random}"
//!
//! [[steps]]
//! connections = 100                         # closed loop; with rate = 500 sessions come by the clock
//! duration = "20s"
//! protocol = "http3"                        # else what the command says; streams = 4 at a time
//!
//! [[kpi]]
//! figure = "p99_ms"
//! at_most = 50
//! ```

use super::{Bench, Kpi, Moment, Outcome, Setup};
use freshet_base::units::parse_duration;
use freshet_load::LabError;
use freshet_load::measurement::{Latency, Measurement};
use freshet_load::workload::{Draw, Workload};
use freshet_load::{Load, Pace, Protocol};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Steps of a file at most.
const STEPS_MAX: usize = 1000;

/// A figure that a KPI can name: name, unit, what it is, whether more is better.
pub type Figure = (&'static str, &'static str, fn(&Measurement) -> Option<f64>, bool);

/// Figures that a KPI can name.
pub const FIGURES: [Figure; 14] = [
    ("goodput_gbps", "Gbit/s", |m| Some(m.goodput_bps / 1e9), true),
    ("throughput_gbps", "Gbit/s", |m| m.throughput_bps.map(|bits| bits / 1e9), true),
    ("requests_per_second", "1/s", |m| Some(m.requests_per_second), true),
    ("byte_hit_ratio", "", |m| m.byte_hit_ratio, true),
    ("hit_ratio", "", |m| m.hit_ratio, true),
    ("ttfb_mean_ms", "ms", |m| time_ms(&m.first_byte, m.first_byte.mean_us), false),
    ("ttfb_p99_ms", "ms", |m| time_ms(&m.first_byte, m.first_byte.p99_us as f64), false),
    ("mean_ms", "ms", |m| time_ms(&m.last_byte, m.last_byte.mean_us), false),
    ("p50_ms", "ms", |m| time_ms(&m.last_byte, m.last_byte.p50_us as f64), false),
    ("p99_ms", "ms", |m| time_ms(&m.last_byte, m.last_byte.p99_us as f64), false),
    ("errors", "", |m| Some(m.errors.total() as f64), false),
    ("server_cpu_seconds_per_gb", "s/GB", |m| Some(m.server.as_ref()?.cpu_seconds_per_gb), false),
    ("server_memory_mb", "MB", |m| Some(m.server.as_ref()?.memory_bytes as f64 / 1e6), false),
    ("requests_per_second_per_watt", "1/s/W", Measurement::requests_per_joule, true),
];

/// A time in milliseconds; none where nothing was timed.
fn time_ms(of: &Latency, micros: f64) -> Option<f64> {
    (of.count > 0).then_some(micros / 1e3)
}

/// A file, as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: Option<String>,
    #[serde(default)]
    variables: BTreeMap<String, Variable>,
    #[serde(default)]
    requests: Vec<Request>,
    #[serde(default)]
    steps: Vec<StepSettings>,
    #[serde(default)]
    kpi: Vec<KpiSettings>,
}

#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected { uniform = [1, 500] }, { zipf = 500, exponent = 0.8 } or \"random\""
)]
enum Variable {
    Uniform { uniform: [u64; 2] },
    Zipf { zipf: u64, exponent: Option<f64> },
    Word(String),
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform { uniform: [first, last] } => {
                write!(f, "{{ uniform = [{first}, {last}] }}")
            }
            Self::Zipf { zipf, exponent: None } => write!(f, "{{ zipf = {zipf} }}"),
            Self::Zipf { zipf, exponent: Some(exponent) } => {
                write!(f, "{{ zipf = {zipf}, exponent = {exponent} }}")
            }
            Self::Word(word) => write!(f, "\"{word}\""),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    class: String,
    path: String,
    weight: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepSettings {
    name: Option<String>,
    connections: Option<usize>,
    rate: Option<f64>,
    random: Option<bool>,
    think: Option<[String; 2]>,
    duration: Option<String>,
    warmup: Option<String>,
    runs: Option<u32>,
    close: Option<bool>,
    protocol: Option<String>,
    streams: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KpiSettings {
    figure: String,
    at_least: Option<f64>,
    at_most: Option<f64>,
}

/// A scenario read from a file.
#[derive(Debug)]
pub struct Custom {
    path: PathBuf,
    text: String,
    file: File,
    workload: [Workload; 2],
}

/// Where the table of this name and index, from 0, stands in a file.
fn place(text: &str, table: &str, index: usize) -> String {
    let heading = format!("[[{table}]]");
    let mut lines = text.lines().enumerate().filter(|(_, line)| line.trim().starts_with(&heading));
    let line =
        lines.nth(index).map_or_else(String::new, |(line, _)| format!("line {}, ", line + 1));
    format!("{line}{heading} number {}", index + 1)
}

impl Custom {
    /// Reads a file.
    ///
    /// # Errors
    /// [`LabError::ConfigFile`] with line and column where the file is wrong.
    pub fn read(path: &Path) -> Result<Self, LabError> {
        let refuse = |why: String| LabError::ConfigFile { path: path.to_owned(), why };
        let text = freshet_base::file::read_text(path, FILE_BYTES_MAX)
            .map_err(|error| refuse(error.to_string()))?;
        Self::parse(path, &text).map_err(refuse)
    }

    /// Reads the text of the file at `path`.
    fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| format!("\n{error}"))?;
        if file.requests.is_empty() {
            return Err("it has no [[requests]]".to_owned());
        }
        if file.steps.is_empty() || file.steps.len() > STEPS_MAX {
            return Err(format!(
                "it has {} [[steps]]; 1 to {STEPS_MAX} are fine",
                file.steps.len()
            ));
        }
        for (index, kpi) in file.kpi.iter().enumerate() {
            let place = place(text, "kpi", index);
            if !FIGURES.iter().any(|(name, ..)| *name == kpi.figure) {
                let known: Vec<&str> = FIGURES.iter().map(|(name, ..)| *name).collect();
                return Err(format!(
                    "{place} names the figure `{}`, which there is not. There are: {}",
                    kpi.figure,
                    known.join(", ")
                ));
            }
            if kpi.at_least.is_none() == kpi.at_most.is_none() {
                let figure = &kpi.figure;
                return Err(format!("{place}: {figure} needs at_least or at_most, one of them"));
            }
        }
        let workload = [workload(text, &file, false)?, workload(text, &file, true)?];
        let custom = Self { path: path.to_owned(), text: text.to_owned(), workload, file };
        for (index, step) in custom.file.steps.iter().enumerate() {
            let in_step = |why: String| format!("{}: {why}", place(text, "steps", index));
            step.spans().map_err(in_step)?;
            step.protocol().map_err(in_step)?;
        }
        Ok(custom)
    }

    /// Runs it.
    ///
    /// # Errors
    /// [`LabError`] when it cannot begin.
    pub fn run(&self, setup: Setup, show: &mut dyn FnMut(&Moment)) -> Result<Outcome, LabError> {
        let title = self.file.title.as_deref().unwrap_or("A scenario of one's own");
        let mut bench = Bench::new("run", title, "a file of the user", setup, show)?;
        let runs: u32 = self.file.steps.iter().map(|step| step.runs.unwrap_or(1)).sum();
        let by_rate = self.file.steps.iter().all(|step| step.rate.is_some());
        bench.plan(runs as usize, if by_rate { "requests per second" } else { "connections" });
        // What cannot begin is said before anything else is measured.
        for (index, step) in self.file.steps.iter().enumerate() {
            self.load(step, &bench).and_then(|load| load.validate()).map_err(|error| {
                let why = format!("{}: {error}", place(&self.text, "steps", index));
                LabError::ConfigFile { path: self.path.clone(), why }
            })?;
        }
        for step in &self.file.steps {
            for _ in 0..step.runs.unwrap_or(1) {
                if bench.is_over() {
                    break;
                }
                let load = self.load(step, &bench)?;
                let x = step.rate.filter(|_| by_rate).unwrap_or(load.connections as f64);
                let spoken = step
                    .protocol
                    .as_ref()
                    .map_or_else(String::new, |_| format!(" of {}", load.protocol.name()));
                let name = step.name.clone().unwrap_or_else(|| match step.rate {
                    Some(rate) => {
                        format!("{rate} per second on {} connections{spoken}", load.connections)
                    }
                    None => format!("{} connections{spoken}", load.connections),
                });
                bench.measure(&name, x, load)?;
            }
        }
        for wanted in &self.file.kpi {
            judge(&mut bench, wanted);
        }
        Ok(bench.finish())
    }

    /// The load of a step.
    fn load(&self, step: &StepSettings, bench: &Bench<'_>) -> Result<Load, LabError> {
        let workload = self.workload[usize::from(step.close.unwrap_or(false))].clone();
        step.apply(bench.load(workload))
    }
}

/// The worst of all steps is judged.
fn judge(bench: &mut Bench<'_>, wanted: &KpiSettings) {
    let Some((name, unit, figure, more)) = FIGURES.iter().find(|(name, ..)| *name == wanted.figure)
    else {
        return;
    };
    let values: Option<Vec<f64>> =
        bench.outcome.steps.iter().map(|step| figure(&step.measured)).collect();
    let worst = |values: Vec<f64>| {
        values.into_iter().reduce(if wanted.at_least.is_some() { f64::min } else { f64::max })
    };
    let value = values.and_then(worst);
    let (words, fine) = match (wanted.at_least, wanted.at_most) {
        (Some(limit), _) => (format!("at least {limit}"), value.is_some_and(|v| v >= limit)),
        (_, Some(limit)) => (format!("at most {limit}"), value.is_some_and(|v| v <= limit)),
        _ => return,
    };
    let kpi =
        Kpi::new(format!("{name}, worst load"), value, unit).wanted(words, fine).better(*more);
    bench.outcome.kpis.push(kpi);
}

impl StepSettings {
    fn spans(&self) -> Result<[Option<Duration>; 4], String> {
        let read = |name: &str, text: &Option<String>| -> Result<Option<Duration>, String> {
            let Some(text) = text else { return Ok(None) };
            let span =
                parse_duration(text).map_err(|error| format!("{name} = \"{text}\": {error}"))?;
            Ok(Some(span))
        };
        let (shortest, longest) = match &self.think {
            Some([shortest, longest]) => (Some(shortest.clone()), Some(longest.clone())),
            None => (None, None),
        };
        Ok([
            read("duration", &self.duration)?,
            read("warmup", &self.warmup)?,
            read("think", &shortest)?,
            read("think", &longest)?,
        ])
    }

    fn protocol(&self) -> Result<Option<Protocol>, String> {
        let Some(word) = &self.protocol else { return Ok(None) };
        let found = Protocol::ALL.into_iter().find(|protocol| protocol.word() == word);
        let words = Protocol::ALL.map(Protocol::word).join(", ");
        Ok(Some(found.ok_or_else(|| format!("protocol = \"{word}\": there are {words}"))?))
    }

    fn apply(&self, mut load: Load) -> Result<Load, LabError> {
        let refuse =
            |expected| move |got| LabError::ConfigSetting { setting: "steps", got, expected };
        let [duration, warmup, shortest, longest] =
            self.spans().map_err(refuse("times with units, as 30s"))?;
        let protocol = self.protocol().map_err(refuse("a protocol that there is"))?;
        load.protocol = protocol.unwrap_or(load.protocol);
        load.streams = self.streams.unwrap_or(load.streams);
        load.connections = self.connections.unwrap_or(load.connections);
        load.threads = load.threads.min(load.connections.max(1));
        load.duration = duration.unwrap_or(load.duration);
        load.warmup = warmup.unwrap_or(load.warmup);
        load.pace = match self.rate {
            Some(per_second) => Pace::Open { per_second, is_random: self.random.unwrap_or(false) },
            None => Pace::Closed { think: shortest.zip(longest) },
        };
        Ok(load)
    }
}

/// What a file asks for; where it cannot be, what is wrong, and where.
fn workload(text: &str, file: &File, close: bool) -> Result<Workload, String> {
    let mut workload = Workload::default();
    for (name, variable) in &file.variables {
        let refuse = |error: LabError| format!("[variables] {name} = {variable}: {error}");
        let draw = match variable {
            Variable::Uniform { uniform: [first, last] } if first <= last => {
                Draw::Uniform { first: *first, last: *last }
            }
            Variable::Zipf { zipf, exponent } => {
                Draw::zipf(*zipf, exponent.unwrap_or(1.0)).map_err(refuse)?
            }
            Variable::Word(word) if word == "random" => Draw::Random,
            other => {
                return Err(format!(
                    "[variables] {name} = {other}: it must be {{ uniform = [1, 500] }}, {{ zipf = 500 }} or \
                     \"random\""
                ));
            }
        };
        workload = workload.variable(name, draw).map_err(refuse)?;
    }
    for (index, request) in file.requests.iter().enumerate() {
        let weight = request.weight.unwrap_or(1.0);
        workload = workload
            .session(weight, close, &[(&request.class, &request.path)])
            .map_err(|error| format!("{}: {error}", place(text, "requests", index)))?;
    }
    Ok(workload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_without_answers_has_no_response_times() {
        let none = Measurement::default();
        for (name, _, figure, _) in FIGURES.iter().filter(|(name, ..)| name.ends_with("_ms")) {
            assert_eq!(figure(&none), None, "{name}");
        }
    }

    const GOOD: &str = r#"
        title = "x"
        [variables]
        t = { zipf = 50, exponent = 0.8 }
        u = { uniform = [1, 9] }
        r = "random"
        [[requests]]
        class = "a"
        path = "/a/{t}/{u}/{r}/{1-20}"
        weight = 3
        [[steps]]
        connections = 10
        duration = "2s"
        think = ["10ms", "20ms"]
        [[steps]]
        rate = 100
        protocol = "http3"
        streams = 4
        [[kpi]]
        figure = "p99_ms"
        at_most = 50
    "#;

    fn parse(text: &str) -> Result<Custom, String> {
        Custom::parse("x.toml".as_ref(), text)
    }

    #[test]
    fn a_step_that_cannot_be_is_named_with_its_file_and_line() {
        let target = freshet_load::target::Target::parse("http://127.0.0.1:9", false).unwrap();
        let custom = parse(&GOOD.replace("rate = 100", "rate = 1e300")).unwrap();
        let error = custom.run(Setup::new(target), &mut |_| {}).unwrap_err().to_string();
        let wanted = "x.toml: line 15, [[steps]] number 2: rate is 1e300; it must be more than 0";
        assert!(error.starts_with(wanted), "{error}");
    }

    #[test]
    fn a_whole_file_is_understood() {
        let custom = parse(GOOD).unwrap();
        assert_eq!(custom.file.steps.len(), 2);
        assert_eq!(custom.workload[0].classes(), ["a"]);
    }

    #[test]
    fn mistakes_are_shown_where_they_are() {
        for (from, to, why) in [
            ("title = \"x\"", "titel = \"x\"", "titel"),
            ("\"2s\"", "\"2 parsecs\"", "line 11, [[steps]] number 1: duration = \"2 parsecs\""),
            ("\"http3\"", "\"spdy\"", "[[steps]] number 2: protocol = \"spdy\": there are http1"),
            ("{t}", "{nobody}", "line 7, [[requests]] number 1: the path `/a/{nobody}/{u}"),
            ("{t}", "{nobody}", "`nobody` is neither a range"),
            ("p99_ms", "p77_ms", "There are: goodput_gbps"),
            ("at_most = 50", "", "needs at_least or at_most"),
            ("weight = 3", "weight = -3", "weight is -3"),
            ("weight = 3", "weight = \"much\"", "line"),
            (
                "uniform = [1, 9]",
                "uniform = [9, 1]",
                "[variables] u = { uniform = [9, 1] }: it must",
            ),
            ("\"random\"", "\"often\"", "r = "),
        ] {
            let error = parse(&GOOD.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(why), "{to}: {error}");
        }
        for empty in ["requests = []\nsteps = []", ""] {
            assert!(parse(empty).unwrap_err().contains("no [[requests]]"));
        }
        let error = Custom::read("/dev/zero".as_ref()).unwrap_err().to_string();
        assert!(error.contains("more than"), "{error}");
    }
}

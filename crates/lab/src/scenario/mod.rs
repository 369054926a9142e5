//! Scenarios: the methods of the studies this laboratory repeats, against any server.
//!
//! A scenario decides which loads to run, one after the other, and what their figures mean. What they
//! share is in [`Setup`] and [`Bench`]; what comes out is an [`Outcome`], which is written as JSON and
//! shown as a report.

pub mod channels;
pub mod compare;
pub mod connections;
pub mod custom;
pub mod energy;
#[cfg(feature = "router")]
pub mod forwarding;
pub mod imdb;
pub mod library;
pub mod players;
pub mod report;
mod result;
pub mod sweep;

pub use result::{ExtraPlot, ExtraTable, Kpi, Machine, Outcome, SCHEMA, Step, Verdict};

use crate::origin::{self, Origin};
use freshet_base::clock::UnixMillis;
use freshet_load::error::{LabError, require};
use freshet_load::measurement::{ClientFigures, Measurement};
use freshet_load::observe::{Observer, Power, PowerSource, Server};
use freshet_load::target::Target;
use freshet_load::workload::{Draw, Workload};
use freshet_load::{Load, Progress, Protocol, TlsOptions, Version, run};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The studies, as reports cite them.
pub mod studies {
    /// Live-linear channels per node.
    pub const CHANNELS: &str = "Increase CDN Channel Density at a Reduced TCO (AT&T and Intel)";
    /// The node of 500 Gbps.
    pub const THROUGHPUT: &str =
        "Delivering up to 500 Gbps Throughput for Next-Gen CDNs (Varnish Software and Intel)";
    /// Energy.
    pub const ENERGY: &str = "Tests Show Energy Management Impact of Intel-based Varnish CDS (Varnish Software and Intel)";
    /// The dense edge node.
    pub const DENSE: &str =
        "Dense Storage Enables More Responsive Content Delivery Networks (StorageReview)";
    /// The 5G MEC platform.
    pub const MEC: &str = "5G MEC platform tests (SK Telecom and Intel)";
}

/// Share of responses that may fail before a load counts as failed.
pub const ERRORS_MAX: f64 = 0.001;

/// Objects of a data set at most: more than fit any cache this is for.
pub const OBJECTS_MAX: u64 = 1_000_000_000;

/// Connections that fill a cache beforehand.
const FILL_CONNECTIONS: usize = 16;

/// What all scenarios have in common.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The server.
    pub target: Target,
    /// What its user calls it, for reports.
    pub server_name: String,
    /// What clients speak.
    pub protocol: Protocol,
    /// Requests at a time on a connection of HTTP/2 or HTTP/3.
    pub streams: usize,
    /// TLS, for targets that speak it.
    pub tls: TlsOptions,
    /// Threads of the generator.
    pub threads: usize,
    /// Processors to pin them to.
    pub cpus: Vec<usize>,
    /// Warm-up of each load.
    pub warmup: Duration,
    /// Length of each load.
    pub duration: Duration,
    /// How often figures are taken.
    pub interval: Duration,
    /// Limit of a response.
    pub timeout: Duration,
    /// One response in this many has its content checked.
    pub check_one_in: u32,
    /// What random choices follow from.
    pub seed: u64,
    /// Processes of the server, where it is local.
    pub pids: Vec<u32>,
    /// Its metrics, where it has such.
    pub metrics: Option<String>,
    /// Power.
    pub power: PowerSource,
    /// Where to serve as the cache's origin.
    pub with_origin: Option<SocketAddr>,
    /// What that origin offers.
    pub origin: origin::Settings,
    /// Whether the cache is filled before it is measured.
    pub prefill: bool,
    /// Set from outside to end early.
    pub stop: Arc<AtomicBool>,
}

impl Setup {
    /// The defaults of the commands.
    pub fn new(target: Target) -> Self {
        Self {
            server_name: target.url(),
            target,
            protocol: Protocol::default(),
            streams: 1,
            tls: TlsOptions::default(),
            threads: 1,
            cpus: Vec::new(),
            warmup: Duration::from_secs(2),
            duration: Duration::from_secs(30),
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(20),
            check_one_in: 1000,
            seed: 1,
            pids: Vec::new(),
            metrics: None,
            power: PowerSource::Local,
            with_origin: None,
            origin: origin::Settings { any_channel: true, ..origin::Settings::default() },
            prefill: true,
            stop: Arc::default(),
        }
    }

    /// Refuses what would be out of bounds in the first load, which may come minutes later.
    fn validate(&self) -> Result<(), LabError> {
        let mut load = Load::new(self.target.clone(), Workload::single("any", "/")?);
        self.apply(&mut load);
        load.connections = load.threads.max(1);
        load.validate()?;
        for cpu in self.cpus.iter().copied() {
            // On a thread of its own, which nobody needs afterwards.
            let pin = move || freshet_net::topology::pin_current_thread(&[cpu]).is_ok();
            let is_pinned = std::thread::spawn(pin).join().unwrap_or(false);
            require(is_pinned, "cpus", cpu, "a processor that this program may run on")?;
        }
        Ok(())
    }

    /// Makes a load go by these settings.
    fn apply(&self, load: &mut Load) {
        load.protocol = self.protocol;
        load.streams = self.streams;
        load.tls = self.tls.clone();
        load.threads = self.threads;
        load.cpus.clone_from(&self.cpus);
        load.warmup = self.warmup;
        load.duration = self.duration;
        load.interval = self.interval;
        load.timeout = self.timeout;
        load.check_one_in = self.check_one_in;
    }
}

/// What goes on in a scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moment {
    /// The step.
    pub step: String,
    /// Which step of how many, from 1; the number may grow where a search goes on.
    pub number: usize,
    /// How many there are, as far as known.
    pub steps: usize,
    /// Seconds to go, all further steps included.
    pub left_s: f64,
    /// The load.
    pub progress: Progress,
}

/// A scenario at work: what it measures with, and what it has found so far.
pub struct Bench<'a> {
    /// What all loads have in common.
    pub setup: Setup,
    /// What has been found.
    pub outcome: Outcome,
    observer: Observer,
    /// The origin behind the server, where it was started here.
    origin: Option<Arc<Origin>>,
    show: &'a mut dyn FnMut(&Moment),
    planned: usize,
    begun: Instant,
}

impl<'a> Bench<'a> {
    /// Gets ready: starts the origin if one is wanted, finds the server's processes and a meter.
    ///
    /// # Errors
    /// [`LabError`] when something named by the user is not there.
    pub fn new(
        scenario: &str,
        title: &str,
        source: &str,
        setup: Setup,
        show: &'a mut dyn FnMut(&Moment),
    ) -> Result<Self, LabError> {
        setup.validate()?;
        let mut observer = Observer::default();
        let mut warnings = Vec::new();
        if let Some(url) = &setup.metrics {
            observer.server = Some(Server::metrics(url)?);
        } else if !setup.pids.is_empty() {
            observer.server = Some(Server::processes(&setup.pids)?);
        }
        match Power::find(&setup.power) {
            Ok(power) => observer.power = Some(power),
            // A meter that was named and does not work is a mistake; none found is a fact.
            Err(error) if matches!(setup.power, PowerSource::Local | PowerSource::Off) => {
                warnings.push(error.to_string());
            }
            Err(error) => return Err(error),
        }
        let mut lab_origin = None;
        if let Some(listen) = setup.with_origin {
            let settings = origin::Settings { listen, ..setup.origin.clone() };
            let origin = Arc::new(Origin::start(settings)?);
            lab_origin = Some(Arc::clone(&origin));
            observer.origin = Some(origin);
        }
        let outcome = Outcome {
            schema: SCHEMA,
            scenario: scenario.to_owned(),
            title: title.to_owned(),
            source: source.to_owned(),
            server: setup.server_name.clone(),
            target: setup.target.url(),
            started_unix_ms: UnixMillis::now().0,
            machine: Machine::here(),
            settings: settings_of(&setup),
            axis: "connections".to_owned(),
            warnings,
            ..Outcome::default()
        };
        let begun = Instant::now();
        Ok(Self { setup, outcome, observer, origin: lab_origin, show, planned: 0, begun })
    }

    /// Says how many steps there will be, and what the axis of plots over them is.
    pub fn plan(&mut self, steps: usize, axis: &str) {
        self.planned = steps;
        axis.clone_into(&mut self.outcome.axis);
    }

    /// Notes a setting of the scenario.
    pub fn note(&mut self, name: &str, value: impl ToString) {
        self.outcome.settings.push((name.to_owned(), value.to_string()));
    }

    /// Adds what a reader must not miss, once.
    pub fn warn(&mut self, warning: impl Into<String>) {
        let warning = warning.into();
        if !self.outcome.warnings.contains(&warning) {
            self.outcome.warnings.push(warning);
        }
    }

    /// Whether the scenario is to end: it was interrupted, or the server has died.
    pub fn is_over(&self) -> bool {
        self.setup.stop.load(Ordering::Relaxed) || self.outcome.cut_short.is_some()
    }

    /// A load of these settings for `workload`.
    pub fn load(&self, workload: Workload) -> Load {
        let setup = &self.setup;
        let mut load = Load::new(setup.target.clone(), workload);
        setup.apply(&mut load);
        load.known_content = self.origin.as_ref().map(|origin| origin.known_content());
        load.seed = setup.seed.wrapping_add(self.outcome.steps.len() as u64);
        load.run = self.outcome.started_unix_ms;
        load.stop = Arc::clone(&setup.stop);
        load
    }

    /// Runs a load and keeps its figures as a step. One that cannot begin behind others ends the scenario
    /// without figures of its own: what was measured before is not lost with it.
    ///
    /// # Errors
    /// As [`run`], of the first load.
    pub fn measure(&mut self, name: &str, x: f64, load: Load) -> Result<&Step, LabError> {
        let connections = load.connections;
        let measured = match self.run(name, load) {
            Err(error) if !self.outcome.steps.is_empty() => {
                let cut_short = Some(error.to_string());
                Measurement { connections, cut_short, ..Measurement::default() }
            }
            measured => measured?,
        };
        if let Some(why) = &measured.cut_short {
            self.outcome.cut_short = Some(format!("{name}: {why}"));
        }
        self.warn_of_generator(name, &measured.client);
        if let Some(rule) = &measured.violation {
            self.warn(format!("{name}: the server broke HTTP: {rule}"));
        }
        if measured.errors.content > 0 {
            self.warn(format!("{name}: {} responses had wrong bytes", measured.errors.content));
        }
        if measured.asked_again > 0 {
            self.warn(format!(
                "{name}: {} requests were asked again, as the server closed their connection before it \
                 answered",
                measured.asked_again
            ));
        }
        if let Some(due) = measured.due.filter(|_| !measured.keeps_up()) {
            self.warn(format!(
                "{name}: of {due} requests that were due, {} were answered within the time and {} never: \
                 the rate was not reached",
                measured.requests, measured.errors.unserved
            ));
        }
        let run = 1 + self.outcome.steps.iter().filter(|step| step.name == name).count() as u32;
        self.outcome.steps.push(Step { name: name.to_owned(), run, x, measured });
        Ok(self.outcome.steps.last().expect("it was pushed"))
    }

    /// Says where the generator, not the server, may have been the limit.
    pub(super) fn warn_of_generator(&mut self, name: &str, client: &ClientFigures) {
        if client.is_limit {
            self.warn(format!(
                "{name}: the generator was busy for {:.0} % of the time and waited for a processor for \
                 {:.0} %: it, not the server, may be the limit. Give it more threads or processors of \
                 its own (--threads, --cpus)",
                client.busiest * 100.0,
                client.waited * 100.0
            ));
        }
    }

    /// Asks for each thing once, so that it is in the cache; `workload` has a sequence and `count` are
    /// its requests in all.
    ///
    /// # Errors
    /// As [`run`]; [`LabError::TargetSilent`] when most requests fail, with what the server said. Behind
    /// other loads either ends the scenario instead.
    pub fn fill(&mut self, workload: Workload, count: u64) -> Result<(), LabError> {
        if !self.setup.prefill || self.is_over() || count == 0 {
            return Ok(());
        }
        let mut load = self.load(workload);
        load.requests_max = Some(count);
        load.connections = FILL_CONNECTIONS.max(load.threads);
        load.streams = 1;
        load.check_one_in = 0;
        load.duration = freshet_load::DURATION_MAX;
        let measured = match self.run("filling the cache", load) {
            Err(error) => return self.fail_to_fill(error),
            Ok(measured) => measured,
        };
        if let Some(why) = measured.cut_short {
            self.outcome.cut_short = Some(format!("filling the cache: {why}"));
            return Ok(());
        }
        let failed = measured.errors.total();
        if failed * 2 > count {
            return self.fail_to_fill(LabError::TargetSilent {
                url: self.setup.target.url(),
                why: format!(
                    "of {count} requests to fill the cache {failed} failed ({} with a status of 400 or \
                     above). Does the cache reach its origin, and does the origin serve these paths \
                     (--path)?",
                    measured.errors.status
                ),
            });
        }
        if failed > 0 {
            self.warn(format!("{failed} of {count} requests failed while the cache was filled"));
        }
        Ok(())
    }

    fn fail_to_fill(&mut self, error: LabError) -> Result<(), LabError> {
        if self.outcome.steps.is_empty() {
            return Err(error);
        }
        self.outcome.cut_short = Some(format!("filling the cache: {error}"));
        Ok(())
    }

    /// Watches the server without a load, and keeps that as a step.
    pub fn idle(&mut self, name: &str, span: Duration) {
        let begun = Instant::now();
        let first = self.observer.read(0.0);
        let mut series = freshet_load::measurement::Series::default();
        let mut before = (0.0, first);
        while begun.elapsed() < span && !self.is_over() {
            let left = span.saturating_sub(begun.elapsed());
            std::thread::sleep(self.setup.interval.min(left));
            let now = begun.elapsed().as_secs_f64();
            let reading = self.observer.read(now);
            let seconds = (now - before.0).max(1e-6);
            let rate = |new: Option<f64>, old: Option<f64>| Some((new? - old?).max(0.0) / seconds);
            series.at_s.push(now);
            series.bits_per_second.push(0.0);
            series.requests_per_second.push(0.0);
            series.byte_hit_ratio.push(None);
            series.p50_us.push(0);
            series.p99_us.push(0);
            series.errors.push(0);
            series.connections.push(0);
            series.client_busy.push(0.0);
            series.server_cores.push(rate(reading.cpu_seconds, before.1.cpu_seconds));
            series.server_memory_bytes.push(reading.memory_bytes);
            series.watts.push(rate(reading.joules, before.1.joules));
            before = (now, reading);
            let left_s = span.as_secs_f64() - now;
            self.tell(name, &Progress { at_s: now, left_s, ..Progress::default() });
        }
        let seconds = begun.elapsed().as_secs_f64().max(1e-6);
        let last = before.1;
        let measured = Measurement {
            seconds,
            server: self.observer.server.as_ref().and_then(|server| {
                let cpu_seconds = last.cpu_seconds? - first.cpu_seconds?;
                Some(freshet_load::measurement::ServerFigures {
                    source: server.describe(),
                    cpu_seconds,
                    cores: cpu_seconds / seconds,
                    memory_bytes: last.memory_bytes.unwrap_or(0),
                    ..Default::default()
                })
            }),
            power: self.observer.power.as_ref().and_then(|power| {
                let watts = (last.joules? - first.joules?) / seconds;
                Some(freshet_load::measurement::PowerFigures { source: power.describe(), watts })
            }),
            series,
            ..Default::default()
        };
        self.outcome.steps.push(Step { name: name.to_owned(), run: 1, x: 0.0, measured });
    }

    /// What was found, complete.
    pub fn finish(mut self) -> Outcome {
        self.outcome.seconds = self.begun.elapsed().as_secs_f64();
        if self.setup.stop.load(Ordering::Relaxed) && self.outcome.cut_short.is_none() {
            self.outcome.cut_short = Some("it was interrupted".to_owned());
        }
        let failed: u64 = self.outcome.steps.iter().map(|s| s.measured.errors.total()).sum();
        let asked: u64 = self.outcome.steps.iter().map(|s| s.measured.asked).sum();
        if asked > 0 {
            let share = (failed as f64 / asked as f64).min(1.0) * 100.0;
            let fine = share <= ERRORS_MAX * 100.0;
            let kpi = Kpi::new("errors, share of requests", share, "%")
                .wanted("at most 0.1 %", fine)
                .better(false);
            self.outcome.kpis.push(kpi);
        }
        let checked: u64 = self.outcome.steps.iter().map(|s| s.measured.checked).sum();
        let wrong: u64 = self.outcome.steps.iter().map(|s| s.measured.errors.content).sum();
        if checked > 0 {
            let name = format!("wrong bytes, of {checked} responses checked");
            let kpi = Kpi::new(name, wrong as f64, "").wanted("none", wrong == 0).better(false);
            self.outcome.kpis.push(kpi);
        }
        self.outcome
    }

    fn run(&mut self, name: &str, load: Load) -> Result<Measurement, LabError> {
        let Self { observer, show, outcome, planned, setup, .. } = self;
        let number = outcome.steps.len() + 1;
        let further = planned.saturating_sub(number) as f64;
        let each = (setup.warmup + setup.duration).as_secs_f64();
        run(load, observer, &mut |progress| {
            show(&Moment {
                step: name.to_owned(),
                number,
                steps: (*planned).max(number),
                left_s: progress.left_s + further * each,
                progress: progress.clone(),
            });
            true
        })
    }

    fn tell(&mut self, step: &str, progress: &Progress) {
        let number = self.outcome.steps.len() + 1;
        (self.show)(&Moment {
            step: step.to_owned(),
            number,
            steps: self.planned.max(number),
            left_s: progress.left_s,
            progress: progress.clone(),
        });
    }
}

fn settings_of(setup: &Setup) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    let mut note = |name: &str, value: String| settings.push((name.to_owned(), value));
    note(
        "protocol",
        match (setup.protocol, setup.target.is_tls()) {
            (Protocol::Http3, _) => format!("HTTP/3, {} streams", setup.streams),
            (Protocol::Http2, true) => format!("HTTP/2 over TLS, {} streams", setup.streams),
            (Protocol::Http2, false) => format!("HTTP/2 in the clear, {} streams", setup.streams),
            (Protocol::Http1, true) => "HTTP/1.1 over TLS".to_owned(),
            (Protocol::Http1, false) => "HTTP/1.1 in the clear".to_owned(),
        },
    );
    if setup.target.is_tls() {
        let version = match setup.tls.version {
            Version::Any => "any version",
            Version::Tls12 => "1.2",
            Version::Tls13 => "1.3",
        };
        let again = if setup.tls.resume { "resumed" } else { "not resumed" };
        note("TLS", format!("{version}, sessions {again}"));
    }
    note("threads", setup.threads.to_string());
    if !setup.cpus.is_empty() {
        let cpus: Vec<String> = setup.cpus.iter().map(usize::to_string).collect();
        note("pinned to processors", cpus.join(", "));
    }
    note("warm-up", format!("{:?}", setup.warmup));
    note("each load", format!("{:?}", setup.duration));
    note("time limit", format!("{:?}", setup.timeout));
    note("seed", setup.seed.to_string());
    if !setup.prefill {
        note("cache filled beforehand", "no".to_owned());
    }
    note(
        "content checked",
        match setup.check_one_in {
            0 => "never".to_owned(),
            count => format!("one response in {count}"),
        },
    );
    if let Some(address) = setup.with_origin {
        note("origin", format!("the lab's own, on {address}"));
    }
    settings
}

/// Objects of one size: a path with `{n}` in it, which is 1 to `objects`.
#[derive(Clone, Debug, PartialEq)]
pub struct DataSet {
    /// Name of the class.
    pub class: String,
    /// The path template; `{n}` is the number of the object.
    pub path: String,
    /// How many objects there are.
    pub objects: u64,
}

impl DataSet {
    /// Uniform random requests, a share of them for objects that nobody has asked for before.
    ///
    /// # Errors
    /// [`LabError`] when the path or the number is no good.
    pub fn workload(&self, unknown_share: f64) -> Result<Workload, LabError> {
        let first_known = self.draw(Draw::Uniform { first: 1, last: self.objects })?;
        if unknown_share <= 0.0 {
            return first_known.session(1.0, false, &[(&self.class, &self.path)]);
        }
        let random = self.path.replacen("{n}", "{random}", 1);
        first_known.session(1.0 - unknown_share, false, &[(&self.class, &self.path)])?.session(
            unknown_share,
            false,
            &[(&self.class, &random)],
        )
    }

    /// Each object once.
    ///
    /// # Errors
    /// As [`DataSet::workload`].
    pub fn filling(&self) -> Result<Workload, LabError> {
        let draw = Draw::Sequence { first: 1, divide: 1, modulo: self.objects };
        self.draw(draw)?.session(1.0, false, &[(&self.class, &self.path)])
    }

    fn draw(&self, draw: Draw) -> Result<Workload, LabError> {
        let fine = (1..=OBJECTS_MAX).contains(&self.objects);
        require(fine, "objects", self.objects, "1 to 1000000000")?;
        if !self.path.contains("{n}") {
            return Err(LabError::ConfigTemplate {
                path: self.path.clone(),
                why: "it needs {n}, the number of an object".to_owned(),
            });
        }
        Workload::default().variable("n", draw)
    }
}

/// The path of objects of a size at the lab's origin.
pub fn object_path(size: &str, set: &str) -> String {
    format!("/download/{size}/{set}-{{n}}")
}

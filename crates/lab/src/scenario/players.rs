//! `players`: players of HLS and DASH that read real playlists, keep a buffer and change bit rates.
//!
//! They say what viewers notice: how long a programme takes to start, how often and how long it stands
//! still, and in which quality it plays.

use super::{Bench, ExtraTable, Kpi, Moment, Outcome, Setup, Step};
use crate::viewers::{self, Figures, Pace, Quality, Target, Tls, Viewers, Viewing};
use freshet_load::error::{LabError, require};
use freshet_load::measurement::{
    ClientFigures, GENERATOR_BUSY_MAX, HitSource, Latency, Measurement, OriginFigures,
    PowerFigures, Series, ServerFigures,
};
use freshet_load::observe::Reading;
use freshet_load::{Errors, Progress, Protocol, SILENCE_MAX};
use freshet_net::address::Address;
use freshet_net::tls::client::{ClientOptions, client_config};
use std::time::{Duration, Instant};

/// Standing still of at most this share of the time is what viewers accept.
const STALLED_MAX: f64 = 0.005;

/// A programme starts within this time for 95 % of the viewers or more.
const START_UP_MAX_MS: f64 = 2000.0;

/// A cache that asks for each part once, but for one in a hundred.
const REQUESTS_A_PART_MAX: f64 = 1.01;

/// What the scenario can be told.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Numbers of players, one after the other.
    pub players: Vec<usize>,
    /// What they watch.
    pub audience: Vec<Viewing>,
    /// They begin evenly over this time.
    pub ramp: Duration,
    /// Segments they keep ahead.
    pub buffer_segments: u32,
    /// Which quality they choose.
    pub quality: Quality,
    /// How long they stay with a programme, about; to its end without.
    pub stay: Option<Duration>,
    /// Whether they say how they are doing (CMCD).
    pub says: bool,
}

/// Runs it.
///
/// # Errors
/// [`LabError`] when it cannot begin.
pub fn run(
    setup: Setup,
    options: &Options,
    show: &mut dyn FnMut(&Moment),
) -> Result<Outcome, LabError> {
    let spoken = setup.protocol;
    let expected = "HTTP/1.1, which players speak";
    require(spoken == Protocol::Http1, "protocol", spoken.name(), expected)?;
    require(!options.players.is_empty(), "players", "none", "at least one number")?;
    freshet_load::knock(&setup.target, setup.protocol)?;
    let mut bench = Bench::new(
        "players",
        "Players of HLS and DASH",
        "players with playlists, buffers and bit rates that \
         follow the throughput",
        setup,
        show,
    )?;
    bench.note("programmes", options.audience.len());
    bench.note("quality", format!("{:?}", options.quality).to_lowercase());
    bench.note("segments kept ahead", options.buffer_segments);
    bench.plan(options.players.len(), "players");
    let target = target(&bench.setup)?;
    let mut table = ExtraTable {
        caption: "What viewers notice".to_owned(),
        columns: [
            "players",
            "start-up, ms",
            "99 %, ms",
            "stalls",
            "standing still, %",
            "bit rate, Mbit/s",
            "switches",
            "segments",
            "behind live, ms",
            "a part after its end, 99 %, ms",
            "origin requests a part",
            "errors",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: Vec::new(),
    };
    let mut most = None;
    for players in &options.players {
        if bench.is_over() {
            break;
        }
        let before = news(&bench);
        let figures = watch(&mut bench, &target, options, *players)?;
        let asked = before.zip(news(&bench)).and_then(|(before, now)| requests_a_part(before, now));
        let stalled = share_stalled(&figures);
        let start_up = figures.start_up;
        table.rows.push(vec![
            players.to_string(),
            format!("{:.0}", start_up.p50_us as f64 / 1e3),
            format!("{:.0}", start_up.p99_us as f64 / 1e3),
            figures.late.to_string(),
            format!("{:.2}", stalled * 100.0),
            format!("{:.2}", bit_rate(&figures) / 1e6),
            figures.switches.to_string(),
            figures.segments.to_string(),
            millis(figures.behind_live, figures.behind_live.p50_us),
            millis(figures.delivery, figures.delivery.p99_us),
            asked.map_or_else(|| "-".to_owned(), |requests| format!("{requests:.2}")),
            figures.errors.total().to_string(),
        ]);
        most = Some((*players, figures, asked));
    }
    bench.outcome.tables.push(table);
    if let Some((players, figures, asked)) = most {
        let start_up = (figures.start_up.count > 0).then(|| figures.start_up.p99_us as f64 / 1e3);
        let stalled = (figures.played_ms > 0).then(|| share_stalled(&figures) * 100.0);
        let rate = (figures.played_ms > 0).then(|| bit_rate(&figures) / 1e6);
        let kpis = [
            Kpi::new(format!("start-up, 99 % of {players} players"), start_up, "ms")
                .wanted("at most 2,000 ms", start_up.is_some_and(|ms| ms <= START_UP_MAX_MS))
                .better(false),
            Kpi::new("share of the time standing still", stalled, "%")
                .wanted("at most 0.5 %", stalled.is_some_and(|share| share <= STALLED_MAX * 100.0))
                .better(false),
            Kpi::new("mean bit rate", rate, "Mbit/s")
                .published("6.77 Mbps (1080p) and 26.82 Mbps (4K) a stream, 500 Gbps study")
                .better(true),
        ];
        bench.outcome.kpis.extend(kpis);
        let behind = figures.behind_live;
        if behind.count > 0 {
            let behind_s = behind.p50_us as f64 / 1e6;
            bench
                .outcome
                .kpis
                .push(Kpi::new("behind live, half", Some(behind_s), "s").better(false));
        }
        let delivery = figures.delivery;
        if delivery.count > 0 {
            for (share, micros) in [("half", delivery.p50_us), ("99 %", delivery.p99_us)] {
                let name = format!("a part after its end, {share}");
                let kpi = Kpi::new(name, Some(micros as f64 / 1e3), "ms").better(false);
                bench.outcome.kpis.push(kpi);
            }
        }
        if let Some(requests) = asked {
            let kpi = Kpi::new("origin requests a part", Some(requests), "")
                .wanted("at most 1.01", requests <= REQUESTS_A_PART_MAX)
                .better(false);
            bench.outcome.kpis.push(kpi);
        }
    }
    Ok(bench.finish())
}

/// What the lab's origin was asked of low latency so far, and how much of that again.
fn news(bench: &Bench<'_>) -> Option<(u64, u64)> {
    let totals = bench.origin.as_ref()?.totals();
    Some((totals.news, totals.news_again))
}

/// Requests for each part and each new version of a playlist; `None` where there were none.
fn requests_a_part(before: (u64, u64), now: (u64, u64)) -> Option<f64> {
    let (all, again) = (now.0 - before.0, now.1 - before.1);
    (all > again).then(|| all as f64 / (all - again) as f64)
}

fn millis(of: viewers::Latency, micros: u64) -> String {
    if of.count == 0 { "-".to_owned() } else { format!("{:.0}", micros as f64 / 1e3) }
}

fn target(setup: &Setup) -> Result<Target, LabError> {
    let tls = match &setup.target.tls {
        None => None,
        Some(name) => {
            let options = ClientOptions {
                ca: setup.tls.ca.clone(),
                verify: setup.tls.ca.is_some(),
                ..ClientOptions::default()
            };
            let config =
                client_config(&options).map_err(|error| LabError::LocalTls(error.to_string()))?;
            Some(Tls { config, server_name: name.to_str().into_owned() })
        }
    };
    Ok(Target {
        address: Address::Tcp(setup.target.address),
        authority: setup.target.authority.clone(),
        tls,
    })
}

/// Runs a group of players and keeps what they saw as a step.
fn watch(
    bench: &mut Bench<'_>,
    target: &Target,
    options: &Options,
    players: usize,
) -> Result<Figures, LabError> {
    let name = format!("{players} players");
    let mut settings = viewers::Settings::new(target.clone(), options.audience.clone(), players);
    settings.ramp = options.ramp;
    settings.quality = options.quality;
    settings.pace = Pace::RealTime;
    (settings.stay, settings.says) = (options.stay, options.says);
    settings.buffer_segments = options.buffer_segments;
    settings.threads = bench.setup.threads.min(players);
    settings.seed = bench.setup.seed;
    let begun = Instant::now();
    let first = bench.observer.read(0.0);
    let cpu_before = process_cpu_seconds();
    let group = Viewers::start(settings)?;
    let span = options.ramp + bench.setup.duration;
    // When responses last came, and how many there were then, of them and of failed connections.
    let mut answered = (Duration::ZERO, 0, 0);
    let mut watch = Watch {
        series: Series::default(),
        before: (0.0, first, Figures::default()),
        cpu: cpu_before,
    };
    while begun.elapsed() < span && !bench.is_over() {
        let left = span.saturating_sub(begun.elapsed());
        std::thread::sleep(bench.setup.interval.min(left));
        let now = begun.elapsed().as_secs_f64();
        let reading = bench.observer.read(now);
        let figures = group.figures();
        let latency = group.take_interval().latency();
        let progress = watch.add(now, reading, figures, latency, span.as_secs_f64());
        bench.tell(&name, &progress);
        if figures.responses > answered.1 {
            answered = (begun.elapsed(), figures.responses, figures.errors.connect);
        }
        let silence = begun.elapsed().saturating_sub(answered.0);
        if silence > SILENCE_MAX && figures.errors.connect > answered.2 {
            bench.outcome.cut_short = Some(format!(
                "{name}: the server stopped answering {:.0} s before the end was noticed",
                silence.as_secs_f64()
            ));
        }
    }
    let seconds = begun.elapsed().as_secs_f64().max(1e-6);
    let end = bench.observer.read(seconds);
    let figures = group.stop();
    let cpu = process_cpu_seconds() - cpu_before;
    let why = || "it was interrupted".to_owned();
    let cut_short = bench.is_over().then(|| bench.outcome.cut_short.clone().unwrap_or_else(why));
    let threads = bench.setup.threads.min(players);
    let busiest = busiest_half(&watch.series.client_busy) / threads as f64;
    let mut measured = measurement(&figures, seconds, watch.series);
    measured.connections = players;
    measured.client = ClientFigures {
        threads,
        cpu_seconds: cpu,
        cpu_us_per_request: cpu * 1e6 / figures.responses.max(1) as f64,
        cpu_seconds_per_gb: cpu * 1e9 / figures.body_bytes.max(1) as f64,
        busiest,
        is_limit: busiest > GENERATOR_BUSY_MAX,
        ..ClientFigures::default()
    };
    measured.cut_short = cut_short;
    measured.origin = end.origin.zip(first.origin).map(|(end, first)| OriginFigures {
        requests: end.requests.saturating_sub(first.requests),
        body_bytes: end.body_bytes.saturating_sub(first.body_bytes),
    });
    measured.byte_hit_ratio = measured
        .origin
        .filter(|_| figures.body_bytes > 0)
        .map(|origin| (1.0 - origin.body_bytes as f64 / figures.body_bytes as f64).clamp(0.0, 1.0));
    if measured.byte_hit_ratio.is_some() {
        measured.hit_source = HitSource::Origin;
    }
    measured.server = bench.observer.server.as_ref().and_then(|server| {
        let cpu_seconds = end.cpu_seconds? - first.cpu_seconds?;
        Some(ServerFigures {
            source: server.describe(),
            cpu_seconds,
            cores: cpu_seconds / seconds,
            cpu_us_per_request: cpu_seconds * 1e6 / figures.responses.max(1) as f64,
            cpu_seconds_per_gb: cpu_seconds * 1e9 / figures.body_bytes.max(1) as f64,
            memory_bytes: end.memory_bytes.unwrap_or(0),
        })
    });
    measured.power = bench.observer.power.as_ref().and_then(|power| {
        let watts = (end.joules? - first.joules?) / seconds;
        Some(PowerFigures { source: power.describe(), watts })
    });
    bench.warn_of_generator(&name, &measured.client);
    bench.outcome.steps.push(Step { name, run: 1, x: players as f64, measured });
    Ok(figures)
}

/// The mean of the greater half: players that are still coming leave a generator idle at first.
fn busiest_half(busy: &[f64]) -> f64 {
    let mut busy = busy.to_vec();
    busy.sort_by(f64::total_cmp);
    let half = &busy[busy.len() / 2..];
    half.iter().sum::<f64>() / half.len().max(1) as f64
}

/// What is seen of a group interval by interval.
struct Watch {
    series: Series,
    before: (f64, Reading, Figures),
    /// Processor time of this process so far.
    cpu: f64,
}

impl Watch {
    fn add(
        &mut self,
        now: f64,
        reading: Reading,
        figures: Figures,
        latency: viewers::Latency,
        span_s: f64,
    ) -> Progress {
        let (then, before, old) = &self.before;
        let seconds = (now - then).max(1e-6);
        let rate = |new: Option<f64>, old: Option<f64>| Some((new? - old?).max(0.0) / seconds);
        let more = |new: u64, old: u64| new.saturating_sub(old);
        let bytes = more(figures.body_bytes, old.body_bytes);
        let bits_per_second = bytes as f64 * 8.0 / seconds;
        let requests_per_second = more(figures.responses, old.responses) as f64 / seconds;
        let series = &mut self.series;
        series.at_s.push(now);
        series.bits_per_second.push(bits_per_second);
        series.requests_per_second.push(requests_per_second);
        let origin = reading.origin.zip(before.origin);
        let ratio = origin.filter(|_| bytes > 0).map(|(now, then)| {
            (1.0 - more(now.body_bytes, then.body_bytes) as f64 / bytes as f64).clamp(0.0, 1.0)
        });
        series.byte_hit_ratio.push(ratio);
        series.p50_us.push(latency.p50_us);
        series.p99_us.push(latency.p99_us);
        series.errors.push(more(figures.errors.total(), old.errors.total()));
        series.connections.push(figures.watching);
        let cpu = process_cpu_seconds();
        series.client_busy.push((cpu - self.cpu) / seconds);
        self.cpu = cpu;
        series.server_cores.push(rate(reading.cpu_seconds, before.cpu_seconds));
        series.server_memory_bytes.push(reading.memory_bytes);
        series.watts.push(rate(reading.joules, before.joules));
        self.before = (now, reading, figures);
        Progress {
            at_s: now,
            left_s: (span_s - now).max(0.0),
            bits_per_second,
            requests_per_second,
            p99_us: latency.p99_us,
            byte_hit_ratio: ratio,
            errors: figures.errors.total(),
            connections: figures.watching,
        }
    }
}

fn measurement(figures: &Figures, seconds: f64, series: Series) -> Measurement {
    let first = figures.first_byte;
    let errors = Errors {
        connect: figures.errors.connect,
        status: figures.errors.status,
        protocol: figures.errors.manifest,
        closed: figures.errors.transfer,
        ..Errors::default()
    };
    Measurement {
        seconds,
        requests: figures.responses,
        asked: figures.responses + figures.unanswered,
        requests_per_second: figures.responses as f64 / seconds,
        body_bytes: figures.body_bytes,
        goodput_bps: figures.body_bytes as f64 * 8.0 / seconds,
        errors,
        connections_peak: series.connections.iter().copied().max().unwrap_or(0),
        connections_made: figures.connections,
        first_byte: Latency {
            count: first.count,
            mean_us: first.mean_us as f64,
            p50_us: first.p50_us,
            p90_us: first.p90_us,
            p99_us: first.p99_us,
            p999_us: first.p999_us,
            max_us: first.max_us,
            curve: Vec::new(),
        },
        received_bytes_in_all: figures.body_bytes,
        requests_in_all: figures.responses,
        series,
        ..Measurement::default()
    }
}

fn share_stalled(figures: &Figures) -> f64 {
    figures.stalled_ms as f64 / (figures.stalled_ms + figures.played_ms).max(1) as f64
}

fn bit_rate(figures: &Figures) -> f64 {
    figures.played_bits as f64 * 1000.0 / figures.played_ms.max(1) as f64
}

fn process_cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The programmes of the lab's origin, `channels` of them live and `titles` on demand, in both formats.
pub fn audience(channels: u32, titles: u32) -> Vec<Viewing> {
    let offer = crate::origin::Settings { channels, titles, ..crate::origin::Settings::default() };
    Viewing::all(&offer, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_response_that_is_an_error_is_one_request() {
        let errors = viewers::Errors { status: 10, connect: 10, ..viewers::Errors::default() };
        let figures = Figures { responses: 20, unanswered: 20, errors, ..Figures::default() };
        let measured = measurement(&figures, 1.0, Series::default());
        assert_eq!((measured.asked, measured.failed_share()), (40, 0.5));
    }

    #[test]
    fn a_generator_is_busy_as_in_its_busier_half() {
        let ramp_then_full = [0.1, 0.5, 0.98, 0.96, 0.97, 0.3];
        assert!(busiest_half(&ramp_then_full) > GENERATOR_BUSY_MAX);
        assert!(busiest_half(&[0.2, 0.8, 0.85]) < GENERATOR_BUSY_MAX);
        assert_eq!(busiest_half(&[]), 0.0);
    }
}

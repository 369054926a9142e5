//! Running a load: starts the threads, watches them and the server, and puts the figures together.

use super::h3::Quic;
use super::http3::quic_config;
use super::limits::{CONNECT_MAX, SILENCE_MAX, SPARE_DESCRIPTORS};
use super::measurement::{
    ClassFigures, ClientFigures, GENERATOR_BUSY_MAX, HitSource, Latency, Measurement,
    OriginFigures, PowerFigures, QuicFigures, Series, ServerFigures,
};
use super::meter::{Interval, Meter, histogram};
use super::thread::{Beat, Report, Thread, clock};
use super::{Load, Protocol, Shared, diag, tls};
use crate::error::LabError;
use crate::observe::{Observer, Reading};
use crate::target::Target;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the watching thread looks around.
const LOOK: Duration = Duration::from_millis(20);

/// How long a server may take to accept the first connection.
const FIRST_CONNECT_MAX: Duration = Duration::from_secs(5);

/// How often a server of HTTP/3 is knocked at: datagrams may be lost.
const KNOCKS: u32 = 5;

/// Bytes of a knock: what servers answer to (RFC 9000 §14.1).
const KNOCK_BYTES: usize = 1200;

/// What goes on, for whoever shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Seconds measured so far; negative while connections are made and the server warms up.
    pub at_s: f64,
    /// Seconds to go, as far as that is known.
    pub left_s: f64,
    /// Bits of bodies per second in the last interval.
    pub bits_per_second: f64,
    /// Responses per second in the last interval.
    pub requests_per_second: f64,
    /// 99 % of the responses were complete after this time.
    pub p99_us: u64,
    /// Share of bytes that were hits.
    pub byte_hit_ratio: Option<f64>,
    /// Errors so far.
    pub errors: u64,
    /// Connections that are open.
    pub connections: u64,
}

/// Runs `load` and returns what was measured. `show` is called some times a second; when it says
/// false, the load ends early with what there is. So it does when the server dies.
///
/// # Errors
/// [`LabError`] when the load cannot begin: settings out of bounds, no server, too few descriptors.
pub fn run(
    load: Load,
    observer: &mut Observer,
    show: &mut dyn FnMut(&Progress) -> bool,
) -> Result<Measurement, LabError> {
    load.validate()?;
    raise_descriptors(load.connections)?;
    let config = match (load.protocol, load.target.is_tls()) {
        (Protocol::Http3, _) => (None, Some(Quic::new(quic_config(&load.tls, None)?))),
        (_, true) => (Some(tls::client_config(&load.tls, load.protocol)?), None),
        (_, false) => (None, None),
    };
    knock(&load.target, load.protocol)?;
    let load = Arc::new(load);
    let shared = Arc::new(Shared::new(&load));
    let (sender, receiver) = channel();
    // Where all is counted, before the first request.
    let begin = load.counts_all().then(|| observer.read(0.0));
    let mut threads = Vec::with_capacity(load.threads);
    for number in 0..load.threads {
        let thread = Thread::new(&load, &shared, number, config.clone(), sender.clone())?;
        let cpu = load.cpus.get(number % load.cpus.len().max(1)).copied();
        let run = move || {
            if let Some(cpu) = cpu
                && let Err(error) = freshet_net::topology::pin_current_thread(&[cpu])
            {
                tracing::warn!(%error, "a thread of a load is not pinned");
            }
            thread.run()
        };
        let handle = std::thread::Builder::new()
            .name(format!("lab-load-{number}"))
            .spawn(run)
            .map_err(|error| LabError::LocalThread(error.kind()))?;
        threads.push(handle);
    }
    drop(sender);
    let mut watch = Watch::new(&load, &shared, receiver, begin);
    watch.run(observer, show, &threads);
    let mut reports = Vec::with_capacity(threads.len());
    for thread in threads {
        match thread.join() {
            Ok(report) => reports.push(report),
            Err(_) => watch.cut_short = Some("a thread of the generator panicked".to_owned()),
        }
    }
    let end = observer.read(clock(&shared) as f64 / 1e9);
    watch.collect();
    Ok(watch.measurement(reports, observer, end))
}

/// Allows the process as many descriptors as it needs.
fn raise_descriptors(connections: usize) -> Result<(), LabError> {
    let wanted = connections as u64 + SPARE_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    let (Some(now), most) = (limit.current, limit.maximum) else { return Ok(()) };
    if now >= wanted {
        return Ok(());
    }
    let raised = Rlimit { current: Some(most.unwrap_or(wanted).min(wanted)), maximum: most };
    let is_enough = most.is_none_or(|most| most >= wanted);
    if is_enough && setrlimit(Resource::Nofile, raised).is_ok() {
        return Ok(());
    }
    Err(LabError::LocalDescriptors { wanted: connections, allowed: most.unwrap_or(now) })
}

/// Looks whether anybody is there at all, to say so in plain words.
///
/// # Errors
/// [`LabError::TargetSilent`] where nobody is.
pub fn knock(target: &Target, protocol: Protocol) -> Result<(), LabError> {
    let address = target.address;
    let (heard, over) = match protocol {
        Protocol::Http3 => (knock_by_datagrams(address), ", over UDP"),
        _ => (TcpStream::connect_timeout(&address, FIRST_CONNECT_MAX).map(drop), ""),
    };
    heard.map_err(|error| LabError::TargetSilent {
        url: target.url(),
        why: format!("{error}. Does the server run, and does it listen on {address}{over}?"),
    })
}

/// Asks for a version of QUIC that there is not, which servers answer with those they know (RFC 9000 §6) and
/// remember nothing of.
fn knock_by_datagrams(address: SocketAddr) -> io::Result<()> {
    let any = match address {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(FIRST_CONNECT_MAX / KNOCKS))?;
    let mut datagram = [0; KNOCK_BYTES];
    // A long header, a version of those that are kept free (§15), and two ids of eight bytes.
    datagram[..6].copy_from_slice(&[0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8]);
    datagram[14] = 8;
    let mut answer = [0; KNOCK_BYTES];
    for _ in 0..KNOCKS {
        socket.send(&datagram)?;
        match socket.recv(&mut answer) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// An interval that some threads have reported.
#[derive(Debug)]
struct Row {
    sum: Interval,
    reported: usize,
    open: usize,
    busy: f64,
    waited: f64,
    reading: Option<Reading>,
}

/// The watching thread's view.
struct Watch<'a> {
    load: &'a Load,
    shared: &'a Shared,
    receiver: Receiver<Beat>,
    rows: Vec<Row>,
    /// Readings at the begin of the measuring and at its end, which is before the last answers come.
    begin: Option<Reading>,
    close: Option<Reading>,
    connections_peak: u64,
    errors: u64,
    cut_short: Option<String>,
    last: Progress,
}

impl<'a> Watch<'a> {
    fn new(
        load: &'a Load,
        shared: &'a Shared,
        receiver: Receiver<Beat>,
        begin: Option<Reading>,
    ) -> Self {
        Self {
            load,
            shared,
            receiver,
            rows: Vec::new(),
            begin,
            close: None,
            connections_peak: 0,
            errors: 0,
            cut_short: None,
            last: Progress::default(),
        }
    }

    /// Watches until the threads have ended.
    fn run(
        &mut self,
        observer: &mut Observer,
        show: &mut dyn FnMut(&Progress) -> bool,
        threads: &[JoinHandle<Report>],
    ) {
        let is_closed_by_session = self.load.workload.closes();
        let (warmup, duration) =
            (self.load.warmup.as_nanos() as u64, self.load.duration.as_nanos() as u64);
        if self.load.counts_all() {
            self.shared.until_ns.store(duration, Ordering::Relaxed);
        }
        let interval = self.load.interval.as_nanos() as u64;
        let mut next_reading = 0;
        while !threads.iter().all(JoinHandle::is_finished) {
            self.receive();
            let now = clock(self.shared);
            let from = self.shared.from();
            if from == u64::MAX {
                // Connections that sessions make themselves are not waited for.
                let open = self.shared.open_count();
                let wanted = if is_closed_by_session { 0 } else { self.load.connections };
                if open >= wanted || now >= CONNECT_MAX.as_nanos() as u64 {
                    let from = now + warmup;
                    self.shared.until_ns.store(from + duration, Ordering::Relaxed);
                    self.shared.from_ns.store(from, Ordering::Relaxed);
                }
                self.connections_peak = self.connections_peak.max(open as u64);
            } else if now >= from {
                if self.begin.is_none() {
                    self.begin = Some(observer.read(now as f64 / 1e9));
                    next_reading = from + interval;
                } else if now >= next_reading.max(from + interval) {
                    let index = ((now - from) / interval).saturating_sub(1) as usize;
                    let reading = observer.read(now as f64 / 1e9);
                    self.row(index).reading = Some(reading);
                    next_reading = from + interval * (index as u64 + 2);
                }
            }
            let is_closed = self.shared.closed.load(Ordering::Relaxed) == self.load.threads;
            if self.close.is_none() && (is_closed || now >= self.shared.until()) {
                self.close = Some(observer.read(now as f64 / 1e9));
            }
            self.look_for_life(now);
            let at = now as f64 / 1e9 - if from == u64::MAX { 0.0 } else { from as f64 / 1e9 };
            self.last.at_s = if from == u64::MAX { -(warmup as f64) / 1e9 } else { at };
            self.last.left_s = match self.shared.until() {
                u64::MAX => (warmup + duration) as f64 / 1e9,
                until => until.saturating_sub(now) as f64 / 1e9,
            };
            self.last.connections = self.last.connections.max(self.shared.open_count() as u64);
            if !show(&self.last) && !self.shared.is_stopped() {
                self.shared.is_aborted.store(true, Ordering::Relaxed);
            }
        }
        if self.cut_short.is_none() && self.shared.is_stopped() {
            self.cut_short = Some("it was interrupted".to_owned());
        }
    }

    /// Gives up when the server has died.
    fn look_for_life(&mut self, now: u64) {
        let answered = self.shared.answered_ns.load(Ordering::Relaxed);
        let silence = Duration::from_nanos(now.saturating_sub(answered));
        let refused = self.shared.refused.load(Ordering::Relaxed);
        let is_dead = silence > SILENCE_MAX && refused > 0
            || silence > self.load.timeout.max(SILENCE_MAX) + SILENCE_MAX;
        let pauses =
            matches!(&self.load.pace, super::Pace::Open { per_second, .. } if *per_second < 1.0);
        if is_dead && !pauses && !self.shared.is_stopped() {
            self.cut_short = Some(format!(
                "the server stopped answering {:.0} s before the end was noticed",
                silence.as_secs_f64()
            ));
            self.shared.is_dead.store(true, Ordering::Relaxed);
            self.shared.is_aborted.store(true, Ordering::Relaxed);
        }
    }

    fn row(&mut self, index: usize) -> &mut Row {
        while self.rows.len() <= index {
            self.rows.push(Row {
                sum: Interval::new(),
                reported: 0,
                open: 0,
                busy: 0.0,
                waited: 0.0,
                reading: None,
            });
        }
        &mut self.rows[index]
    }

    fn receive(&mut self) {
        // Readings are taken as close to the begin and the end of the measuring as can be.
        let now = clock(self.shared);
        let ahead =
            [self.shared.from(), self.shared.until()].into_iter().filter(|at| *at > now).min();
        let wait = ahead.map_or(LOOK, |at| LOOK.min(Duration::from_nanos(at - now)));
        match self.receiver.recv_timeout(wait) {
            Ok(beat) => self.add(beat),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK),
        }
    }

    /// Takes all that is left to take.
    fn collect(&mut self) {
        while let Ok(beat) = self.receiver.try_recv() {
            self.add(beat);
        }
    }

    fn add(&mut self, beat: Beat) {
        let threads = self.load.threads;
        let seconds = self.load.interval.as_secs_f64();
        self.errors += beat.interval.errors;
        let row = self.row(beat.index);
        row.sum.add(&beat.interval);
        row.reported += 1;
        row.open += beat.open;
        row.busy = row.busy.max(beat.busy);
        row.waited = row.waited.max(beat.waited);
        if row.reported == threads {
            let (sum, open) = (&row.sum, row.open as u64);
            let known = sum.hit_bytes + sum.miss_bytes;
            let last = Progress {
                bits_per_second: sum.body_bytes as f64 * 8.0 / seconds,
                requests_per_second: sum.requests as f64 / seconds,
                p99_us: sum.last.value_at_quantile(0.99),
                byte_hit_ratio: (known > 0).then(|| sum.hit_bytes as f64 / known as f64),
                connections: open,
                ..Progress::default()
            };
            self.connections_peak = self.connections_peak.max(open);
            self.last = Progress { errors: self.errors, ..last };
        }
    }

    fn measurement(
        mut self,
        reports: Vec<Report>,
        observer: &Observer,
        end: Reading,
    ) -> Measurement {
        let names = self.load.workload.classes();
        let (mut meter, mut tail) = (Meter::new(names.len()), Meter::new(names.len()));
        let (mut cpu_ns, mut spun_ns) = (0, 0);
        let (mut from, mut until) = (u64::MAX, 0);
        for report in &reports {
            meter.add(&report.meter);
            tail.add(&report.tail);
            cpu_ns += report.cpu_ns;
            spun_ns += report.spun_ns;
            from = from.min(report.from_ns);
            until = until.max(report.until_ns);
        }
        let tcp = diag::read(self.load.target.address);
        let is_open = |report: &Report| {
            report.connections.iter().filter(|connection| connection.is_open()).count() as u64
        };
        self.connections_peak = self.connections_peak.max(reports.iter().map(is_open).sum());
        // Until here they were kept open for the kernel to be asked.
        drop(reports);
        let seconds = (until.saturating_sub(from) as f64 / 1e9).max(1e-9);
        let requests: u64 = meter.classes.iter().map(|class| class.requests).sum();
        let tail_requests: u64 = tail.classes.iter().map(|class| class.requests).sum();
        let checked = meter.checked + tail.checked;
        // What was due by the clock is answered for, whenever that was; a closed loop asks for less instead.
        let late = match &self.load.pace {
            super::Pace::Open { .. } => meter.add_late(&tail),
            super::Pace::Closed { .. } => {
                meter.errors.content += tail.errors.content;
                0
            }
        };
        let due = match &self.load.pace {
            super::Pace::Open { .. } => {
                let each = self.load.workload.session_requests_mean();
                Some((meter.arrivals as f64 * each).round() as u64)
            }
            super::Pace::Closed { .. } => None,
        };
        let all = |of: fn(&super::meter::ClassTally) -> &hdrhistogram::Histogram<u64>| {
            let mut sum = histogram(3);
            for class in &meter.classes {
                let _ = sum.add(of(class));
            }
            Latency::of(&sum)
        };
        let (first_byte, last_byte) = (all(|class| &class.first), all(|class| &class.last));
        let classes = names.iter().zip(&meter.classes).map(|(name, class)| ClassFigures {
            name: name.clone(),
            requests: class.requests,
            body_bytes: class.body_bytes,
            first_byte: Latency::of(&class.first),
            last_byte: Latency::of(&class.last),
            byte_hit_ratio: ratio(class.hit_bytes, class.hit_bytes + class.miss_bytes),
        });
        let received_in_all = meter.received_bytes + tail.received_bytes;
        let begin = self.begin.unwrap_or_default();
        let close = self.close.unwrap_or(end);
        let watched_s = (close.at_s - begin.at_s).max(1e-9);
        let origin = end.origin.zip(begin.origin).map(|(end, begin)| OriginFigures {
            requests: end.requests.saturating_sub(begin.requests),
            body_bytes: end.body_bytes.saturating_sub(begin.body_bytes),
        });
        let sum = |of: fn(&super::meter::ClassTally) -> u64| -> u64 {
            meter.classes.iter().map(of).sum()
        };
        let (hits, hit_bytes) = (sum(|class| class.hits), sum(|class| class.hit_bytes));
        let (misses, miss_bytes) = (sum(|class| class.misses), sum(|class| class.miss_bytes));
        let (byte_hit_ratio, hit_ratio, hit_source) = match origin {
            Some(origin) if received_in_all > 0 => (
                Some((1.0 - origin.body_bytes as f64 / received_in_all as f64).clamp(0.0, 1.0)),
                ratio(
                    (requests + tail_requests).saturating_sub(origin.requests),
                    requests + tail_requests,
                ),
                HitSource::Origin,
            ),
            _ if hits + misses > 0 => (
                ratio(hit_bytes, hit_bytes + miss_bytes),
                ratio(hits, hits + misses),
                HitSource::Fields,
            ),
            _ => (None, None, HitSource::Unknown),
        };
        let series = self.series(seconds);
        let busiest = mean(self.rows.iter().map(|row| row.busy));
        let waited = mean(self.rows.iter().map(|row| row.waited));
        let client = ClientFigures {
            threads: self.load.threads,
            cpu_seconds: cpu_ns as f64 / 1e9,
            spun_seconds: spun_ns as f64 / 1e9,
            cpu_us_per_request: cpu_ns as f64 / 1e3 / requests.max(1) as f64,
            cpu_seconds_per_gb: cpu_ns as f64 / meter.received_bytes.max(1) as f64,
            busiest,
            waited,
            is_limit: busiest + waited > GENERATOR_BUSY_MAX,
        };
        let goodput_bps = meter.received_bytes as f64 * 8.0 / seconds;
        // The kernel's counts are over the lives of the connections: their ratio to what was
        // received of bodies is applied to the measured time.
        let over_tcp = tcp.as_ref().filter(|tcp| tcp.received_bytes > 0).map(|tcp| {
            let sent = tcp.server_sent_bytes.unwrap_or(tcp.received_bytes).max(tcp.received_bytes);
            let wire = sent + tcp.segments * diag::SEGMENT_OVERHEAD_BYTES;
            let heads_and_bodies = meter.received_bytes + meter.head_bytes;
            let overhead = wire as f64 / tcp.received_bytes as f64;
            let records = if self.load.target.is_tls() { 1.0 + 22.0 / 16_384.0 } else { 1.0 };
            heads_and_bodies as f64 * records * overhead * 8.0 / seconds
        });
        // Datagrams are counted as they arrive.
        let quic = (self.load.protocol == Protocol::Http3).then_some(QuicFigures {
            datagrams_received: meter.datagrams,
            datagrams_sent: meter.datagrams_sent,
        });
        let throughput_bps = match &quic {
            Some(quic) => {
                let overhead = quic.datagrams_received * diag::DATAGRAM_OVERHEAD_BYTES;
                Some((meter.datagram_bytes + overhead) as f64 * 8.0 / seconds)
            }
            None => over_tcp,
        };
        let server = observer.server.as_ref().and_then(|server| {
            let cpu_seconds = (close.cpu_seconds? - begin.cpu_seconds?).max(0.0);
            let memory = self.rows.iter().filter_map(|row| row.reading?.memory_bytes);
            Some(ServerFigures {
                source: server.describe(),
                cpu_seconds,
                cores: cpu_seconds / watched_s,
                cpu_us_per_request: cpu_seconds * 1e6 / requests.max(1) as f64,
                cpu_seconds_per_gb: cpu_seconds * 1e9 / meter.received_bytes.max(1) as f64,
                memory_bytes: memory.chain(close.memory_bytes).max().unwrap_or(0),
            })
        });
        let power = observer.power.as_ref().and_then(|power| {
            let joules = close.joules? - begin.joules?;
            Some(PowerFigures { source: power.describe(), watts: joules / watched_s })
        });
        if self.load.requests_max.is_some_and(|count| requests < count) && self.cut_short.is_none()
        {
            self.cut_short = Some("the time was over before all requests were made".to_owned());
        }
        let statuses = [1, 2, 3, 4, 5].map(|digit| meter.statuses[digit]);
        let errors = meter.errors;
        Measurement {
            protocol: self.load.protocol.name().to_owned(),
            seconds,
            requests,
            due,
            asked: requests + late + errors.unanswered(),
            requests_per_second: requests as f64 / seconds,
            body_bytes: meter.received_bytes,
            goodput_bps,
            throughput_bps,
            head_bytes: meter.head_bytes,
            errors,
            statuses,
            connections: self.load.connections,
            connections_peak: self.connections_peak,
            connections_made: meter.connections,
            connecting: Latency::of(&meter.connecting),
            first_byte,
            last_byte,
            classes: classes.collect(),
            byte_hit_ratio,
            hit_ratio,
            hit_source,
            checked,
            asked_again: meter.asked_again,
            late_arrivals: meter.late_arrivals,
            tcp,
            quic,
            client,
            server,
            power,
            origin,
            received_bytes_in_all: received_in_all,
            requests_in_all: requests + tail_requests,
            series,
            cut_short: self.cut_short,
            violation: self
                .shared
                .violation
                .lock()
                .ok()
                .and_then(|violation| violation.map(str::to_owned)),
        }
    }

    fn series(&self, seconds: f64) -> Series {
        let step = self.load.interval.as_secs_f64();
        let mut series = Series::default();
        let mut before = self.begin.unwrap_or_default();
        for (index, row) in self.rows.iter().enumerate() {
            let end = ((index + 1) as f64 * step).min(seconds);
            let span = end - index as f64 * step;
            // The rest behind the last whole interval is too short for rates.
            if span < step / 2.0 || row.reported == 0 {
                continue;
            }
            let sum = &row.sum;
            series.at_s.push(end);
            series.bits_per_second.push(sum.body_bytes as f64 * 8.0 / span);
            series.requests_per_second.push(sum.requests as f64 / span);
            series.p50_us.push(sum.last.value_at_quantile(0.5));
            series.p99_us.push(sum.last.value_at_quantile(0.99));
            series.errors.push(sum.errors);
            series.connections.push(row.open as u64);
            series.client_busy.push(row.busy);
            let reading = row.reading.unwrap_or_default();
            let origin = reading
                .origin
                .zip(before.origin)
                .map(|(now, then)| now.body_bytes.saturating_sub(then.body_bytes));
            series.byte_hit_ratio.push(match origin {
                Some(bytes) if sum.body_bytes > 0 => {
                    Some((1.0 - bytes as f64 / sum.body_bytes as f64).clamp(0.0, 1.0))
                }
                _ => ratio(sum.hit_bytes, sum.hit_bytes + sum.miss_bytes),
            });
            let rate = |now: Option<f64>, then: Option<f64>| Some((now? - then?).max(0.0) / span);
            series.server_cores.push(rate(reading.cpu_seconds, before.cpu_seconds));
            series.server_memory_bytes.push(reading.memory_bytes);
            series.watts.push(rate(reading.joules, before.joules));
            if row.reading.is_some() {
                before = reading;
            }
        }
        series
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value;
        count += 1.0;
    }
    if count > 0.0 { sum / count } else { 0.0 }
}

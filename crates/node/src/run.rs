//! A worker at work: what runs beside its connections, and what it is told.

use crate::watch;
use freshet_net::tls::certificate::CertificateStore;
use freshet_origin::Origin;
use freshet_origin::health::Transition;
use freshet_origin::probe::{self, ProbeFailure, Probed};
use freshet_origin::probe_history::Step;
use freshet_session::{Port, QuicPort, accept};
use freshet_site::snapshot::Snapshot;
use freshet_telemetry::transcript::Tag;
use freshet_worker::worker::{Shared, Worker};
use freshet_worker::{bans, disk, expiry};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_local};

/// How often a worker hands its log over, however little there is.
const TICK: Duration = Duration::from_millis(250);

/// What a worker may be told.
pub(crate) enum Command {
    /// Accept who connects.
    Open,
    /// Use this configuration from now on.
    Reload(Box<Snapshot>),
    /// Accept no more, finish what is open, then end.
    Drain,
    /// End now.
    Stop,
}

/// Runs a worker until it is told to end.
pub(crate) async fn run(
    shared: Arc<Shared>,
    index: usize,
    snapshot: Snapshot,
    (ports, quic): (Vec<Port>, Vec<QuicPort>),
    certificates: Option<Arc<CertificateStore>>,
    mut commands: mpsc::UnboundedReceiver<Command>,
) {
    let worker = Worker::new(shared, index, snapshot);
    let (mut ports, mut accepting) = (Some((ports, quic)), Vec::new());
    spawn_local(tick(Rc::clone(&worker), index == 0));
    if index == 0 {
        spawn_local(watch::run(Rc::clone(&worker), certificates));
        spawn_local(bans::lurk(Rc::clone(&worker)));
        spawn_local(expiry::run(Rc::clone(&worker)));
    }
    // Drives of a simulated world end their reads by themselves.
    if cfg!(not(feature = "simulation")) && worker.shared.disks.is_some() {
        spawn_local(disk::drive());
    }
    let pool = worker.pool.clone();
    spawn_local(async move { pool.maintain().await });
    // One worker asks the origins how they are; all see the answer.
    let mut probes = if index == 0 { start_probes(&worker) } else { Vec::new() };
    loop {
        match commands.recv().await {
            Some(Command::Open) => {
                let (ports, quic) = ports.take().unwrap_or_default();
                let accept = |port| spawn_local(accept(Rc::clone(&worker), port));
                accepting.extend(ports.into_iter().map(accept));
                // These go on while the worker drains: their connections have no sockets of their own.
                for port in quic {
                    spawn_local(freshet_session::serve_port(Rc::clone(&worker), port));
                }
            }
            Some(Command::Reload(snapshot)) => {
                worker.reload(*snapshot);
                if index == 0 {
                    probes.drain(..).for_each(|probe| probe.abort());
                    probes = start_probes(&worker);
                }
            }
            Some(Command::Drain) => {
                accepting.iter().for_each(JoinHandle::abort);
                drain(&worker, &mut commands).await;
                break;
            }
            Some(Command::Stop) | None => break,
        }
    }
    worker.farewell.say().await;
    worker.flush_log();
}

/// Begins to probe each origin, where probes are configured.
fn start_probes(worker: &Worker) -> Vec<JoinHandle<()>> {
    let snapshot = worker.snapshot();
    let sites = snapshot.sites.all().iter();
    sites
        .flat_map(|site| site.upstreams.probes.iter().cloned())
        .map(|(origin, settings)| {
            let scribe = worker.shared.scribe.clone();
            let on_transition = |origin: &Origin, change, why: Option<&ProbeFailure>| {
                let name = &origin.settings.name;
                match (change, why) {
                    (Transition::WentUp, _) => tracing::info!(origin = %name, "an origin is up"),
                    (Transition::WentDown, Some(why)) => {
                        tracing::warn!(origin = %name, %why, "an origin is down");
                    }
                    (Transition::WentDown, None) => {
                        tracing::warn!(origin = %name, "an origin is down")
                    }
                }
            };
            let on_probe = move |origin: &Origin, probed: &Probed<'_>| {
                if let Some(scribe) = &scribe {
                    scribe.note(Tag::Backend_health, &record_of_probe(origin, probed));
                }
            };
            spawn_local(probe::run_telling(origin, settings, on_transition, on_probe))
        })
        .collect()
}

/// A probe as a record: name, verdict, steps, good ones, how many have to be, of how many, seconds
/// of this one and on average, the answer's first line.
fn record_of_probe(origin: &Origin, probed: &Probed<'_>) -> String {
    let Probed { attempt, is_up, has_changed, window, history } = probed;
    let steps = Step::ALL.map(|(step, mark, _)| if attempt.reached(step) { mark } else { '-' });
    format!(
        "{} {} {} {} {} {} {} {:.6} {:.6} \"{}\"",
        origin.settings.name,
        if *has_changed { "Went" } else { "Still" },
        if *is_up { "healthy" } else { "sick" },
        String::from_iter(steps),
        window.good(),
        window.threshold(),
        window.size(),
        attempt.took.as_secs_f64(),
        history.average_seconds(),
        attempt.answer,
    )
}

/// Lets open connections finish, for as long as configured. Those of all workers: what one of them
/// delivers may still be filled by another.
async fn drain(worker: &Worker, commands: &mut mpsc::UnboundedReceiver<Command>) {
    worker.begin_drain();
    let limit = worker.snapshot().settings.drain;
    let finished = async {
        loop {
            let mut told = std::pin::pin!(worker.shared.all_closed.notified());
            // Before the count is read: one that closes in between tells us.
            told.as_mut().enable();
            if worker.shared.connections.load(SeqCst) == 0 {
                return;
            }
            told.await;
        }
    };
    let stopped = async { while !matches!(commands.recv().await, Some(Command::Stop) | None) {} };
    tokio::select! {
        () = finished => {}
        () = stopped => {}
        () = tokio::time::sleep(limit) => {}
    }
}

async fn tick(worker: Rc<Worker>, is_first: bool) {
    let mut interval = tokio::time::interval(TICK);
    loop {
        interval.tick().await;
        if is_first {
            worker.shared.limiter.sweep(TICK);
        }
        worker.flush_log();
    }
}

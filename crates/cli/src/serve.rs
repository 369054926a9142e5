//! `freshet serve`: a caching node in front of origins.

use crate::acme;
use crate::admin::{self, Admin};
use crate::descriptors;
use crate::fleet::{self, Configured};
use crate::nodes::{self, Registration};
use crate::reload::{SERVING, reload, reload_on_signal};
use crate::runtime;
use crate::self_signed;
use crate::settings::{Below, SettingsArguments};
use crate::traces;
use crate::upgrade;
use anyhow::Result;
use clap::Args;
use freshet_admin::Words;
use freshet_fleet::nats::Follower;
use freshet_net::address::Address;
use freshet_net::handover::Inherited;
use freshet_net::program::KeptProgram;
use freshet_net::readiness;
use freshet_node::node::{Node, NodeError};
use freshet_node::preflight::Prepared;
use freshet_node::transcript::Scribe;
use freshet_traces::Exporter;
use sd_notify::NotifyState;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Flags of `freshet serve`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// What `freshet upgrade` and other commands call this node, where several run; otherwise the
    /// port of its admin interface.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    settings: SettingsArguments,
}

/// That signals are listened for. It is made before anything else: unhandled, HUP and USR2 would end a
/// process that is about to start.
pub(crate) struct Listening {
    runtime: Runtime,
    signals: Signals,
}

impl Listening {
    /// # Errors
    /// When the system does not let this process listen.
    pub(crate) fn begin() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let signals = {
            let _within = runtime.enter();
            Signals::listen()?
        };
        Ok(Self { runtime, signals })
    }
}

/// Has what happens written to the standard error, as far as `FRESHET_LOG` wants it.
pub(crate) fn log() {
    log_as(EnvFilter::try_from_env("FRESHET_LOG").unwrap_or_else(|_| EnvFilter::new("info")));
}

/// The same as far as a filter lets it through.
pub(crate) fn log_as(filter: EnvFilter) {
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        // It would say on a standard error that takes nothing that it takes nothing, and panic there.
        .log_internal_errors(false)
        .init();
}

/// Runs a node until it is told to end: TERM, INT and QUIT drain, a second one ends at once, HUP reads
/// the configuration again, USR1 opens the access log anew, USR2 hands over to a new process.
///
/// # Errors
/// Why it could not start.
pub(crate) fn run(arguments: Arguments, listening: io::Result<Listening>) -> Result<ExitCode> {
    upgrade::take_name();
    log();
    let Listening { runtime, signals } = listening?;
    let (mut settings, source) = arguments.settings.load(&Below::Kept)?;
    descriptors::raise(settings.limits.connections_max);
    let runtime_directory = runtime::directory(arguments.name.as_deref(), &settings)?;
    nodes::check_free(&runtime_directory)?;
    self_signed::fill_in(&mut settings, &runtime_directory)?;
    let mut inherited = Inherited::from_environment()?;
    let before = KeptProgram::inherited();
    let version_before = before.as_ref().map(KeptProgram::version);
    let prepared = Prepared::new(settings, None).map_err(NodeError::Config);
    let prepared = prepared.map_err(|error| source.explain(error))?;
    let prepared = prepared.outliving(runtime::state_directory());
    let said = Words::hear(&runtime_directory);
    said.tell_sites(&prepared.draft.sites);
    let explain = |error: anyhow::Error| match error.downcast::<NodeError>() {
        Ok(error) => source.explain(error),
        Err(error) => error,
    };
    let manager = acme::open(&prepared).map_err(explain)?;
    let tracer = traces::start(&prepared.draft.settings).map_err(explain)?;
    let scribe = tracer.clone().map(|tracer| tracer as Arc<dyn Scribe>);
    let node = Node::start_with(prepared, &mut inherited, scribe);
    let node = node.map_err(|error| source.explain(error))?;
    said.tell_node(&node);
    let acme: acme::Shared = manager.map(|manager| manager.start()).transpose()?.map(Arc::new);
    let exporter = traces::export(&node, &acme).map_err(explain)?;
    let admin = {
        let (to_reload, directory) = (Arc::clone(&node), runtime_directory.clone());
        let of_reload = acme.clone();
        let arguments = arguments.settings.clone();
        let reload = move || {
            reload(&to_reload, &of_reload, &arguments, &directory, &Below::InForce)
                .map_err(|error| format!("{error:#}"))
        };
        admin::start(&node, &acme, &runtime_directory, &mut inherited, Box::new(reload))
            .map_err(|error| source.explain(error))?
    };
    drop((inherited, source));
    let at = admin.as_ref().map(|admin| (admin.handle.address(), admin.token_file.as_path()));
    let follower = fleet::follow(Configured {
        node: Arc::clone(&node),
        acme: acme.clone(),
        arguments: arguments.settings.clone(),
        directory: runtime_directory.clone(),
        program_before: version_before.map(str::to_owned),
    })?;
    // Nothing fails from here on: whoever reads it takes it that this process serves, and the one before has none left.
    let registration =
        Registration::write(&runtime_directory, at, &node.addresses(), version_before)?;
    // Whom it serves commands find.
    node.open();
    let served = Served {
        node: &node,
        acme: &acme,
        arguments: &arguments.settings,
        before: before.as_ref(),
    };
    runtime.block_on(control(served, &runtime_directory, admin, follower, signals));
    node.join();
    // All that was served is told of by now.
    tracer.iter().for_each(|tracer| tracer.stop());
    exporter.iter().for_each(Exporter::stop);
    drop(registration);
    Ok(ExitCode::SUCCESS)
}

/// The signals that mean something.
struct Signals {
    ends: Ends,
    hang_up: Signal,
    rotate: Signal,
    upgrade: Signal,
}

/// Those that end the process.
struct Ends([Signal; 3]);

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            ends: Ends([
                signal(SignalKind::terminate())?,
                signal(SignalKind::interrupt())?,
                signal(SignalKind::quit())?,
            ]),
            hang_up: signal(SignalKind::hangup())?,
            rotate: signal(SignalKind::user_defined1())?,
            upgrade: signal(SignalKind::user_defined2())?,
        })
    }
}

impl Ends {
    /// Waits for one of them.
    async fn come(&mut self) {
        let [terminate, interrupt, quit] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = quit.recv() => {}
        }
    }
}

/// Opens the access log anew, where a rotation has renamed it: also while the configuration on disk is
/// not one to be read.
fn rotate_log(node: &Node) {
    match node.reopen_log() {
        Ok(()) => tracing::info!("the access log was opened anew"),
        Err(error) => tracing::error!(%error, "the access log goes on as it is"),
    }
}

/// What runs.
struct Served<'a> {
    node: &'a Arc<Node>,
    acme: &'a acme::Shared,
    arguments: &'a SettingsArguments,
    before: Option<&'a KeptProgram>,
}

/// Waits for signals and acts on them, until nothing is left to do.
async fn control(
    Served { node, acme, arguments, before }: Served<'_>,
    directory: &Path,
    admin: Option<Admin>,
    follower: Option<Follower>,
    signals: Signals,
) {
    let Signals { mut ends, mut hang_up, mut rotate, mut upgrade } = signals;
    announce(node, admin.as_ref());
    let _ = sd_notify::notify(&[NotifyState::Ready]);
    readiness::announce();
    let successor = loop {
        tokio::select! {
            () = ends.come() => break None,
            _ = hang_up.recv() => reload_on_signal(node, acme, arguments, directory),
            _ = rotate.recv() => rotate_log(node),
            _ = upgrade.recv() => {
                // The new process answers what an authority asks, and orders from here on.
                acme.iter().for_each(|running| running.pause());
                let admin_listener = admin.as_ref().map(|admin| &admin.listener);
                let started = upgrade::start(node, directory, admin_listener, before);
                let started = tokio::select! {
                    biased;
                    started = started => started,
                    () = ends.come() => break None,
                };
                match started {
                    Ok(pid) => break Some(pid),
                    Err(error) => {
                        tracing::error!("not upgraded, this process goes on: {error:#}");
                        upgrade::note_failure(directory, &error);
                        acme.iter().for_each(|running| running.resume());
                    }
                }
            }
        }
    };
    acme.iter().for_each(|running| running.pause());
    // A service manager tells all processes of a service to end. For one that has handed over this is
    // no news: it ends when what it has is answered, as it would anyway.
    let mut words_ignored = u32::from(successor.is_some());
    match successor {
        Some(pid) => {
            tracing::info!(pid, "the new process serves; draining");
            // What was said of reloads before is over: the new process has read all of the file.
            let serves = [NotifyState::MainPid(pid), NotifyState::Status(SERVING)];
            let _ = sd_notify::notify(&serves);
            // So that the new one answers there, and is alone in the fleet under its name.
            drop((admin, follower));
        }
        None => {
            tracing::info!("draining");
            let _ = sd_notify::notify(&[NotifyState::Stopping]);
        }
    }
    node.drain();
    let draining = Arc::clone(node);
    let mut ended = tokio::task::spawn_blocking(move || draining.join());
    loop {
        tokio::select! {
            _ = &mut ended => {
                tracing::info!("drained");
                return;
            }
            () = ends.come() => match words_ignored.checked_sub(1) {
                Some(left) => {
                    words_ignored = left;
                    tracing::info!("told to end with the service; draining already");
                }
                None => {
                    tracing::info!("told again: ending at once");
                    node.stop();
                    return;
                }
            },
        }
    }
}

/// Sites that are named at the start.
const SITES_SHOWN_MAX: usize = 5;

/// Says on standard error where the node is and what to try.
fn announce(node: &Node, admin: Option<&Admin>) {
    let snapshot = node.snapshot();
    let settings = &snapshot.settings;
    let mut first = None;
    // Addresses are in the order of the settings; what was `:0` there has its port.
    for (address, setting) in node.addresses().iter().zip(&settings.listeners) {
        let tls = setting.tls;
        let url = url(address, tls);
        let protocols = match (tls, node.has_http3(address)) {
            (false, _) => "",
            (true, false) => "  (h2, http/1.1)",
            (true, true) => "  (h3, h2, http/1.1)",
        };
        tell!("listening  {url}{protocols}\n");
        first = first.or_else(|| Some(asked_by_curl(address, tls)));
    }
    if let (true, Some(policy)) = (settings.sites.is_empty(), &settings.site.vcl) {
        tell!("policy     {}\n", policy.display());
    } else if settings.sites.is_empty() {
        for origin in &settings.site.origins {
            tell!("origin     {}\n", origin.url);
        }
    } else {
        let names = settings.sites.iter().take(SITES_SHOWN_MAX).map(|site| site.name.as_str());
        let names = names.collect::<Vec<_>>().join(", ");
        let more = if settings.sites.len() > SITES_SHOWN_MAX { " ..." } else { "" };
        tell!("sites      {}: {names}{more}\n", settings.sites.len());
    }
    tell!(
        "memory     {}  workers {}\n",
        freshet_base::units::format_bytes(settings.memory_bytes),
        node.shared.stats.len()
    );
    if let Some(admin) = admin {
        let shown = match admin.handle.address() {
            address @ Address::Tcp(_) => format!("{}/metrics", url(address, false)),
            address @ Address::Unix(_) => address.to_string(),
        };
        tell!("admin      {shown}\n");
        tell!("token      {}\n", admin.token_file.display());
    }
    if let Some(asked) = first {
        tell!("try        curl -sI {asked}/\n");
    }
    tell!("ready      process {}\n", std::process::id());
}

/// An address as `curl` takes it: a socket of a file is no part of a URL.
fn asked_by_curl(address: &Address, tls: bool) -> String {
    match address {
        Address::Tcp(_) => url(address, tls),
        Address::Unix(path) => {
            let scheme = if tls { "https" } else { "http" };
            format!("--unix-socket {} {scheme}://localhost", path.display())
        }
    }
}

fn url(address: &Address, tls: bool) -> String {
    let scheme = if tls { "https" } else { "http" };
    match address {
        Address::Tcp(address) if address.ip().is_unspecified() => {
            format!("{scheme}://localhost:{}", address.port())
        }
        other => format!("{scheme}://{other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_try_is_as_curl_takes_it() {
        let tcp = Address::Tcp(([0, 0, 0, 0], 8080).into());
        assert_eq!(asked_by_curl(&tcp, true), "https://localhost:8080");
        let socket = Address::Unix("/tmp/s.sock".into());
        assert_eq!(asked_by_curl(&socket, false), "--unix-socket /tmp/s.sock http://localhost");
    }
}

//! From a program to a policy: origins, probes, and `vcl_init`.

use super::{VclPolicy, host, span};
use freshet_base::clock::UnixMillis;
use freshet_base::log_limit::LogLimit;
use freshet_base::machine;
use freshet_net::address::Address;
use freshet_origin::definition::OriginAddress;
use freshet_origin::probe::ProbeSettings;
use freshet_origin::{Origin, OriginError, OriginSettings};
use freshet_telemetry::transcript::Tag;
use freshet_vcl::{
    Backend, Defaults, Endpoint, Event, Failure, Places, Policy, Report, Source, Sources,
};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, RwLock};
use thiserror::Error;

/// Why a policy could not be loaded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The text is wrong.
    #[error("{}", .0.render(false))]
    Text(Box<Report>),
    /// `vcl_init` failed.
    #[error("vcl_init failed: {0}")]
    Init(Failure),
    /// A backend cannot be used.
    #[error(transparent)]
    Origin(#[from] OriginError),
}

/// What the language has in a node with stores of these classes ([`Settings::store_classes`]).
///
/// [`Settings::store_classes`]: freshet_config::Settings::store_classes
pub fn language<'a>(store_classes: impl IntoIterator<Item = &'a str>) -> freshet_vcl::Settings {
    let mut storages: Vec<String> = super::STORAGES.iter().map(|name| (*name).to_owned()).collect();
    for class in store_classes {
        if !storages.iter().any(|known| known == class) {
            storages.push(class.to_owned());
        }
    }
    // One policy is in force; there is none to hand over to.
    let labels = Some(Vec::new());
    freshet_vcl::Settings { storages, labels, ..freshet_vcl::Settings::default() }
}

impl VclPolicy {
    /// Compiles and loads a policy under a name. Origins of `before` whose settings did not change
    /// stay the same ones, with their health and connections, and what it counts and passes goes on: in Varnish that is
    /// the process's.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load(
        name: &str,
        source: Source,
        sources: &dyn Sources,
        settings: &freshet_vcl::Settings,
        defaults: Defaults,
        timeouts: freshet_vcl::Timeouts,
        before: Option<&Self>,
    ) -> Result<Arc<Self>, LoadError> {
        let (program, report) = freshet_vcl::compile(source, sources, settings);
        let Some(program) = program else { return Err(LoadError::Text(Box::new(report))) };
        let mut origins = Vec::new();
        for backend in &program.backends {
            origins.push(origin(backend, timeouts, before)?);
        }
        let probes: Vec<_> = program
            .backends
            .iter()
            .zip(&origins)
            .filter_map(|(backend, origin)| {
                let probe = program.probes.get(backend.probe? as usize)?;
                Some((Arc::clone(origin.as_ref()?), probe_settings(probe, backend.host())))
            })
            .collect();
        let now = UnixMillis::now();
        let hostname = machine::host_name().unwrap_or_else(|| "localhost".to_owned());
        for (origin, probe) in &probes {
            // Until the first probe has come back.
            if probe.initial.is_some_and(|initial| initial < probe.threshold) {
                origin.health.probed(false, now);
            }
        }
        let identity = settings.identity.clone().unwrap_or_else(|| hostname.clone());
        let mut alone = Alone {
            hostname: &hostname,
            identity: &identity,
            origins: &origins,
            now,
            said: Vec::new(),
        };
        let loaded = before.map(|before| &before.policy);
        let policy = Policy::load(name, program, timeouts, loaded, super::seconds(now), &mut alone)
            .map_err(LoadError::Init)?;
        let said = alone.said;
        Ok(Arc::new(Self {
            policy,
            origins,
            probes,
            defaults,
            labels: Default::default(),
            shared: RwLock::default(),
            shares: OnceLock::new(),
            files: host::FileCache::default(),
            failures: LogLimit::new(),
            made: super::made::MadeOrigins::default(),
            passes: before.map(|before| Arc::clone(&before.passes)).unwrap_or_default(),
            identity,
            loaded: now,
            hostname,
            warnings: report.render_vcc_warnings(),
            said,
        }))
    }
}

impl VclPolicy {
    /// What `vcl_init` logged, with the records it is in.
    pub fn said(&self) -> &[(Tag, String)] {
        &self.said
    }

    /// What the compiler warned of, as Varnish's prints it; empty where it did not.
    pub fn warnings(&self) -> &str {
        &self.warnings
    }

    /// Runs `vcl_fini`; what it logged.
    pub fn unload(&self) -> Vec<(Tag, String)> {
        let (hostname, identity, origins) = (&self.hostname, &self.identity, &self.origins);
        let now = UnixMillis::now();
        let mut alone = Alone { hostname, identity, origins, now, said: Vec::new() };
        self.policy.unload(super::seconds(now), &mut alone);
        alone.said
    }
}

/// The node while a policy is being loaded or dropped.
struct Alone<'a> {
    hostname: &'a str,
    identity: &'a str,
    origins: &'a [Option<Arc<Origin>>],
    now: UnixMillis,
    /// What the policy logs, with the records it is in.
    said: Vec<(Tag, String)>,
}

impl freshet_vcl::Host for Alone<'_> {
    fn is_traced(&self) -> bool {
        true
    }

    fn trace(&mut self, event: Event<'_>) {
        match event {
            Event::Log(text) => {
                self.said.push((Tag::VCL_Log, String::from_utf8_lossy(text).into_owned()));
            }
            Event::Debug(text) => {
                self.said.push((Tag::Debug, String::from_utf8_lossy(text).into_owned()));
            }
            Event::Aside(text) => self.said.push((Tag::Debug, text.to_owned())),
            Event::Said { is_error, text } => {
                self.said.push((host::said_tag(is_error), text.to_owned()));
            }
            _ => {}
        }
    }

    fn backend_health(&self, backend: u32) -> (bool, f64) {
        host::health_of(self.origins, backend, self.now, self.now)
    }

    fn random(&mut self) -> u64 {
        use std::hash::{BuildHasher, Hasher, RandomState};
        RandomState::new().build_hasher().finish()
    }

    fn hostname(&self) -> &str {
        self.hostname
    }

    fn identity(&self) -> &str {
        self.identity
    }

    fn file(&mut self, path: &str) -> Option<Arc<[u8]>> {
        host::read_file(path)
    }

    fn places(&mut self, path: &str) -> Result<Arc<dyn Places>, String> {
        super::places::open_places(path)
    }

    fn environment(&mut self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

fn origin(
    backend: &Backend,
    timeouts: freshet_vcl::Timeouts,
    before: Option<&VclPolicy>,
) -> Result<Option<Arc<Origin>>, OriginError> {
    let Some(endpoint) = &backend.endpoint else { return Ok(None) };
    let address = match endpoint {
        Endpoint::Unix(path) => OriginAddress::Fixed(Address::Unix(path.into())),
        Endpoint::Tcp { host, port, .. } => match host.parse() {
            Ok(ip) => OriginAddress::Fixed(Address::Tcp(SocketAddr::new(ip, *port))),
            Err(_) => OriginAddress::Name { host: host.to_ascii_lowercase(), port: *port },
        },
    };
    let mut settings = OriginSettings::new(address);
    settings.name = backend.name.to_string();
    settings.preamble = backend.preamble.clone().unwrap_or_default();
    settings.proxy_header = backend.proxy_header;
    let out = &mut settings.timeouts;
    out.connect = span(backend.connect_timeout.unwrap_or(timeouts.connect));
    out.first_byte = span(backend.first_byte_timeout.unwrap_or(timeouts.first_byte));
    out.between_bytes = span(backend.between_bytes_timeout.unwrap_or(timeouts.between_bytes));
    out.idle = span(timeouts.idle);
    if backend.connections_max > 0 {
        settings.connections_max = u32::try_from(backend.connections_max).unwrap_or(u32::MAX);
        // As Varnish: what is over the limit fails at once, unless some may wait.
        settings.connection_waiters_max =
            usize::try_from(backend.waiters_max).unwrap_or(usize::MAX);
        settings.timeouts.queue = span(backend.wait_timeout.unwrap_or(0.0));
    }
    let known = before.and_then(|before| {
        before.origins.iter().flatten().find(|origin| origin.settings == settings)
    });
    match known {
        Some(known) => Ok(Some(Arc::clone(known))),
        None => Origin::new(settings).map(Some),
    }
}

/// What a declared probe does, and how; `host` is what its backend is called.
fn probe_settings(probe: &freshet_vcl::Probe, host: &str) -> ProbeSettings {
    // Varnish's own, to the letter: servers tell names of hosts with a port from those without.
    let usual =
        || format!("GET {} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", probe.url);
    ProbeSettings {
        target: probe.url.clone(),
        head: Some(probe.request.clone().unwrap_or_else(usual)),
        interval: span(probe.interval),
        timeout: span(probe.timeout),
        window: probe.window,
        threshold: probe.threshold,
        initial: Some(probe.initial).filter(|initial| initial + 1 != probe.threshold),
        expected: probe.expected_response..=probe.expected_response,
        ..ProbeSettings::default()
    }
}

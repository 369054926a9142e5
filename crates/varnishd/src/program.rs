//! A policy: VCL as it was given, compiled, and what the node makes of it.

use crate::journal::Journal;
use crate::manager::State;
use crate::parameters::Parameters;
use freshet_config::bans::BanSettings;
use freshet_config::esi::EsiSettings;
use freshet_config::listeners::{Algorithm, Http3, Listener};
use freshet_config::mistake::Place;
use freshet_config::settings;
use freshet_config::{Document, Settings};
use freshet_http::date;
use freshet_net::address::Address;
use freshet_node::semantics::{self, Manners};
use freshet_node::site::Tunnels;
use freshet_node::snapshot::{Draft, Limits, head_limits};
use freshet_node::transcript::Tag;
use freshet_node::vcl::{Files, LoadError, VclPolicy};
use freshet_origin::Origin;
use freshet_vcl::{DATES, Defaults, Endpoint, Source, Timeouts};

use std::collections::HashMap;
use std::fmt::Write as _;
use std::os::unix::fs::FileTypeExt as _;
use std::sync::Arc;
use std::time::Duration;

/// How many of a head's fields its first line counts for where an origin's is read, as Varnish has it.
const FIRST_LINE_FIELDS: usize = 5;

/// What the `Via` and the log of this cache say.
const NAME: &str = "varnish (Varnish/7.1)";

/// A loaded policy, and what was to be said about it.
pub(crate) struct Program(Arc<VclPolicy>, String);

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Program").field(&self.0.policy().name()).finish()
    }
}

impl Program {
    /// Compiles a policy and runs its `vcl_init`; a refusal is in the words of Varnish's compiler.
    pub(crate) fn compile(
        name: &str,
        source: &str,
        text: &str,
        state: &State,
    ) -> Result<Self, String> {
        let parameters = &state.parameters;
        let files =
            Files { folders: parameters.text("vcl_path").split(':').map(Into::into).collect() };
        let settings = freshet_vcl::Settings {
            unused_is_error: parameters.bool("vcc_err_unref"),
            match_steps_max: u32::try_from(parameters.integer("pcre2_match_limit"))
                .unwrap_or(u32::MAX),
            storages: state.storage_names().map(Into::into).collect(),
            test_module: parameters.flag("debug", "vtc_mode"),
            unsafe_paths: parameters.bool("vcc_unsafe_path"),
            labels: Some(state.label_names()),
            default_backend: None,
            identity: Some(state.identity()),
            dates: date::Reading {
                takes_short_days: parameters.flag("feature", "http_date_postel"),
                ..DATES
            },
        };
        let defaults = Defaults {
            ttl: parameters.seconds("default_ttl"),
            grace: parameters.seconds("default_grace"),
            keep: parameters.seconds("default_keep"),
        };
        let timeouts = Timeouts {
            connect: parameters.seconds("connect_timeout"),
            first_byte: parameters.seconds("first_byte_timeout"),
            between_bytes: parameters.seconds("between_bytes_timeout"),
            idle: parameters.seconds("backend_idle_timeout"),
        };
        let unix =
            state.options.endpoints.iter().any(|one| matches!(one.address, Address::Unix(_)));
        let source = Source { name: source.into(), text: text.into() };
        // Backends that are declared alike share their connections.
        let before = state.policy_before();
        VclPolicy::load(name, source, &files, &settings, defaults, timeouts, before)
            .map_err(|error| match error {
                LoadError::Text(report) => report.render_vcc(),
                LoadError::Init(why) => {
                    format!("VCL \"{name}\" Failed initialization\nMessage:\n\t{}", why.message)
                }
                other => other.to_string(),
            })
            .and_then(|policy| {
                // Clients on Unix sockets are known to VCL 4.1 only.
                match policy.policy().program().version {
                    version if unix && version < 41 => {
                        Err("Compiled VCL version (4.0) not supported.\nVCL compilation failed"
                            .into())
                    }
                    _ => sockets(&policy).map(|warnings| {
                        let warnings = format!("{}{warnings}", policy.warnings());
                        Self(policy, warnings)
                    }),
                }
            })
    }

    /// What the node goes by with this policy and the parameters in force.
    pub(crate) fn draft(&self, state: &State) -> Result<Draft, String> {
        let labels = state.labels();
        let labels: HashMap<_, _> =
            labels.map(|(name, program)| (name.into(), Arc::clone(&program.0))).collect();
        self.0.set_labels(labels);
        let hold = state.parameters.seconds("backend_remote_error_holddown");
        for (_, origin) in self.0.origins() {
            origin.hold.set(Duration::from_secs_f64(hold));
        }
        let settings = settings(state)?;
        let mut site = self.0.site(Arc::new(settings.site.clone()));
        let bytes = |name| usize::try_from(state.parameters.integer(name)).unwrap_or(usize::MAX);
        let shortlived = state.parameters.seconds("shortlived");
        let evictions_max = state.parameters.integer("nuke_limit");
        state.shares.set_rules(evictions_max, Duration::from_secs_f64(shortlived));
        self.0.set_shares(Arc::clone(&state.shares));
        site.shares = Some(Arc::clone(&state.shares));
        site.serves_ranges = state.parameters.bool("http_range_support");
        site.gzip_level = u32::try_from(state.parameters.integer("gzip_level")).unwrap_or(9);
        site.tunnels = Tunnels {
            open_max: state.parameters.integer("pipe_sess_max"),
            idle: Duration::from_secs_f64(state.parameters.seconds("pipe_timeout")),
            lasts_max: Some(state.parameters.seconds("pipe_task_deadline"))
                .filter(|seconds| *seconds > 0.0)
                .map(Duration::from_secs_f64),
        };
        site.response_limits = Some(Limits {
            head_bytes_max: bytes("http_resp_size"),
            line_bytes_max: bytes("http_resp_hdr_len"),
            // Its first line takes some of them.
            fields_max: bytes("http_max_hdr").saturating_sub(FIRST_LINE_FIELDS),
            refuses_unknown_codings: true,
            ..Limits::default()
        });
        let h1_limits = Limits {
            takes_loose_heads: true,
            splits_https: state.parameters.flag("feature", "https_scheme"),
            line_bytes_max: bytes("http_req_hdr_len"),
            ..head_limits(&settings.limits)
        };
        let takes_http2 = state.parameters.flag("feature", "http2");
        let manners = Manners { takes_http2, ..semantics::VARNISH };
        Ok(Draft::of(settings, vec![Arc::new(site)], h1_limits, manners))
    }

    /// What whoever loaded it should know.
    pub(crate) fn warnings(&self) -> &str {
        &self.1
    }

    /// Notes that it was loaded, and what it said then.
    pub(crate) fn note_loaded(&self, name: &str, journal: &Journal) {
        journal.note(Tag::CLI, &format!("Rd vcl.load \"{name}\" vcl_{name} 1auto"));
        for (tag, line) in self.0.said() {
            journal.note(*tag, line);
        }
        journal.note(Tag::CLI, &format!("Wr 200 0 Loaded \"{name}\""));
    }

    /// The policy as the node knows it.
    pub(crate) fn policy(&self) -> &Arc<VclPolicy> {
        &self.0
    }

    /// Its backends by name.
    pub(crate) fn origins(&self) -> impl Iterator<Item = (&str, &Arc<Origin>)> {
        self.0.origins()
    }

    /// Labels it goes to.
    pub(crate) fn labels(&self) -> Vec<&str> {
        self.0.policy().program().labels.iter().map(|label| &**label).collect()
    }

    /// Names and texts of what it was made of.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&str, &str)> {
        let files = self.0.policy().program().sources.files().iter();
        files.map(|file| (file.name.as_str(), file.text.as_str()))
    }
}

/// Looks at the Unix sockets of a policy's backends: what is there and is none is a mistake, what is
/// not there yet may come.
fn sockets(policy: &VclPolicy) -> Result<String, String> {
    let mut warnings = String::new();
    for backend in &policy.policy().program().backends {
        let Some(Endpoint::Unix(path)) = &backend.endpoint else { continue };
        match std::fs::metadata(path) {
            Ok(found) if found.file_type().is_socket() => {}
            Ok(_) => {
                return Err(format!(
                    "Message from VCC-compiler:\nNot a socket:\n.path = \"{path}\" of backend \
                     {}\nVCL compilation failed",
                    backend.name
                ));
            }
            Err(error) => {
                let _ = writeln!(
                    warnings,
                    "Message from VCC-compiler:\nCannot stat: {error}\n.path = \"{path}\" of \
                     backend {}\n(That was just a warning)",
                    backend.name
                );
            }
        }
    }
    Ok(warnings)
}

/// The node's settings, as parameters and options have them.
fn settings(state: &State) -> Result<Settings, String> {
    let mut document = Document::default();
    // The policy brings its own origins; the settings want one all the same.
    document.push("origin", &[("url", "http://127.0.0.1:80")])?;
    let mut settings = Settings::from_document(&document)
        .map_err(|wrong| wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    let parameters = &state.parameters;
    let span = |name: &str| Duration::from_secs_f64(parameters.seconds(name));
    let everywhere =
        ["0.0.0.0/0", "::/0"].map(|all| all.parse().expect("it is a network")).to_vec();
    settings.listeners = state
        .options
        .endpoints
        .iter()
        .map(|endpoint| Listener {
            name: Some(endpoint.name.clone()),
            address: endpoint.address.clone(),
            tls: false,
            http3: Http3::Off,
            http3_port: None,
            early_data: false,
            congestion: Algorithm::Cubic,
            proxy_protocol: endpoint.proxy,
            // As Varnish does it: whoever reaches the port is a proxy.
            proxy_from: everywhere.clone(),
            client_auth: None,
            place: Place::default(),
        })
        .collect();
    let cache = Arc::make_mut(&mut settings.site.cache);
    if let Some(bytes) = state.memory_bytes() {
        settings.memory_bytes = bytes;
        // The limits of the storages are what counts.
        cache.object_bytes_max = bytes / 2;
    }
    // Scripts count an origin's connections, and those of several workers are not shared.
    if parameters.flag("debug", "vtc_mode") {
        settings.workers = 1;
    }
    settings.log.access = settings::LogTarget::Off;
    settings.admin_listen = None;
    cache.name = NAME.into();
    cache.cache_status = false;
    cache.client_cache_control = false;
    // Varnish knows no manifests.
    Arc::make_mut(&mut settings.site.media).read = false;
    cache.grace = span("default_grace");
    cache.gzip = Some(parameters.bool("http_gzip_support"));
    settings.bans = ban_settings(parameters);
    let timeouts = Arc::make_mut(&mut settings.site.origin_timeouts);
    timeouts.connect = span("connect_timeout");
    timeouts.first_byte = span("first_byte_timeout");
    timeouts.between_bytes = span("between_bytes_timeout");
    let feature = |name: &str| parameters.flag("feature", name);
    settings.site.esi = Arc::new(EsiSettings {
        depth_max: u32::try_from(parameters.integer("max_esi_depth")).unwrap_or(u32::MAX),
        check_markup: !feature("esi_disable_xml_check"),
        https_as_http: feature("esi_ignore_https"),
        remove_bom: feature("esi_remove_bom"),
        ignore_other_elements: feature("esi_ignore_other_elements"),
        obey_onerror: feature("esi_include_onerror"),
        ..EsiSettings::default()
    });
    settings.handshake_timeout = span("timeout_idle");
    let small = |name: &str| u32::try_from(parameters.integer(name)).unwrap_or(u32::MAX);
    settings.http2.stream_window_bytes = small("h2_initial_window_size");
    settings.http2.header_table_bytes = small("h2_header_table_size");
    settings.site.limits.restarts_max = small("max_restarts");
    settings.site.limits.retries_max = small("max_retries");
    let limits = &mut settings.limits;
    limits.idle_timeout = span("timeout_idle");
    // Varnish asks only that a body comes on.
    limits.body_timeout = span("timeout_idle");
    limits.body_rate_min = 0;
    // What the node limits is the time without progress.
    limits.send_timeout = span("idle_send_timeout");
    limits.response_timeout = Some(span("send_timeout"));
    limits.streams_max = small("h2_max_concurrent_streams");
    limits.fields_max = usize::try_from(parameters.integer("http_max_hdr")).unwrap_or(usize::MAX);
    limits.head_bytes_max =
        usize::try_from(parameters.integer("http_req_size")).unwrap_or(usize::MAX);
    limits.target_bytes_max = limits.head_bytes_max;
    Ok(settings)
}

/// How bans are worked off, as parameters have it.
pub(crate) fn ban_settings(parameters: &Parameters) -> BanSettings {
    let span = |name: &str| Duration::from_secs_f64(parameters.seconds(name));
    BanSettings {
        lurker_age: span("ban_lurker_age"),
        lurker_sleep: span("ban_lurker_sleep"),
        drops_duplicates: parameters.bool("ban_dups"),
        behind_max: Some(parameters.integer("ban_cutoff") as usize).filter(|most| *most > 0),
    }
}

/// The policy that `-b` stands for.
pub(crate) fn text_of_backend(backend: &str) -> Result<String, String> {
    if backend.eq_ignore_ascii_case("none") {
        return Ok("vcl 4.1;\n\nbackend default none;\n".into());
    }
    if backend.starts_with('/') {
        return Ok(format!("vcl 4.1;\n\nbackend default {{\n    .path = \"{backend}\";\n}}\n"));
    }
    let addresses = crate::cli::listener::resolve(backend).map_err(|error| error.to_string())?;
    let Some(address) = addresses.first() else {
        return Err(format!("{backend}: no address"));
    };
    let port = if address.port() == 0 { 80 } else { address.port() };
    Ok(format!(
        "vcl 4.1;\n\nbackend default {{\n    .host = \"{}\";\n    .port = \"{port}\";\n}}\n",
        address.ip()
    ))
}

/// The policy behind every policy.
pub(crate) fn builtin() -> &'static str {
    freshet_vcl::BUILTIN
}

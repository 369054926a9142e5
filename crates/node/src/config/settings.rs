//! The configuration as the node uses it: typed, complete, checked.

use super::document::{Document, Row, Value};
use super::lower::{LowerMemory, lower_memory};
use crate::bans::BanSettings;
use crate::esi::EsiSettings;
use crate::network::Prefixes;
use crate::policy::Storage;
use freshet_base::units;
use freshet_cache::Objective;
use freshet_http::freshness::SetCookie;
use freshet_net::address::Address;
use freshet_net::trust::Network;
use freshet_origin::OriginSettings;
use std::path::PathBuf;
use std::time::Duration;

/// Everything `freshet.toml` and the flags decide. Field names are the keys; see
/// [`super::keys::KEYS`] for what each means.
#[derive(Clone, Debug)]
pub struct Settings {
    /// 0 is one for each usable core.
    pub workers: usize,
    /// Bytes, `auto` resolved.
    pub memory_bytes: u64,
    /// Time for open requests at an end.
    pub drain: Duration,
    /// File with a policy in VCL.
    pub vcl: Option<PathBuf>,
    /// Where clients connect.
    pub listeners: Vec<Listener>,
    /// Certificates; empty means one made at start, signed by itself.
    pub certificates: Vec<Certificate>,
    /// Oldest version is 1.3.
    pub tls13_only: bool,
    /// Time for a TLS handshake.
    pub handshake_timeout: Duration,
    /// Disks.
    pub stores: Vec<Store>,
    /// Shortest lifetime of what goes there.
    pub store_ttl_min: Duration,
    /// `[lower_memory]`
    pub lower_memory: Option<LowerMemory>,
    /// Where responses may be kept; the first that fits counts.
    pub storage_rules: Vec<StorageRule>,
    /// Origins, at least one where there is no VCL.
    pub origins: Vec<Origin>,
    /// How an origin is chosen.
    pub director: Director,
    /// Timeouts towards origins.
    pub origin_timeouts: OriginTimeouts,
    /// Protocols clients may change to.
    pub upgrades: Vec<String>,
    /// Active checks, where asked for.
    pub health: Option<Health>,
    /// Caching.
    pub cache: Cache,
    /// How pages with includes are read.
    pub esi: EsiSettings,
    /// How clients speak HTTP/2.
    pub http2: Http2,
    /// How bans are worked off.
    pub bans: BanSettings,
    /// Limits on clients.
    pub limits: Limits,
    /// Access log.
    pub log: Log,
    /// Admin interface address.
    pub admin_listen: Option<Address>,
    /// Names the admin interface answers to, besides addresses and the machine's own.
    pub admin_hosts: Vec<String>,
    /// File with the admin token; `None` is one in the runtime directory.
    pub admin_token_file: Option<PathBuf>,
}

/// `[[listen]]`
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Listener {
    /// What logs and policies call it; `None` is `a` and its place in the list.
    pub name: Option<String>,
    /// Address.
    pub address: Address,
    /// TLS or clear.
    pub tls: bool,
    /// PROXY header first.
    pub proxy_protocol: bool,
    /// Networks whose peers may send one; those on a Unix socket always may.
    pub proxy_from: Vec<Network>,
}

/// `[[certificate]]`
#[derive(Clone, Debug)]
pub struct Certificate {
    /// PEM chain.
    pub cert: PathBuf,
    /// PEM key.
    pub key: PathBuf,
    /// DER OCSP response.
    pub ocsp: Option<PathBuf>,
}

/// `[[origin]]`
#[derive(Clone, Debug)]
pub struct Origin {
    /// Name in logs and metrics.
    pub name: String,
    /// `http`, `https` or `unix` URL.
    pub url: String,
    /// `Host` to send.
    pub host: Option<String>,
    /// TLS name.
    pub sni: Option<String>,
    /// Check the certificate.
    pub verify: bool,
    /// Trusted authorities.
    pub ca: Option<PathBuf>,
    /// Share.
    pub weight: u32,
    /// Limit over all workers.
    pub connections_max: usize,
}

/// `[[store]]`
#[derive(Clone, Debug, PartialEq)]
pub struct Store {
    /// File or block device.
    pub path: PathBuf,
    /// Length of a file that is made.
    pub bytes: Option<u64>,
    /// Share of new content; by length where this is `None`.
    pub weight: Option<f64>,
    /// Drive writes a day.
    pub drive_writes: f64,
    /// Mean length of what is stored.
    pub object_bytes: Option<u64>,
    /// Keep what was used.
    pub keep_used: bool,
    /// What rules and policies call it, and others beside it.
    pub class: String,
    /// Shortest lifetime of what goes there, where that is longer than `stores.ttl_min`.
    pub ttl_min: Duration,
    /// Lengths of what goes there.
    pub object_bytes_min: u64,
    /// The same, at most.
    pub object_bytes_max: u64,
}

/// The class of a store that is given no other.
pub const STORE_CLASS: &str = "disk";

/// `[[storage]]`
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StorageRule {
    /// What a request's path begins with.
    pub path: String,
    /// Where its response may be kept, unless a policy says otherwise.
    pub storage: Storage,
    /// What memory is to have the most of there; `None` for `cache.objective`.
    pub objective: Option<Objective>,
}

/// `origins.director`
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Director {
    /// In turn.
    RoundRobin,
    /// By key.
    Hash,
    /// First healthy.
    Fallback,
}

/// Timeouts of `[origins]`.
#[derive(Clone, Copy, Debug)]
pub struct OriginTimeouts {
    /// Connect and TLS.
    pub connect: Duration,
    /// First byte.
    pub first_byte: Duration,
    /// Between reads.
    pub between_bytes: Duration,
    /// To an answer that nobody waits for any more.
    pub abandoned: Duration,
    /// Idle connections.
    pub keep_alive: Duration,
}

/// `[health]`
#[derive(Clone, Debug)]
pub struct Health {
    /// Path to ask for.
    pub path: String,
    /// Between checks.
    pub interval: Duration,
    /// For one check.
    pub timeout: Duration,
    /// Good status.
    pub status: u16,
    /// Checks looked at.
    pub window: u32,
    /// Good ones needed.
    pub threshold: u32,
}

/// `[cache]`
#[derive(Clone, Debug)]
pub struct Cache {
    /// Bytes, `auto` resolved.
    pub object_bytes_max: u64,
    /// What eviction aims at.
    pub objective: Objective,
    /// Default grace.
    pub grace: Duration,
    /// Default stale-if-error.
    pub stale_if_error: Duration,
    /// Heuristic freshness.
    pub heuristic: bool,
    /// Its longest.
    pub heuristic_max: Duration,
    /// Negative caching.
    pub negative: Option<Duration>,
    /// Deadline of hit-for-miss markers.
    pub hit_for_miss: Duration,
    /// What becomes of responses that set cookies.
    pub set_cookie: SetCookie,
    /// Unkeyed fields that origins get all the same.
    pub forward: Vec<String>,
    /// Caches behind this one.
    pub peers: Vec<Network>,
    /// Name in CDN-Loop; `None` is one made up at the start.
    pub loop_id: Option<String>,
    /// Obey clients.
    pub client_cache_control: bool,
    /// Send Cache-Status.
    pub cache_status: bool,
    /// Name in Cache-Status and Via.
    pub name: String,
    /// Who may PURGE.
    pub purge_from: Vec<Network>,
    /// Whether what is kept under gzip is unpacked for clients that do not take it; `None` leaves
    /// that to the policy.
    pub gzip: Option<bool>,
    /// Whether pages that say so have includes, where no VCL policy decides that.
    pub esi: bool,
}

/// `[limits]`
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Client connections.
    pub connections_max: usize,
    /// Head of a request.
    pub head_bytes_max: usize,
    /// Fields of a request.
    pub fields_max: usize,
    /// Request target.
    pub target_bytes_max: usize,
    /// Request body.
    pub body_bytes_max: u64,
    /// A head, once begun.
    pub request_timeout: Duration,
    /// A body, besides what its bytes bring.
    pub body_timeout: Duration,
    /// Bytes a second of a body, at least.
    pub body_rate_min: u64,
    /// Between requests.
    pub idle_timeout: Duration,
    /// A client that takes nothing.
    pub send_timeout: Duration,
    /// Bytes a second that a client takes at least, over each `send_timeout` of waiting.
    pub send_rate_min: u64,
    /// Percent of memory that waiting responses may keep, in all and for one network.
    pub readers_percent: u64,
    /// See [`Limits::readers_percent`].
    pub readers_network_percent: u64,
    /// Percent of memory that bodies may hold while they are filled to be kept.
    pub fills_percent: u64,
    /// What makes a network of clients.
    pub network: Prefixes,
    /// Percent of an origin's connections for one network.
    pub origin_network_percent: u8,
    /// HTTP/2 streams.
    pub streams_max: u32,
    /// Memory of requests under way, `auto` resolved.
    pub requests_bytes_max: u64,
    /// Restarts by policy.
    pub restarts_max: u32,
    /// Retries by policy.
    pub retries_max: u32,
}

/// What clients are told about HTTP/2. No keys: the defaults suit all networks we know of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Http2 {
    /// Bytes of a request's body that may wait for the origin to take them.
    pub stream_window_bytes: u32,
    /// The same of all requests of a connection.
    pub connection_window_bytes: u32,
    /// Bytes of the table for compressed fields.
    pub header_table_bytes: u32,
}

impl Default for Http2 {
    /// 1 MiB fills a 100 Mbit/s path of 80 ms, and four such bodies may wait before one that does
    /// not has to.
    fn default() -> Self {
        Self {
            stream_window_bytes: 1 << 20,
            connection_window_bytes: 4 << 20,
            header_table_bytes: 4096,
        }
    }
}

/// `[log]`
#[derive(Clone, Debug)]
pub struct Log {
    /// Where to.
    pub access: LogTarget,
    /// Format text.
    pub format: String,
}

/// `log.access`
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LogTarget {
    /// Nowhere.
    Off,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// A file, appended to and opened again on reload.
    File(PathBuf),
}

impl Settings {
    /// Settings from a document; all that is wrong is listed, one line each.
    ///
    /// # Errors
    /// Lines that say which key is wrong and what it takes.
    pub fn from_document(document: &Document) -> Result<Self, Vec<String>> {
        let mut wrong = Vec::new();
        let text = |path: &str| document.value(path).text();
        let span = |path: &str| document.value(path).span();
        let number = |path: &str| document.value(path).number();
        let memory_bytes = memory(&text("memory"), &mut wrong);
        let object_bytes_max = match text("cache.object_bytes_max").as_str() {
            "auto" => memory_bytes / 4,
            size => size_of_text("cache.object_bytes_max", size, &mut wrong),
        };
        let health_path = optional(text("health.path"));
        let settings = Self {
            workers: count(number("workers")),
            memory_bytes,
            drain: span("drain"),
            vcl: optional(text("vcl")).map(Into::into),
            listeners: document
                .rows("listen")
                .iter()
                .filter_map(|row| listener(row, &mut wrong))
                .collect(),
            certificates: document.rows("certificate").iter().map(certificate).collect(),
            tls13_only: text("tls.min_version") == "1.3",
            handshake_timeout: span("tls.handshake_timeout"),
            stores: document
                .rows("store")
                .iter()
                .filter_map(|row| store(row, &mut wrong))
                .collect(),
            store_ttl_min: span("stores.ttl_min"),
            lower_memory: lower_memory(document, &mut wrong),
            storage_rules: document.rows("storage").iter().map(storage_rule).collect(),
            origins: document
                .rows("origin")
                .iter()
                .filter_map(|row| origin(row, &mut wrong))
                .collect(),
            director: match text("origins.director").as_str() {
                "hash" => Director::Hash,
                "fallback" => Director::Fallback,
                _ => Director::RoundRobin,
            },
            origin_timeouts: OriginTimeouts {
                connect: span("origins.connect_timeout"),
                first_byte: span("origins.first_byte_timeout"),
                between_bytes: span("origins.between_bytes_timeout"),
                abandoned: span("origins.abandoned_timeout"),
                keep_alive: span("origins.keep_alive"),
            },
            upgrades: document.value("origins.upgrades").list(),
            health: health_path.map(|path| Health {
                path,
                interval: span("health.interval"),
                timeout: span("health.timeout"),
                status: u16::try_from(number("health.status")).unwrap_or(200),
                window: u32::try_from(number("health.window")).unwrap_or(8),
                threshold: u32::try_from(number("health.threshold")).unwrap_or(3),
            }),
            cache: Cache {
                object_bytes_max,
                objective: objective(&text("cache.objective")).unwrap_or_default(),
                grace: span("cache.grace"),
                stale_if_error: span("cache.stale_if_error"),
                heuristic: document.value("cache.heuristic").bool(),
                heuristic_max: span("cache.heuristic_max"),
                negative: Some(span("cache.negative")).filter(|span| !span.is_zero()),
                hit_for_miss: span("cache.hit_for_miss"),
                set_cookie: match text("cache.set_cookie").as_str() {
                    "strip" => SetCookie::Strip,
                    "store" => SetCookie::Store,
                    _ => SetCookie::Pass,
                },
                forward: document.value("cache.forward").list(),
                peers: networks("cache.peers", document.value("cache.peers"), &mut wrong),
                loop_id: match text("cache.loop_id") {
                    auto if auto == "auto" => None,
                    own => Some(name("cache.loop_id", own, &mut wrong)),
                },
                client_cache_control: document.value("cache.client_cache_control").bool(),
                cache_status: document.value("cache.cache_status").bool(),
                name: name("cache.name", text("cache.name"), &mut wrong),
                purge_from: networks(
                    "cache.purge_from",
                    document.value("cache.purge_from"),
                    &mut wrong,
                ),
                gzip: document.value("cache.gzip").bool().then_some(true),
                esi: document.value("cache.esi").bool(),
            },
            esi: EsiSettings {
                includes_max: u32::try_from(number("esi.includes_max")).unwrap_or(u32::MAX),
                bytes_max: number("esi.bytes_max"),
                timeout: span("esi.timeout"),
                ..EsiSettings::default()
            },
            http2: Http2::default(),
            bans: BanSettings::default(),
            limits: limits(document, memory_bytes, &mut wrong),
            log: Log {
                access: match text("log.access").as_str() {
                    "off" => LogTarget::Off,
                    "stdout" => LogTarget::Stdout,
                    "stderr" => LogTarget::Stderr,
                    file => LogTarget::File(file.into()),
                },
                format: text("log.format"),
            },
            admin_listen: match text("admin.listen").as_str() {
                "off" => None,
                address => parse_address("admin.listen", address, &mut wrong),
            },
            admin_hosts: document.value("admin.hosts").list(),
            admin_token_file: Some(text("admin.token_file"))
                .filter(|f| f != "auto")
                .map(Into::into),
        };
        if let Some(lower) = &settings.lower_memory
            && (lower.class == "ram"
                || settings.stores.iter().any(|store| store.class == lower.class))
        {
            wrong.push(format!(
                "lower_memory.class is `{}`, which is something else's name: give another",
                lower.class
            ));
        }
        for rule in &settings.storage_rules {
            if let Storage::Class(class) = &rule.storage
                && !settings.store_classes().any(|known| known == &**class)
            {
                wrong.push(format!(
                    "storage.class names `{class}`, which nothing has: give a `[[store]]` \
                     class = \"{class}\", or \"ram\" for memory only"
                ));
            }
        }
        if settings.origins.is_empty() && settings.vcl.is_none() && wrong.is_empty() {
            wrong.push(
                "no origin: give --origin URL, --vcl FILE, or [[origin]] with url in the file"
                    .to_owned(),
            );
        }
        for (index, origin) in settings.origins.iter().enumerate() {
            if settings.origins.iter().take(index).any(|other| other.name == origin.name) {
                wrong.push(format!(
                    "two origins are named `{}`, which logs and metrics could not tell apart; give \
                     them different origin.name",
                    origin.name
                ));
            }
        }
        if wrong.is_empty() { Ok(settings) } else { Err(wrong) }
    }
}

impl Settings {
    /// The classes of the stores, each once for every store that has it, and that of memory of a
    /// lower class.
    pub fn store_classes(&self) -> impl Iterator<Item = &str> {
        let lower = self.lower_memory.iter().map(|lower| lower.class.as_str());
        self.stores.iter().map(|store| store.class.as_str()).chain(lower)
    }

    /// Where a response to a request for this target may be kept, by the rules of the
    /// configuration.
    pub fn storage_of(&self, target: &str) -> Storage {
        self.storage_rule(target).map_or_else(Storage::default, |rule| rule.storage.clone())
    }

    /// What memory is to have the most of of responses to requests for this target, where a rule
    /// says so.
    pub fn objective_of(&self, target: &str) -> Option<Objective> {
        self.storage_rule(target).and_then(|rule| rule.objective)
    }

    fn storage_rule(&self, target: &str) -> Option<&StorageRule> {
        self.storage_rules.iter().find(|rule| target.starts_with(&rule.path))
    }
}

fn objective(text: &str) -> Option<Objective> {
    [Objective::Requests, Objective::Bytes].into_iter().find(|one| one.code() == text)
}

fn storage_rule(row: &Row<'_>) -> StorageRule {
    StorageRule {
        path: row.value("storage[].path").text(),
        storage: match row.value("storage[].class").text().as_str() {
            "any" => Storage::Configured,
            class => Storage::named(class),
        },
        objective: objective(&row.value("storage[].objective").text()),
    }
}

fn limits(document: &Document, memory_bytes: u64, wrong: &mut Vec<String>) -> Limits {
    let number = |path: &str| document.value(path).number();
    let span = |path: &str| document.value(path).span();
    let small = |path: &str| u32::try_from(number(path)).unwrap_or(u32::MAX);
    let tiny = |path: &str| u8::try_from(number(path)).unwrap_or(u8::MAX);
    Limits {
        connections_max: count(number("limits.connections_max")),
        head_bytes_max: count(number("limits.head_bytes_max")),
        fields_max: count(number("limits.fields_max")),
        target_bytes_max: count(number("limits.target_bytes_max")),
        body_bytes_max: number("limits.body_bytes_max"),
        request_timeout: span("limits.request_timeout"),
        body_timeout: span("limits.body_timeout"),
        body_rate_min: number("limits.body_rate_min"),
        idle_timeout: span("limits.idle_timeout"),
        send_timeout: span("limits.send_timeout"),
        send_rate_min: number("limits.send_rate_min"),
        readers_percent: number("limits.readers_percent"),
        readers_network_percent: number("limits.readers_network_percent"),
        fills_percent: number("limits.fills_percent"),
        network: Prefixes {
            v4: tiny("limits.network_bits_v4"),
            v6: tiny("limits.network_bits_v6"),
        },
        origin_network_percent: tiny("limits.origin_network_percent"),
        streams_max: small("limits.streams_max"),
        requests_bytes_max: match document.value("limits.requests_bytes_max").text().as_str() {
            "auto" => memory_bytes / 8,
            size => size_of_text("limits.requests_bytes_max", size, wrong),
        },
        restarts_max: small("limits.restarts_max"),
        retries_max: small("limits.retries_max"),
    }
}

fn listener(row: &Row<'_>, wrong: &mut Vec<String>) -> Option<Listener> {
    Some(Listener {
        name: None,
        address: parse_address("listen.address", &row.value("listen[].address").text(), wrong)?,
        tls: row.value("listen[].tls").bool(),
        proxy_protocol: row.value("listen[].proxy_protocol").bool(),
        proxy_from: networks("listen.proxy_from", row.value("listen[].proxy_from"), wrong),
    })
}

fn certificate(row: &Row<'_>) -> Certificate {
    Certificate {
        cert: row.value("certificate[].cert").text().into(),
        key: row.value("certificate[].key").text().into(),
        ocsp: optional(row.value("certificate[].ocsp").text()).map(Into::into),
    }
}

fn origin(row: &Row<'_>, wrong: &mut Vec<String>) -> Option<Origin> {
    let text = |path: &str| row.value(path).text();
    let url = text("origin[].url");
    let rest = ["http://", "https://", "unix:"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let Some(rest) = rest.filter(|rest| !rest.is_empty()) else {
        wrong.push(format!(
            "origin.url is `http://host:port`, `https://host` or `unix:/path`, not `{url}`"
        ));
        return None;
    };
    let host = rest.split('/').next().unwrap_or(rest).to_owned();
    if !url.starts_with("unix:") && rest.trim_end_matches('/').contains('/') {
        wrong.push(format!("origin.url has a path, which requests bring themselves: `{url}`"));
        return None;
    }
    if let Err(error) = url.parse::<OriginSettings>() {
        wrong.push(error.to_string());
        return None;
    }
    Some(Origin {
        name: optional(text("origin[].name"))
            .unwrap_or_else(|| if host.is_empty() { url.clone() } else { host }),
        url: url.trim_end_matches('/').to_owned(),
        host: optional(text("origin[].host")),
        sni: optional(text("origin[].sni")),
        verify: row.value("origin[].verify").bool(),
        ca: optional(text("origin[].ca")).map(Into::into),
        weight: u32::try_from(row.value("origin[].weight").number()).unwrap_or(1),
        connections_max: count(row.value("origin[].connections_max").number()),
    })
}

fn store(row: &Row<'_>, wrong: &mut Vec<String>) -> Option<Store> {
    let text = |path: &str| row.value(path).text();
    let Some(path) = optional(text("store[].path")) else {
        wrong.push("store.path is missing: give a file or a block device".to_owned());
        return None;
    };
    let drive_writes = text("store[].drive_writes");
    let drive_writes = match drive_writes.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => number,
        _ => {
            wrong.push(format!("store.drive_writes is a number above 0, not `{drive_writes}`"));
            return None;
        }
    };
    let mut size = |key: &str| {
        optional(text(&key.replace('.', "[]."))).map(|text| size_of_text(key, &text, wrong))
    };
    let (object_bytes_min, object_bytes_max) =
        (size("store.object_min").unwrap_or(0), size("store.object_max").unwrap_or(u64::MAX));
    if object_bytes_min > object_bytes_max {
        wrong.push("store.object_min is above store.object_max: nothing would fit".to_owned());
        return None;
    }
    let mut size = |key: &str| {
        optional(text(&key.replace('.', "[]."))).map(|text| size_of_text(key, &text, wrong))
    };
    Some(Store {
        bytes: size("store.size"),
        object_bytes: size("store.object_size"),
        path: path.into(),
        weight: Some(row.value("store[].weight").number() as f64).filter(|weight| *weight > 0.0),
        drive_writes,
        keep_used: row.value("store[].keep_used").bool(),
        class: text("store[].class"),
        ttl_min: row.value("store[].ttl_min").span(),
        object_bytes_min,
        object_bytes_max,
    })
}

fn parse_address(key: &str, text: &str, wrong: &mut Vec<String>) -> Option<Address> {
    text.parse().map_err(|error| wrong.push(format!("{key}: {error}"))).ok()
}

fn networks(path: &str, value: Value, wrong: &mut Vec<String>) -> Vec<Network> {
    let mut out = Vec::new();
    for text in value.list() {
        match text.parse() {
            Ok(network) => out.push(network),
            Err(error) => wrong.push(format!("{path}: {error}")),
        }
    }
    out
}

/// A name goes into fields as a token (RFC 9211 §2, RFC 8586 §2), so it must be one.
fn name(key: &str, text: String, wrong: &mut Vec<String>) -> String {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    if text.is_empty() || !text.as_bytes()[0].is_ascii_alphabetic() || !text.bytes().all(token) {
        wrong.push(format!("{key} takes letters, digits, `-`, `.` and `_`, not `{text}`"));
    }
    text
}

fn memory(text: &str, wrong: &mut Vec<String>) -> u64 {
    if text == "auto" {
        return machine_memory_bytes() / 4;
    }
    let bytes = size_of_text("memory", text, wrong);
    if wrong.is_empty() && bytes < MEMORY_BYTES_MIN {
        wrong.push(format!("memory is at least 16MiB, not `{text}`"));
    }
    bytes
}

/// Below this the arena has too few frames to hold anything useful.
const MEMORY_BYTES_MIN: u64 = 16 << 20;

pub(super) fn size_of_text(key: &str, text: &str, wrong: &mut Vec<String>) -> u64 {
    units::parse_bytes(text).unwrap_or_else(|error| {
        wrong.push(format!("{key}: {error}"));
        0
    })
}

/// Memory this process may use: the machine's, or the cgroup's limit where that is less.
fn machine_memory_bytes() -> u64 {
    let machine = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line =
                text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.trim().to_owned();
            line.trim_end_matches(" kB").trim().parse::<u64>().ok()
        })
        .map_or(4 << 30, |kib| kib << 10);
    let cgroup = std::fs::read_to_string("/sys/fs/cgroup/memory.max")
        .ok()
        .and_then(|text| text.trim().parse::<u64>().ok());
    machine.min(cgroup.unwrap_or(u64::MAX))
}

pub(super) fn optional(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<Settings, Vec<String>> {
        Settings::from_document(&Document::parse(text).expect("the text is well-formed"))
    }

    #[test]
    fn a_small_file_is_complete_by_defaults() {
        let settings = settings(
            "memory = \"256MB\"\n[[listen]]\naddress = \":8000\"\n[[origin]]\nurl = \"http://a:81/\"\n",
        )
        .unwrap();
        assert_eq!(settings.memory_bytes, 256_000_000);
        assert_eq!(settings.cache.object_bytes_max, 64_000_000);
        assert_eq!(settings.origins[0].name, "a:81");
        assert_eq!(settings.origins[0].url, "http://a:81");
        assert_eq!(settings.cache.purge_from.len(), 2);
        let proxies = settings.listeners[0].proxy_from.iter().map(ToString::to_string);
        assert_eq!(proxies.collect::<Vec<_>>(), ["127.0.0.0/8", "::1/128"]);
    }

    #[test]
    fn wrong_values_are_all_listed() {
        let wrong = settings(
            "memory = \"1KB\"\n[[listen]]\naddress = \"nowhere\"\n[[origin]]\nurl = \"ftp://a\"\n\
             [cache]\npurge_from = [\"x\"]\nname = \"a b\"\n\
             [[listen]]\naddress = \":1\"\nproxy_from = [\"y\"]\n",
        )
        .unwrap_err();
        assert_eq!(wrong.len(), 6, "{wrong:?}");
    }

    #[test]
    fn origins_of_one_name_are_refused() {
        let origin = "[[origin]]\nname = \"a\"\nurl = \"http://a:81\"\n";
        let wrong = settings(&origin.repeat(2)).unwrap_err();
        assert!(wrong[0].contains("named `a`"), "{wrong:?}");
    }

    #[test]
    fn an_origin_that_could_not_be_asked_is_refused() {
        for url in ["http://a:", "http://a:65536", "http://user@a", "https://a?b"] {
            let wrong = settings(&format!("[[origin]]\nurl = \"{url}\"\n")).unwrap_err();
            assert!(wrong[0].contains(url), "{wrong:?}");
        }
    }

    #[test]
    fn storage_goes_by_path_and_names_classes_there_are() {
        let base = "[[origin]]\nurl = \"http://a\"\n[[store]]\npath = \"/x\"\nclass = \"qlc\"\n";
        let rules = "[[storage]]\npath = \"/live/\"\nclass = \"ram\"\n\
                     [[storage]]\npath = \"/vod/\"\nclass = \"qlc\"\n";
        let settings = settings(&format!("{base}{rules}")).unwrap();
        assert_eq!(settings.storage_of("/live/1.ts"), Storage::Memory);
        assert_eq!(settings.storage_of("/vod/1.mp4"), Storage::Class("qlc".into()));
        assert_eq!(settings.storage_of("/other"), Storage::Configured);
        let rule = "[[storage]]\npath = \"/api/\"\nclass = \"any\"\nobjective = \"requests\"\n";
        let settings = self::settings(&format!("{base}{rule}{rules}")).unwrap();
        assert_eq!(settings.storage_of("/api/1"), Storage::Configured);
        assert_eq!(settings.objective_of("/api/1"), Some(Objective::Requests));
        assert_eq!(settings.objective_of("/vod/1.mp4"), None);
        let wrong = self::settings(&format!("{base}[[storage]]\nclass = \"nvme\"\n")).unwrap_err();
        assert!(wrong[0].contains("`nvme`"), "{wrong:?}");
        let sizes = "object_min = \"2MB\"\nobject_max = \"1MB\"\n";
        let wrong = self::settings(&format!("{base}{sizes}")).unwrap_err();
        assert!(wrong[0].contains("object_min"), "{wrong:?}");
    }

    #[test]
    fn no_origin_says_how_to_give_one() {
        assert!(settings("").unwrap_err()[0].contains("--origin"));
    }
}

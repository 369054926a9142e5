//! What an origin is: where it listens, how it is spoken to, what it may cost.

use crate::base_path::BasePath;
use crate::capacity::Capacity;
use crate::error::{FailureKind, OriginError};
use crate::health::{HealthCell, PassiveRule};
use crate::hold::Hold;
use crate::line::Claim;
use crate::outage::Outage;
use crate::resolve::{Resolved, Resolver};
use crate::share::{Party, Shares};
use crate::stats::OriginStats;
use freshet_base::clock::UnixMillis;
use freshet_http::message::Scheme;
use freshet_net::address::{Address, PeerAddress};
use freshet_net::tls::client::{ClientOptions, Identity, client_config};
use freshet_net::tls::{ALPN_HTTP_1_1, ALPN_HTTP_2};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Identity of an [`Origin`] in this process, never used twice. An origin that a new
/// configuration leaves as it was keeps its id, its health, its counters and its connections.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct OriginId(pub u32);

impl OriginId {
    fn next() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self(NEXT.fetch_add(1, Relaxed))
    }
}

/// Where an origin listens.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum OriginAddress {
    /// A name that is looked up, and a port.
    Name {
        /// Host name.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// An IP address and port, or a Unix socket.
    Fixed(Address),
}

/// How TLS is spoken to an origin.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsSettings {
    /// Name for SNI and for the certificate; the address' host where `None`.
    pub server_name: Option<String>,
    /// Whether the certificate is verified. Without, anyone on the path can be the origin.
    pub verify: bool,
    /// PEM file of authorities to trust instead of the public ones.
    pub ca: Option<PathBuf>,
    /// PEM files of our certificate chain and key, where the origin wants them.
    pub client_certificate: Option<Box<(PathBuf, PathBuf)>>,
}

impl Default for TlsSettings {
    fn default() -> Self {
        Self { server_name: None, verify: true, ca: None, client_certificate: None }
    }
}

/// Which HTTP an origin is spoken to in.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum HttpVersion {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2: agreed on in the TLS handshake, or by prior knowledge without TLS (RFC 9113 §3.3).
    Http2,
    /// HTTP/2 where a TLS handshake agrees on it, HTTP/1.1 where not.
    Either,
}

/// How long each step may take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timeouts {
    /// From no connection to one that can carry a request: name, TCP and TLS together.
    pub connect: Duration,
    /// From the request sent to a complete response head; begins again after an interim response.
    pub first_byte: Duration,
    /// Between two bytes of a response body, and between two bytes the origin takes of a request.
    pub between_bytes: Duration,
    /// For a connection, where `connections_max` are in use.
    pub queue: Duration,
    /// How long an unused connection is kept. Below the 60 s to 75 s after which most servers
    /// close theirs, so that requests seldom meet a connection that is just being closed.
    pub idle: Duration,
}

/// How long one request waits, where that is not what its origin's settings say.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Waits {
    /// For a connection: a place under the limit, name, TCP and TLS together.
    pub connect: Option<Duration>,
    /// As [`Timeouts::first_byte`].
    pub first_byte: Option<Duration>,
    /// As [`Timeouts::between_bytes`].
    pub between_bytes: Option<Duration>,
}

/// What one request is sent with besides itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms {
    /// How long it waits.
    pub waits: Waits,
    /// The client and where it came in, for an origin that is told in a PROXY header.
    pub ends: Option<(SocketAddr, SocketAddr)>,
    /// Limits on the response's head, where they are not the origin's.
    pub limits: Option<freshet_wire::h1::Limits>,
    /// Whose share of the origin's connections it comes out of.
    pub party: Option<Party>,
    /// Its place among those that wait for a connection.
    pub claim: Claim,
    /// Whether it is not sent again where the connection it went over turns out to be dead.
    pub is_sent_once: bool,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(3),
            first_byte: Duration::from_secs(60),
            between_bytes: Duration::from_secs(30),
            queue: Duration::from_secs(1),
            idle: Duration::from_secs(55),
        }
    }
}

/// Everything about an origin that is configured.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OriginSettings {
    /// Name for logs, metrics and directors.
    pub name: String,
    /// Where it listens.
    pub address: OriginAddress,
    /// Whether and how TLS is spoken.
    pub tls: Option<TlsSettings>,
    /// `Host` to send instead of the request's.
    pub host_header: Option<String>,
    /// Below which of its paths its content is.
    pub base_path: BasePath,
    /// How long each step may take.
    pub timeouts: Timeouts,
    /// Connections over all workers, idle ones included.
    pub connections_max: u32,
    /// Exchanges of one worker that may wait for a connection.
    pub connection_waiters_max: usize,
    /// Idle connections of one worker.
    pub idle_max: usize,
    /// When failed connections make it suspect.
    pub passive: PassiveRule,
    /// Sent first on each connection.
    pub preamble: Box<[u8]>,
    /// Version of the PROXY header that goes before a request, 1 or 2; 0 for none. A connection
    /// then carries one request, since the next may be for another client.
    pub proxy_header: u8,
    /// Limits on response heads and bodies' framing.
    pub limits: freshet_wire::h1::Limits,
    /// Which HTTP it is spoken to in.
    pub http: HttpVersion,
    /// Whether its outages are logged; who logs them himself has no use for that.
    pub logs_outages: bool,
}

impl OriginSettings {
    /// Usual settings for an origin at `address`, named after it.
    pub fn new(address: OriginAddress) -> Self {
        Self {
            name: address.to_string(),
            address,
            tls: None,
            host_header: None,
            base_path: BasePath::default(),
            timeouts: Timeouts::default(),
            // Twice what one nginx worker takes by default; a limit that only a runaway meets.
            connections_max: 1024,
            // Waiting longer than a second is refused anyway; this bounds what waits by memory.
            connection_waiters_max: 1024,
            idle_max: 256,
            passive: PassiveRule::default(),
            preamble: Box::default(),
            proxy_header: 0,
            limits: freshet_wire::h1::Limits::default(),
            http: HttpVersion::default(),
            logs_outages: true,
        }
    }

    fn config_error(&self, reason: impl Into<String>) -> OriginError {
        OriginError::Config { origin: self.name.clone(), reason: reason.into() }
    }
}

/// Reads `http://host[:port]`, `https://host[:port]`, `host[:port]` and `unix:/path`; a lone slash
/// may follow a host.
impl FromStr for OriginSettings {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        let refuse = |reason: &str| OriginError::Config {
            origin: text.into(),
            reason: format!("{reason}; write it as https://origin.example:8443 or unix:/path"),
        };
        if text.starts_with("unix:") {
            let address = text.parse().map_err(|_| refuse("no path after `unix:`"))?;
            return Ok(Self::new(OriginAddress::Fixed(address)));
        }
        let (tls, rest) = match text.split_once("://") {
            None | Some(("http", _)) => (None, text.strip_prefix("http://").unwrap_or(text)),
            Some(("https", rest)) => (Some(TlsSettings::default()), rest),
            Some(_) => return Err(refuse("the scheme is neither http nor https")),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#']) {
            return Err(refuse("an origin has no path"));
        }
        if authority.contains('@') {
            return Err(refuse("an origin has no user name"));
        }
        let port_default = if tls.is_some() { 443 } else { 80 };
        let address = parse_authority(authority, port_default).map_err(refuse)?;
        Ok(Self { tls, name: authority.into(), ..Self::new(address) })
    }
}

impl std::fmt::Display for OriginAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name { host, port } => write!(f, "{host}:{port}"),
            Self::Fixed(address) => address.fmt(f),
        }
    }
}

fn parse_authority(text: &str, port_default: u16) -> Result<OriginAddress, &'static str> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let port = match port {
        None => port_default,
        Some(digits) => {
            let number = digits.bytes().all(|byte| byte.is_ascii_digit());
            let port = number.then(|| digits.parse().ok()).flatten().filter(|port| *port > 0);
            port.ok_or("the port is not a number from 1 to 65535")?
        }
    };
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    if let Some(literal) = bracketed {
        let ip: IpAddr = literal.parse().map_err(|_| "no IPv6 address between the brackets")?;
        return Ok(OriginAddress::Fixed(Address::Tcp(SocketAddr::new(ip, port))));
    }
    if let Ok(ip) = host.parse::<IpAddr>() {
        if ip.is_ipv6() {
            return Err("an IPv6 address needs brackets");
        }
        return Ok(OriginAddress::Fixed(Address::Tcp(SocketAddr::new(ip, port))));
    }
    // RFC 1123 labels, and the underscore that container networks use.
    let label = |label: &str| {
        let valid = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=63).contains(&label.len()) && label.bytes().all(valid)
    };
    let name = host.strip_suffix('.').unwrap_or(host);
    if name.len() > 253 || !name.split('.').all(label) {
        return Err("the host is not a name");
    }
    Ok(OriginAddress::Name { host: host.to_ascii_lowercase(), port })
}

/// An origin in use: its settings and what all workers share of it.
#[derive(Debug)]
pub struct Origin {
    /// Identity in this process.
    pub id: OriginId,
    /// What is configured.
    pub settings: OriginSettings,
    /// Health.
    pub health: HealthCell,
    /// Counters.
    pub stats: OriginStats,
    /// Whether it is left alone after it refused a connection.
    pub hold: Hold,
    pub(crate) outage: Outage,
    pub(crate) capacity: Capacity,
    pub(crate) shares: Shares,
    pub(crate) resolver: Option<Resolver>,
    pub(crate) tls: Option<Box<TlsClient>>,
    /// Until when it counts as one that speaks HTTP/1.1 alone, because it said so.
    pub(crate) old_until: AtomicU64,
}

/// What a handshake needs, made once.
#[derive(Debug)]
pub(crate) struct TlsClient {
    pub(crate) config: Arc<rustls::ClientConfig>,
    /// As `config`, offering HTTP/2 first where it may be spoken.
    pub(crate) offering_http2: Arc<rustls::ClientConfig>,
    pub(crate) server_name: String,
}

impl TlsClient {
    fn new(tls: &TlsSettings, settings: &OriginSettings) -> Result<Self, OriginError> {
        let identity = tls.client_certificate.as_deref().cloned();
        let mut options = ClientOptions {
            ca: tls.ca.clone(),
            verify: tls.verify,
            identity: identity.map(|(certificate, key)| Identity { certificate, key }),
            ..ClientOptions::default()
        };
        let config =
            client_config(&options).map_err(|error| settings.config_error(error.to_string()))?;
        let alpn: &[&[u8]] = match settings.http {
            HttpVersion::Http1 => &[],
            HttpVersion::Http2 => &[ALPN_HTTP_2],
            HttpVersion::Either => &[ALPN_HTTP_2, ALPN_HTTP_1_1],
        };
        let mut offering_http2 = Arc::clone(&config);
        if !alpn.is_empty() {
            options.alpn = alpn.iter().map(|name| name.to_vec()).collect();
            offering_http2 = client_config(&options)
                .map_err(|error| settings.config_error(error.to_string()))?;
        }
        let server_name = match (&tls.server_name, &settings.address) {
            (Some(name), _) => name.clone(),
            (None, OriginAddress::Name { host, .. }) => host.clone(),
            (None, OriginAddress::Fixed(Address::Tcp(address))) => address.ip().to_string(),
            (None, OriginAddress::Fixed(Address::Unix(_))) => {
                return Err(settings.config_error("TLS over a Unix socket needs `server_name`"));
            }
        };
        Ok(Self { config, offering_http2, server_name })
    }
}

impl Origin {
    /// Whether a connection leads to where the origin is, as its name says by now.
    pub(crate) fn is_at(&self, remote: Option<&PeerAddress>) -> bool {
        self.named(remote).is_none_or(|(address, known)| known.has(address))
    }

    /// Notes that a new connection was closed without a word; whether the name has another address
    /// that has not failed.
    pub(crate) fn has_another(&self, silent: Option<&PeerAddress>) -> bool {
        self.named(silent).is_some_and(|(address, known)| {
            known.note(address, true);
            known.has_good()
        })
    }

    /// The address of a connection, and those the origin's name has; none where it is not by a name.
    fn named(&self, remote: Option<&PeerAddress>) -> Option<(SocketAddr, Arc<Resolved>)> {
        let known = self.resolver.as_ref()?.known(Instant::now())?;
        Some((remote?.socket_address()?, known))
    }

    /// Counts an exchange whose head came, and logs the end of an outage.
    pub(crate) fn answered(&self) {
        self.stats.responses.add(1);
        self.health.answered(UnixMillis::now());
        if self.settings.logs_outages {
            self.outage.answered(&self.settings.name, UnixMillis::now());
        }
    }

    /// Counts a failed exchange, and logs it now and then.
    pub(crate) fn failed(&self, error: &OriginError) {
        self.stats.failed(error);
        // As a connection that cannot be made: nobody is there, or nobody who answers.
        if *error == OriginError::OriginVanished || error.kind() == FailureKind::FirstByteTimeout {
            self.health.went_unanswered(self.settings.passive, UnixMillis::now());
        }
        if self.settings.logs_outages {
            self.outage.failed(&self.settings.name, error, UnixMillis::now());
        }
    }

    /// An origin of these settings, under a new id. Reads the TLS files named there; connects to
    /// nothing.
    ///
    /// # Errors
    /// [`OriginError::Config`] for TLS files or names that cannot be used.
    pub fn new(settings: OriginSettings) -> Result<Arc<Self>, OriginError> {
        let resolver = match &settings.address {
            OriginAddress::Name { host, port } => Some(Resolver::system(host, *port)),
            OriginAddress::Fixed(_) => None,
        };
        Self::with_resolver(settings, resolver)
    }

    /// As [`Origin::new`] with a resolver of the caller's for an [`OriginAddress::Name`].
    ///
    /// # Errors
    /// As [`Origin::new`].
    pub fn with_resolver(
        settings: OriginSettings,
        resolver: Option<Resolver>,
    ) -> Result<Arc<Self>, OriginError> {
        // It goes into a request head as it is.
        let host = settings.host_header.as_deref().unwrap_or("origin");
        if host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(settings.config_error(format!("`{host}` cannot be sent as Host")));
        }
        if settings.connections_max == 0 {
            return Err(settings.config_error("`connections_max` is 0; at least 1 is needed"));
        }
        let tls = settings.tls.as_ref().map(|tls| TlsClient::new(tls, &settings)).transpose()?;
        let tls = tls.map(Box::new);
        Ok(Arc::new(Self {
            id: OriginId::next(),
            health: HealthCell::default(),
            stats: OriginStats::default(),
            hold: Hold::default(),
            outage: Outage::default(),
            capacity: Capacity::new(settings.connections_max),
            shares: Shares::default(),
            resolver,
            tls,
            old_until: AtomicU64::new(0),
            settings,
        }))
    }

    /// Parties that have exchanges now, or wait for their share.
    pub fn parties(&self) -> usize {
        self.shares.len()
    }

    /// Why it gets no more requests, if so: all connections are in use, and the last that wanted
    /// one was refused.
    pub fn shortage(&self) -> Option<String> {
        let name = &self.settings.name;
        let connections_max = self.settings.connections_max;
        self.capacity.is_exhausted().then(|| {
            let waiting = self.capacity.waiting_len();
            format!("all {connections_max} connections to {name} are in use, {waiting} wait")
        })
    }

    /// The scheme requests are sent with.
    pub fn scheme(&self) -> Scheme {
        if self.tls.is_some() { Scheme::Https } else { Scheme::Http }
    }

    /// Host and port for `Host` where a request has none of its own.
    pub fn authority(&self) -> String {
        self.settings.host_header.clone().unwrap_or_else(|| self.own_authority())
    }

    /// Whether it is sent its own address as `Host`, whatever clients name. What it names by that, they do not reach.
    pub(crate) fn hears_own_address(&self) -> bool {
        let host = self.settings.host_header.as_ref();
        host.is_some_and(|host| host.eq_ignore_ascii_case(&self.own_authority()))
    }

    fn own_authority(&self) -> String {
        let port_default = if self.tls.is_some() { 443 } else { 80 };
        match &self.settings.address {
            OriginAddress::Name { host, port } if *port == port_default => host.clone(),
            OriginAddress::Fixed(Address::Unix(_)) => "localhost".into(),
            address => address.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> OriginSettings {
        text.parse().unwrap()
    }

    /// A node may have one for each of ten thousand sites, and what is longer takes 1,280 bytes of the allocator.
    #[test]
    fn an_origin_fits_into_a_kilobyte() {
        assert!(size_of::<Origin>() + 2 * size_of::<usize>() <= 1024, "{}", size_of::<Origin>());
    }

    #[test]
    fn origins_read_as_people_write_them() {
        let name = |host: &str, port| OriginAddress::Name { host: host.into(), port };
        let fixed = |text: &str| OriginAddress::Fixed(text.parse().unwrap());
        assert_eq!(read("http://Origin.example").address, name("origin.example", 80));
        assert_eq!(read("https://origin.example/").address, name("origin.example", 443));
        assert_eq!(read("my_service:8080").address, name("my_service", 8080));
        assert_eq!(read("http://127.0.0.1:81").address, fixed("127.0.0.1:81"));
        assert_eq!(read("https://[2001:db8::1]").address, fixed("[2001:db8::1]:443"));
        assert_eq!(read("unix:/run/origin.sock").address, fixed("unix:/run/origin.sock"));
        assert!(read("https://a").tls.is_some() && read("a").tls.is_none());
        assert_eq!(read("https://a:8443").name, "a:8443");
    }

    #[test]
    fn what_is_not_an_origin_is_refused_with_the_text_and_a_cure() {
        for text in [
            "",
            "ftp://a",
            "http://a/b",
            "http://u@a",
            "http://a:0",
            "http://a:x",
            "http://a:70000",
            "2001:db8::1",
            "http://[::1",
            "http://a b",
            "http://a..b",
            "unix:",
            "http://a?x",
        ] {
            let error = text.parse::<OriginSettings>().unwrap_err().to_string();
            assert!(error.contains(text) && error.contains("write it as"), "{text}: {error}");
        }
    }

    #[test]
    fn an_origin_without_connections_is_a_configuration_error() {
        let settings = OriginSettings { connections_max: 0, ..read("http://127.0.0.1:81") };
        let error = Origin::new(settings).unwrap_err();
        assert!(error.to_string().contains("connections_max"), "{error}");
    }

    #[test]
    fn the_authority_leaves_the_usual_port_out() {
        let authority = |text| Origin::new(read(text)).unwrap().authority();
        assert_eq!(authority("http://origin.example:80"), "origin.example");
        assert_eq!(authority("http://origin.example:81"), "origin.example:81");
        assert_eq!(authority("unix:/run/x"), "localhost");
        let overridden =
            OriginSettings { host_header: Some("tv.example".into()), ..read("http://a:81") };
        assert_eq!(Origin::new(overridden).unwrap().authority(), "tv.example");
    }
}

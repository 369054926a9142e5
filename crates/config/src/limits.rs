//! `[limits]`: what clients may take, and policies.
//!
//! [`Limits`] hold for the node: they bite before a request has said which site it is for.

use super::document::Document;
use super::mistake::Mistake;
use super::values::{count, size};
use std::time::Duration;

/// `[limits]` of one site.
#[derive(Clone, Copy, Debug)]
pub struct SiteLimits {
    /// Request body.
    pub body_bytes_max: u64,
    /// Percent of an origin's connections for one network.
    pub origin_network_percent: u8,
    /// Restarts by policy.
    pub restarts_max: u32,
    /// Retries by policy.
    pub retries_max: u32,
}

/// `[limits]` of the node.
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
    /// How long a response may take in all; nothing where a client that takes it may do so for ever. No key: it is
    /// for those who are used to Varnish's `send_timeout`.
    pub response_timeout: Option<Duration>,
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
    /// Connections of one network; `None` for any number.
    pub connections_network_max: Option<u32>,
    /// Keys that rate limits know apart.
    pub rate_keys_max: usize,
    /// HTTP/2 streams.
    pub streams_max: u32,
    /// Memory of requests under way, `auto` resolved.
    pub requests_bytes_max: u64,
}

/// How many bits of an address make a network.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Prefixes {
    /// Of IPv4, 0 to 32.
    pub v4: u8,
    /// Of IPv6, 0 to 128.
    pub v6: u8,
}

/// What a document says of one site.
pub(super) fn site_limits(document: &Document) -> SiteLimits {
    let number = |path: &str| document.value(path).number();
    let small = |path: &str| u32::try_from(number(path)).unwrap_or(u32::MAX);
    SiteLimits {
        body_bytes_max: match number("limits.body_bytes_max") {
            0 => u64::MAX,
            bytes => bytes,
        },
        origin_network_percent: u8::try_from(number("limits.origin_network_percent"))
            .unwrap_or(u8::MAX),
        restarts_max: small("limits.restarts_max"),
        retries_max: small("limits.retries_max"),
    }
}

/// What a document says of a node with so much memory; what is wrong is listed.
pub(super) fn limits(document: &Document, memory_bytes: u64, wrong: &mut Vec<Mistake>) -> Limits {
    let number = |path: &str| document.value(path).number();
    let span = |path: &str| document.value(path).span();
    let small = |path: &str| u32::try_from(number(path)).unwrap_or(u32::MAX);
    let tiny = |path: &str| u8::try_from(number(path)).unwrap_or(u8::MAX);
    Limits {
        connections_max: count(number("limits.connections_max")),
        head_bytes_max: count(number("limits.head_bytes_max")),
        fields_max: count(number("limits.fields_max")),
        target_bytes_max: count(number("limits.target_bytes_max")),
        request_timeout: span("limits.request_timeout"),
        body_timeout: span("limits.body_timeout"),
        body_rate_min: number("limits.body_rate_min"),
        idle_timeout: span("limits.idle_timeout"),
        send_timeout: span("limits.send_timeout"),
        response_timeout: None,
        send_rate_min: number("limits.send_rate_min"),
        readers_percent: number("limits.readers_percent"),
        readers_network_percent: number("limits.readers_network_percent"),
        fills_percent: number("limits.fills_percent"),
        network: Prefixes {
            v4: tiny("limits.network_bits_v4"),
            v6: tiny("limits.network_bits_v6"),
        },
        connections_network_max: Some(small("limits.connections_network_max"))
            .filter(|most| *most > 0),
        rate_keys_max: count(number("limits.rate_keys_max")),
        streams_max: small("limits.streams_max"),
        requests_bytes_max: match document.value("limits.requests_bytes_max").text().as_str() {
            "auto" => memory_bytes / 8,
            _ => size(document, "limits.requests_bytes_max", wrong),
        },
    }
}

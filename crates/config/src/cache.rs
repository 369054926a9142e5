//! `[cache]`: what is kept, for how long, and what clients are told of it.

use super::document::Document;
use super::mistake::Mistake;
use super::stores::objective;
use super::values::{name, networks, size};
use crate::hosts::HostPattern;
use freshet_cache::Objective;
use freshet_http::coding::Coding;
use freshet_http::freshness::SetCookie;
use freshet_net::trust::Network;
use std::sync::Arc;
use std::time::Duration;

/// `[cache]`
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
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
    /// Caches behind this one, by address.
    pub peers: Vec<Network>,
    /// Caches behind this one, by a name in their certificates.
    pub peer_names: Vec<HostPattern>,
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
    /// The codings bodies are kept in beside what they come in, in the order of preference; with
    /// gzip last, unless there are none.
    pub codings: Arc<[Coding]>,
    /// Whether pages that say so have includes, where no VCL policy decides that.
    pub esi: bool,
}

/// What a document says of it, for a node with so much memory; what is wrong is listed.
pub(super) fn cache(document: &Document, memory_bytes: u64, wrong: &mut Vec<Mistake>) -> Cache {
    let text = |path: &str| document.value(path).text();
    let span = |path: &str| document.value(path).span();
    let bool = |path: &str| document.value(path).bool();
    let list = |path: &str| document.value(path).list();
    let codings = codings(document, wrong);
    Cache {
        object_bytes_max: match text("cache.object_bytes_max").as_str() {
            "auto" => memory_bytes / 4,
            _ => size(document, "cache.object_bytes_max", wrong),
        },
        objective: objective(&text("cache.objective")).unwrap_or_default(),
        grace: span("cache.grace"),
        stale_if_error: span("cache.stale_if_error"),
        heuristic: bool("cache.heuristic"),
        heuristic_max: span("cache.heuristic_max"),
        negative: Some(span("cache.negative")).filter(|span| !span.is_zero()),
        hit_for_miss: span("cache.hit_for_miss"),
        set_cookie: match text("cache.set_cookie").as_str() {
            "strip" => SetCookie::Strip,
            "store" => SetCookie::Store,
            _ => SetCookie::Pass,
        },
        forward: list("cache.forward"),
        peers: networks(document, "cache.peers", wrong),
        peer_names: peer_names(document, wrong),
        loop_id: match text("cache.loop_id").as_str() {
            "auto" => None,
            _ => Some(name(document, "cache.loop_id", wrong)),
        },
        client_cache_control: bool("cache.client_cache_control"),
        cache_status: bool("cache.cache_status"),
        name: name(document, "cache.name", wrong),
        purge_from: networks(document, "cache.purge_from", wrong),
        gzip: (bool("cache.gzip") || !codings.is_empty()).then_some(true),
        codings,
        esi: bool("cache.esi"),
    }
}

/// The codings of `cache.codings`, with gzip behind them for clients that take no other.
fn codings(document: &Document, wrong: &mut Vec<Mistake>) -> Arc<[Coding]> {
    let path = "cache.codings";
    let mut out = Vec::new();
    for text in document.value(path).list() {
        match Coding::named(text.as_bytes()) {
            Some(coding) if !out.contains(&coding) => out.push(coding),
            Some(_) => {}
            None => {
                let message = format!("{path} takes `zstd`, `br` and `gzip`, not `{text}`");
                wrong.push(Mistake::error(document.at(path), message));
            }
        }
    }
    if !out.is_empty() && !out.contains(&Coding::Gzip) {
        out.push(Coding::Gzip);
    }
    out.into()
}

fn peer_names(document: &Document, wrong: &mut Vec<Mistake>) -> Vec<HostPattern> {
    let path = "cache.peer_names";
    let mut out = Vec::new();
    for text in document.value(path).list() {
        match text.parse() {
            Ok(pattern) => out.push(pattern),
            Err(error) => wrong.push(Mistake::error(document.at(path), format!("{path}: {error}"))),
        }
    }
    out
}

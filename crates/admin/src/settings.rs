//! The configuration in force, in the shape of `freshet.toml`.

use crate::server::Context;
use axum::Json;
use axum::extract::State;
use freshet_cache::Objective;
use freshet_http::freshness::SetCookie;
use freshet_node::config::Settings;
use freshet_node::config::settings::{Director, LogTarget};
use freshet_node::policy::Storage;
use freshet_store::Placement;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Shows the configuration in force, defaults and flags included: keys as in the file, sizes in
/// bytes, times as the file takes them.
#[utoipa::path(get, path = "/v1/config", tag = "control", security(("token" = [])),
    responses((status = OK, body = Object)))]
pub(crate) async fn config(State(context): State<Arc<Context>>) -> Json<Value> {
    Json(document(&context.node.snapshot().settings))
}

fn document(settings: &Settings) -> Value {
    let timeouts = &settings.origin_timeouts;
    let health = settings.health.as_ref();
    let (cache, limits) = (&settings.cache, &settings.limits);
    let cache_and_limits = json!({
        "cache": {
            "object_bytes_max": cache.object_bytes_max,
            "objective": cache.objective.code(),
            "grace": span(cache.grace),
            "stale_if_error": span(cache.stale_if_error),
            "heuristic": cache.heuristic,
            "heuristic_max": span(cache.heuristic_max),
            "negative": span(cache.negative.unwrap_or_default()),
            "hit_for_miss": span(cache.hit_for_miss),
            "set_cookie": match cache.set_cookie {
                SetCookie::Pass => "pass",
                SetCookie::Strip => "strip",
                SetCookie::Store => "store",
            },
            "forward": cache.forward,
            "peers": cache.peers.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "loop_id": cache.loop_id.as_deref().unwrap_or("auto"),
            "client_cache_control": cache.client_cache_control,
            "gzip": cache.gzip.unwrap_or_default(),
            "esi": cache.esi,
            "cache_status": cache.cache_status,
            "name": cache.name,
            "purge_from": cache.purge_from.iter().map(ToString::to_string).collect::<Vec<_>>(),
        },
        "esi": {
            "includes_max": settings.esi.includes_max,
            "bytes_max": settings.esi.bytes_max,
            "timeout": span(settings.esi.timeout),
        },
        "limits": {
            "connections_max": limits.connections_max,
            "head_bytes_max": limits.head_bytes_max,
            "fields_max": limits.fields_max,
            "target_bytes_max": limits.target_bytes_max,
            "body_bytes_max": limits.body_bytes_max,
            "request_timeout": span(limits.request_timeout),
            "body_timeout": span(limits.body_timeout),
            "body_rate_min": limits.body_rate_min,
            "idle_timeout": span(limits.idle_timeout),
            "send_timeout": span(limits.send_timeout),
            "send_rate_min": limits.send_rate_min,
            "readers_percent": limits.readers_percent,
            "readers_network_percent": limits.readers_network_percent,
            "fills_percent": limits.fills_percent,
            "network_bits_v4": limits.network.v4,
            "network_bits_v6": limits.network.v6,
            "origin_network_percent": limits.origin_network_percent,
            "streams_max": limits.streams_max,
            "requests_bytes_max": limits.requests_bytes_max,
            "restarts_max": limits.restarts_max,
            "retries_max": limits.retries_max,
        },
    });
    let mut document = json!({
        "workers": settings.workers,
        "memory": settings.memory_bytes,
        "drain": span(settings.drain),
        "vcl": path_or(settings.vcl.as_ref(), ""),
        "store": stores(settings),
        "stores": { "ttl_min": span(settings.store_ttl_min) },
        "lower_memory": lower_memory(settings),
        "storage": storage_rules(settings),
        "listen": listeners(settings),
        "certificate": certificates(settings),
        "tls": {
            "min_version": if settings.tls13_only { "1.3" } else { "1.2" },
            "handshake_timeout": span(settings.handshake_timeout),
        },
        "origin": origins(settings),
        "origins": {
            "director": match settings.director {
                Director::RoundRobin => "round-robin",
                Director::Hash => "hash",
                Director::Fallback => "fallback",
            },
            "connect_timeout": span(timeouts.connect),
            "first_byte_timeout": span(timeouts.first_byte),
            "between_bytes_timeout": span(timeouts.between_bytes),
            "abandoned_timeout": span(timeouts.abandoned),
            "keep_alive": span(timeouts.keep_alive),
            "upgrades": settings.upgrades,
        },
        "health": {
            "path": health.map_or("", |health| &health.path),
            "interval": health.map(|health| span(health.interval)),
            "timeout": health.map(|health| span(health.timeout)),
            "status": health.map(|health| health.status),
            "window": health.map(|health| health.window),
            "threshold": health.map(|health| health.threshold),
        },
        "log": {
            "access": match &settings.log.access {
                LogTarget::Off => "off".to_owned(),
                LogTarget::Stdout => "stdout".to_owned(),
                LogTarget::Stderr => "stderr".to_owned(),
                LogTarget::File(path) => path.display().to_string(),
            },
            "format": settings.log.format,
        },
        "admin": {
            "listen": settings.admin_listen.as_ref().map_or_else(|| "off".to_owned(), ToString::to_string),
            "hosts": settings.admin_hosts,
            "token_file": path_or(settings.admin_token_file.as_ref(), "auto"),
        },
    });
    if let (Value::Object(document), Value::Object(more)) = (&mut document, cache_and_limits) {
        document.extend(more);
    }
    document
}

fn listeners(settings: &Settings) -> Value {
    let one = |listener: &freshet_node::config::settings::Listener| {
        json!({
            "address": listener.address.to_string(),
            "tls": listener.tls,
            "proxy_protocol": listener.proxy_protocol,
            "proxy_from": listener.proxy_from.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
    };
    settings.listeners.iter().map(one).collect()
}

fn storage_rules(settings: &Settings) -> Value {
    let one = |rule: &freshet_node::config::settings::StorageRule| {
        let class = match &rule.storage {
            Storage::Class(class) => class,
            Storage::Configured => "any",
            Storage::Memory => "ram",
        };
        let objective = rule.objective.map_or("auto", Objective::code);
        json!({ "path": rule.path, "class": class, "objective": objective })
    };
    settings.storage_rules.iter().map(one).collect()
}

fn stores(settings: &Settings) -> Value {
    let one = |store: &freshet_node::config::settings::Store| {
        json!({
            "path": store.path,
            "size": store.bytes,
            "object_size": store.object_bytes,
            "weight": store.weight,
            "drive_writes": store.drive_writes,
            "keep_used": store.keep_used,
            "class": store.class,
            "ttl_min": span(store.ttl_min),
            "object_min": store.object_bytes_min,
            "object_max": Some(store.object_bytes_max).filter(|bytes| *bytes < u64::MAX),
        })
    };
    settings.stores.iter().map(one).collect()
}

fn lower_memory(settings: &Settings) -> Value {
    let Some(lower) = &settings.lower_memory else { return json!({}) };
    let (path, node) = match &lower.placement {
        Placement::File(path) => (Some(path), None),
        Placement::Node(node) => (None, Some(node.to_string())),
        Placement::Anywhere => (None, None),
    };
    json!({
        "path": path,
        "numa_node": node,
        "size": lower.bytes,
        "class": lower.class,
        "ttl_min": span(lower.ttl_min),
        "object_min": lower.object_bytes_min,
        "object_max": Some(lower.object_bytes_max).filter(|bytes| *bytes < u64::MAX),
    })
}

fn certificates(settings: &Settings) -> Value {
    let one = |certificate: &freshet_node::config::settings::Certificate| {
        json!({
            "cert": certificate.cert,
            "key": certificate.key,
            "ocsp": path_or(certificate.ocsp.as_ref(), ""),
        })
    };
    settings.certificates.iter().map(one).collect()
}

fn origins(settings: &Settings) -> Value {
    let one = |origin: &freshet_node::config::settings::Origin| {
        json!({
            "name": origin.name,
            "url": origin.url,
            "host": origin.host,
            "sni": origin.sni,
            "verify": origin.verify,
            "ca": path_or(origin.ca.as_ref(), ""),
            "weight": origin.weight,
            "connections_max": origin.connections_max,
        })
    };
    settings.origins.iter().map(one).collect()
}

fn path_or(path: Option<&PathBuf>, other: &str) -> String {
    path.map_or_else(|| other.to_owned(), |path| path.display().to_string())
}

/// A time as the file takes it, in the largest unit that is exact.
pub(crate) fn span(span: Duration) -> String {
    let ms = span.as_millis();
    let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
    match units.iter().find(|(_, factor)| ms > 0 && ms.is_multiple_of(*factor)) {
        Some((unit, factor)) => format!("{}{unit}", ms / factor),
        None if ms == 0 => "0s".to_owned(),
        None => format!("{ms}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_node::config::document::Document;
    use freshet_node::config::keys::KEYS;

    #[test]
    fn every_key_of_the_file_is_shown() {
        let text = "[[listen]]\naddress = \":0\"\n[[origin]]\nurl = \"http://a\"\n\
                    [[certificate]]\ncert = \"a\"\nkey = \"b\"\n\
                    [[store]]\npath = \"c\"\n[[storage]]\npath = \"/d/\"\n\
                    [lower_memory]\npath = \"/e\"\nsize = \"1GiB\"\n";
        let settings = Settings::from_document(&Document::parse(text).unwrap()).unwrap();
        let document = document(&settings);
        for key in KEYS {
            let pointer = format!("/{}", key.path.replace("[]", "/0").replace('.', "/"));
            let pointer = pointer.replace("//", "/");
            assert!(document.pointer(&pointer).is_some(), "{} is missing", key.path);
        }
    }

    #[test]
    fn times_are_written_as_the_file_takes_them() {
        let written = [0, 250, 1_000, 90_000, 120_000, 86_400_000];
        let written = written.map(|ms| span(Duration::from_millis(ms)));
        assert_eq!(written, ["0s", "250ms", "1s", "90s", "2m", "1d"]);
    }
}

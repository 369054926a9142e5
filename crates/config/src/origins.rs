//! `[[origin]]`, `[origins]` and `[health]`: where content comes from, and what is the same for every
//! server that is asked for it.

use super::document::{Document, Row};
use super::mistake::{Mistake, Place};
use super::values::{as_beginning, count, optional};
use freshet_origin::{HttpVersion, OriginSettings};
use std::path::PathBuf;
use std::time::Duration;

/// `[[origin]]`, and what `[[parent]]` has in common with it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Origin {
    /// Name in logs and metrics.
    pub name: String,
    /// `http`, `https` or `unix` URL, without a path.
    pub url: String,
    /// Path of the URL, where its content begins; empty for a root. A parent has none.
    pub base_path: String,
    /// `Host` to send.
    pub host: Option<String>,
    /// Which HTTP it is spoken to in.
    pub http: HttpVersion,
    /// TLS name.
    pub sni: Option<String>,
    /// Check the certificate.
    pub verify: bool,
    /// Trusted authorities.
    pub ca: Option<PathBuf>,
    /// Files of the certificate chain and key it is shown.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    /// Share.
    pub weight: u32,
    /// Limit over all workers.
    pub connections_max: usize,
    /// Beginnings of the paths it is for; any where empty. A parent is for all.
    pub paths: Vec<String>,
    /// Whether what a request begins with of `paths` is left out when it is asked.
    pub strip_paths: bool,
    /// Where its URL is written.
    pub place: Place,
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
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct OriginTimeouts {
    /// Connect and TLS.
    pub connect: Duration,
    /// First byte.
    pub first_byte: Duration,
    /// Between reads.
    pub between_bytes: Duration,
    /// To an answer that nobody waits for any more.
    pub abandoned: Duration,
    /// For a connection, where there are as many as there may be.
    pub queue: Duration,
    /// Idle connections.
    pub keep_alive: Duration,
}

/// `[health]`
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
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

/// The rows of `[[origin]]`; what is wrong is listed.
pub(super) fn origins(document: &Document, wrong: &mut Vec<Mistake>) -> Vec<Origin> {
    let rows = document.rows("origin");
    let mut origins = Vec::with_capacity(rows.len());
    origins.extend(rows.iter().filter_map(|row| upstream(row, "origin", wrong)));
    for (index, origin) in origins.iter().enumerate() {
        if origins.iter().take(index).any(|other| other.name == origin.name) {
            let message = format!(
                "two origins are named `{}`, which logs and metrics could not tell apart; give \
                 them different origin.name",
                origin.name
            );
            wrong.push(Mistake::error(origin.place, message));
        }
    }
    origins
}

pub(super) fn director(document: &Document) -> Director {
    match document.value("origins.director").text().as_str() {
        "hash" => Director::Hash,
        "fallback" => Director::Fallback,
        _ => Director::RoundRobin,
    }
}

pub(super) fn timeouts(document: &Document) -> OriginTimeouts {
    let span = |path: &str| document.value(path).span();
    OriginTimeouts {
        connect: span("origins.connect_timeout"),
        first_byte: span("origins.first_byte_timeout"),
        between_bytes: span("origins.between_bytes_timeout"),
        abandoned: span("origins.abandoned_timeout"),
        queue: span("origins.queue_timeout"),
        keep_alive: span("origins.keep_alive"),
    }
}

/// Active checks, where a path is given.
pub(super) fn health(document: &Document, wrong: &mut Vec<Mistake>) -> Option<Health> {
    health_by(document, "health.path", wrong)
}

/// Checks that ask for the path under this key, where there is one.
pub(super) fn health_by(
    document: &Document,
    key: &str,
    wrong: &mut Vec<Mistake>,
) -> Option<Health> {
    let path = optional(document.value(key).text())?;
    if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        let message = format!("{key} is a path, as `/healthz`, not `{path}`");
        wrong.push(Mistake::error(document.at(key), message));
        return None;
    }
    let span = |path: &str| document.value(path).span();
    let number = |path: &str| document.value(path).number();
    Some(Health {
        path,
        interval: span("health.interval"),
        timeout: span("health.timeout"),
        status: u16::try_from(number("health.status")).unwrap_or(200),
        window: u32::try_from(number("health.window")).unwrap_or(8),
        threshold: u32::try_from(number("health.threshold")).unwrap_or(3),
    })
}

/// A row of `[[origin]]`, `[[parent]]` or `[[sibling]]`, which is `table`; what is wrong is listed.
pub(super) fn upstream(row: &Row<'_>, table: &str, wrong: &mut Vec<Mistake>) -> Option<Origin> {
    let value = |name: &str| row.value(&format!("{table}[].{name}"));
    let text = |name: &str| value(name).text();
    let url = text("url");
    let place = row.at(&format!("{table}[].url"));
    let rest = ["http://", "https://", "unix:"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let Some(rest) = rest.filter(|rest| !rest.is_empty()) else {
        let message = format!(
            "{table}.url is `http://host:port`, `https://host` or `unix:/path`, not `{url}`"
        );
        wrong.push(Mistake::error(place, message));
        return None;
    };
    let is_socket = url.starts_with("unix:");
    let slash = rest.find('/').filter(|_| !is_socket).map(|at| url.len() - rest.len() + at);
    let (url, base_path) = url.split_at(slash.unwrap_or(url.len()));
    let (url, base_path) = (url.trim_end_matches('/'), base_path.trim_end_matches('/'));
    let wrong_path = if base_path.is_empty() {
        None
    } else if table != "origin" {
        Some("has a path, which requests bring themselves")
    } else if !base_path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte)) {
        Some("has a path that no request can begin with, as `/site` can")
    } else {
        None
    };
    if let Some(what) = wrong_path {
        let message = format!("{table}.url {what}: `{url}{base_path}`");
        wrong.push(Mistake::error(place, message));
        return None;
    }
    if let Err(error) = url.parse::<OriginSettings>() {
        wrong.push(Mistake::error(place, error.to_string()));
        return None;
    }
    let client_certificate = match (optional(text("certificate")), optional(text("key"))) {
        (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
        (None, None) => None,
        _ => {
            let message = format!(
                "{table}.certificate and {table}.key go together: give both PEM files, or none"
            );
            wrong.push(Mistake::error(place, message));
            return None;
        }
    };
    Some(Origin {
        name: optional(text("name")).unwrap_or_else(|| match url.split_once("://") {
            Some((_, host)) => host.to_owned(),
            None => url.to_owned(),
        }),
        url: url.to_owned(),
        base_path: base_path.to_owned(),
        host: optional(text("host")),
        http: match text("http").as_str() {
            "2" => HttpVersion::Http2,
            "auto" => HttpVersion::Either,
            _ => HttpVersion::Http1,
        },
        sni: optional(text("sni")),
        verify: value("verify").bool(),
        ca: optional(text("ca")).map(Into::into),
        client_certificate,
        weight: u32::try_from(value("weight").number()).unwrap_or(1),
        connections_max: count(value("connections_max").number()),
        paths: if table == "origin" { paths(row, wrong)? } else { Vec::new() },
        strip_paths: table == "origin" && row.value("origin[].strip_paths").bool(),
        place,
    })
}

fn paths(row: &Row<'_>, wrong: &mut Vec<Mistake>) -> Option<Vec<String>> {
    let paths = row.value("origin[].paths").list();
    let sent = |path: &String| as_beginning("each of origin.paths", path, "/api/");
    let paths = paths.iter().map(sent).collect::<Result<Vec<_>, _>>();
    let paths = paths
        .map_err(|message| wrong.push(Mistake::error(row.at("origin[].paths"), message)))
        .ok()?;
    if paths.is_empty() && row.value("origin[].strip_paths").bool() {
        let message =
            "origin.strip_paths leaves out what origin.paths lists, which is nothing here";
        wrong.push(Mistake::error(row.at("origin[].strip_paths"), message));
        return None;
    }
    Some(paths)
}

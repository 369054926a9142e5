//! The configuration in force, in the shape of `freshet.toml`.

use crate::context::Context;
use axum::Json;
use axum::extract::State;
use freshet_config::document::{Document, Value as Setting};
use freshet_config::{Settings, keys};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Shows the configuration in force, defaults and flags included: keys as in the file, sizes in
/// bytes, times as the file takes them. A `[[site]]` shows what it says itself.
#[utoipa::path(get, path = "/v1/config", tag = "control", security(("token" = [])),
    responses((status = OK, body = Object, description = "The settings")))]
pub(crate) async fn config(State(context): State<Arc<Context>>) -> Json<Value> {
    Json(shown(&context.node.snapshot().settings))
}

fn shown(settings: &Settings) -> Value {
    let mut root = Map::new();
    put_all(&settings.document, false, &mut root);
    // What `auto` came to.
    for (path, bytes) in [
        ("memory", settings.memory_bytes),
        ("cache.object_bytes_max", settings.site.cache.object_bytes_max),
        ("limits.requests_bytes_max", settings.limits.requests_bytes_max),
    ] {
        put(&mut root, path, None, json!(bytes));
    }
    let sites = settings.document.sites().map(|site| {
        let mut shown = Map::new();
        for key in keys::KEYS {
            if let Some(name) = key.path.strip_prefix("site[].") {
                put(&mut shown, name, None, value(site.value(key.path)));
            }
        }
        put_all(&site, true, &mut shown);
        Value::Object(shown)
    });
    let sites: Vec<_> = sites.collect();
    if !sites.is_empty() {
        root.insert("site".into(), sites.into());
    }
    Value::Object(root)
}

fn put_all(document: &Document, only_given: bool, out: &mut Map<String, Value>) {
    document.each(|key, row, setting, is_given| {
        if is_given || !only_given {
            put(out, key.path, row, value(setting));
        }
    });
}

/// Puts a value where its path says, in the table of this number where there are several.
fn put(out: &mut Map<String, Value>, path: &str, row: Option<usize>, value: Value) {
    let Some((table, name)) = path.split_once("[].").or_else(|| path.split_once('.')) else {
        out.insert(path.into(), value);
        return;
    };
    let at = out.entry(table).or_insert_with(|| match row {
        Some(_) => Value::Array(Vec::new()),
        None => Value::Object(Map::new()),
    });
    let inner = match (at, row) {
        (Value::Array(rows), Some(row)) => {
            if rows.len() <= row {
                rows.resize(row + 1, Value::Object(Map::new()));
            }
            rows[row].as_object_mut()
        }
        (at, _) => at.as_object_mut(),
    };
    if let Some(inner) = inner {
        inner.insert(name.into(), value);
    }
}

fn value(setting: Setting) -> Value {
    match setting {
        Setting::Bool(value) => value.into(),
        Setting::Number(number) => number.into(),
        Setting::Span(time) => span(time).into(),
        Setting::Text(text) => text.into(),
        Setting::List(list) => list.into(),
    }
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

    fn of(text: &str) -> Value {
        shown(&Settings::from_document(&Document::parse(text).unwrap()).unwrap())
    }

    #[test]
    fn every_key_is_shown_with_what_auto_came_to() {
        let document = of("memory = \"64MB\"\n[[origin]]\nurl = \"http://a\"\n");
        for key in keys::KEYS.iter().filter(|key| !key.path.contains("[]")) {
            let pointer = format!("/{}", key.path.replace('.', "/"));
            assert!(document.pointer(&pointer).is_some(), "{} is missing", key.path);
        }
        assert_eq!(document["memory"], 64_000_000);
        assert_eq!(document["cache"]["object_bytes_max"], 16_000_000);
        assert_eq!(document["origin"][0]["url"], "http://a");
        assert_eq!(document["origin"][0]["weight"], 1);
    }

    #[test]
    fn a_site_shows_what_it_says_itself() {
        let document = of("[cache]\ngrace = \"1m\"\n[[site]]\nhosts = [\"a.example\"]\n\
             [[site.origin]]\nurl = \"http://a\"\n[site.limits]\nrestarts_max = 2\n");
        let site = &document["site"][0];
        assert_eq!(site["hosts"][0], "a.example");
        assert_eq!(site["limits"], json!({ "restarts_max": 2 }));
        assert_eq!(site["origin"][0], json!({ "url": "http://a" }));
        assert_eq!(site.get("cache"), None);
    }

    #[test]
    fn times_are_written_as_the_file_takes_them() {
        let written = [0, 250, 1_000, 90_000, 120_000, 86_400_000];
        let written = written.map(|ms| span(Duration::from_millis(ms)));
        assert_eq!(written, ["0s", "250ms", "1s", "90s", "2m", "1d"]);
    }
}

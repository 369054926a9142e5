//! `freshet top`: what a node does right now.

use crate::client::NodeArguments;
use crate::control::{list, uptime_text};
use crate::text::{COLUMNS, cut, micros, percent, print, thousands};
use anyhow::Result;
use clap::Args;
use freshet_base::units::format_bytes;
use freshet_node::stats::HitCounts;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{IsTerminal, stdout};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

/// Reasons shown.
const REASONS_MAX: usize = 8;
/// Sites and kinds of stream whose players are shown.
const PLAYERS_MAX: usize = 6;
/// Moves the cursor home and clears what is below.
const CLEAR: &str = "\x1b[H\x1b[J";

/// `freshet top`
#[derive(Args)]
pub(crate) struct Arguments {
    /// Seconds between two views.
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
    #[command(flatten)]
    node: NodeArguments,
}

/// Shows rates over the last interval, again and again on a terminal, else once.
///
/// # Errors
/// When the node cannot be asked or refuses.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    let mut before = arguments.node.get("/v1/stats")?.json()?;
    let is_terminal = stdout().is_terminal();
    // One that cannot move its cursor is written on.
    let clear = match std::env::var("TERM").as_deref() {
        Err(_) | Ok("" | "dumb") => "\n",
        Ok(_) => CLEAR,
    };
    loop {
        sleep(Duration::from_secs(arguments.interval));
        let after = arguments.node.get("/v1/stats")?.json()?;
        let text = view(&before, &after) + &players(&arguments.node.get("/v1/players")?.lines()?);
        if !is_terminal {
            print(&text)?;
            return Ok(ExitCode::SUCCESS);
        }
        print(clear)?;
        print(&text)?;
        before = after;
    }
}

/// What happened between two sets of figures.
fn view(before: &Value, after: &Value) -> String {
    let number =
        |stats: &Value, path: &str| stats.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    let now = |path: &str| number(after, path);
    let more = |name: &str| {
        let path = format!("/counters/{name}");
        number(after, &path).saturating_sub(number(before, &path))
    };
    let seconds = now("/time_ms").saturating_sub(number(before, "/time_ms")).max(1) as f64 / 1e3;
    let rate = |count: u64| thousands((count as f64 / seconds).round() as u64);
    let gigabits = |bytes: u64| format!("{:.3} Gbit/s", bytes as f64 * 8.0 / 1e9 / seconds);
    let mut out = format!(
        "freshet {}, up {}, {} connections, {} objects, {}\n\n",
        after["version"].as_str().unwrap_or("?"),
        uptime_text(after["uptime_s"].as_f64().unwrap_or(0.0)),
        thousands(now("/connections")),
        thousands(now("/cache/objects")),
        format_bytes(now("/cache/bytes")),
    );
    let hits = HitCounts::of(more);
    let hit_times = Times::between(&before["hit_first_byte"], &after["hit_first_byte"]);
    let miss_times = Times::between(&before["miss_first_byte"], &after["miss_first_byte"]);
    let lines = [
        ("requests", format!("{}/s, {} fetches/s", rate(more("requests")), rate(more("fetches")))),
        (
            "hits",
            format!(
                "{} of requests, {} of bytes",
                percent(hits.hits, hits.requests),
                percent(hits.spared_body_bytes(), hits.body_bytes)
            ),
        ),
        ("to clients", gigabits(more("body_bytes") + more("head_bytes"))),
        ("from origins", gigabits(more("origin_body_bytes"))),
        ("first byte", format!("hit {}, else {}", hit_times.text(), miss_times.text())),
    ];
    for (label, text) in lines {
        let _ = writeln!(out, "{label:<14}{text}");
    }
    let _ = writeln!(out, "\nof the last {} requests", thousands(now("/reasons_of")));
    for reason in list(&after["reasons"]).take(REASONS_MAX) {
        let count = reason["count"].as_u64().unwrap_or(0);
        let line = format!(
            "{:>8} {:<17} {}",
            percent(count, now("/reasons_of")),
            reason["code"].as_str().unwrap_or(""),
            reason["sentence"].as_str().unwrap_or(""),
        );
        let _ = writeln!(out, "{}", cut(&line, COLUMNS));
    }
    out
}

/// How players say they are doing, by site and kind of stream, those with most sessions first; nothing where none
/// says anything.
fn players(lines: &[Value]) -> String {
    let sessions = |line: &Value| line["sessions"].as_u64().unwrap_or(0);
    let mut lines: Vec<&Value> = lines.iter().collect();
    lines.sort_by_key(|line| std::cmp::Reverse(sessions(line)));
    let mut out = String::new();
    if !lines.is_empty() {
        out.push_str("\nplayers by what they say: sessions, stood still, kbit/s, buffer, behind\n");
    }
    for line in lines.into_iter().take(PLAYERS_MAX) {
        let text = |name: &str| line[name].as_str().unwrap_or("").to_owned();
        let figure = |name: &str| line[name].as_f64().unwrap_or(0.0);
        let line = format!(
            "{:>8} {:>6} {:>7.0} {:>7.1} s {:>6.1} s  {} {}",
            thousands(sessions(line)),
            thousands(line["starved"].as_u64().unwrap_or(0)),
            figure("bitrate_kbps"),
            figure("buffer_ms") / 1e3,
            figure("latency_ms") / 1e3,
            text("stream"),
            text("site"),
        );
        let _ = writeln!(out, "{}", cut(line.trim_end(), COLUMNS));
    }
    out
}

/// Times counted between two looks at a histogram.
struct Times(BTreeMap<u64, u64>);

impl Times {
    fn between(before: &Value, after: &Value) -> Self {
        let mut counts = buckets(after);
        for (upper, count) in buckets(before) {
            if let Some(after) = counts.get_mut(&upper) {
                *after = after.saturating_sub(count);
            }
        }
        Self(counts)
    }

    fn quantile(&self, share: f64) -> Option<u64> {
        let sum: u64 = self.0.values().sum();
        let rank = ((sum as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let mut reached = self.0.iter().skip_while(|(_, count)| {
            seen += **count;
            seen < rank
        });
        reached.next().map(|(upper, _)| *upper)
    }

    fn text(&self) -> String {
        let shown = |share| self.quantile(share).map_or_else(|| "-".to_owned(), micros);
        format!("p50 {} p99 {}", shown(0.5), shown(0.99))
    }
}

fn buckets(times: &Value) -> BTreeMap<u64, u64> {
    list(&times["buckets"])
        .filter_map(|pair| Some((pair[0].as_u64()?, pair[1].as_u64()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stats(time_ms: u64, requests: u64, buckets: Value) -> Value {
        json!({
            "version": "0.1.0", "uptime_s": 61.0, "time_ms": time_ms, "connections": 3,
            "counters": {"requests": requests, "hits": requests, "body_bytes": requests * 1_000_000},
            "cache": {"objects": 5, "bytes": 5_000_000},
            "hit_first_byte": {"buckets": buckets}, "reasons_of": 4,
            "reasons": [{"code": "hit", "sentence": "A fresh stored response was used.", "count": 3}],
        })
    }

    #[test]
    fn rates_are_of_the_interval_alone() {
        let before = stats(1_000, 100, json!([[50, 100]]));
        let after = stats(3_000, 300, json!([[50, 110], [400, 190]]));
        let text = view(&before, &after);
        assert!(text.contains("requests      100/s"), "{text}");
        assert!(text.contains("100.0 % of requests, 100.0 % of bytes"), "{text}");
        assert!(text.contains("to clients    0.800 Gbit/s"), "{text}");
        assert!(text.contains("hit p50 400 µs p99 400 µs, else p50 - p99 -"), "{text}");
        assert!(text.contains("75.0 % hit "), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
    }

    #[test]
    fn players_are_shown_where_they_say_something() {
        assert_eq!(players(&[]), "");
        let line = |site: &str, sessions: u64| {
            json!({"site": site, "stream": "live", "sessions": sessions, "starved": 3,
                   "bitrate_kbps": 3200.4, "buffer_ms": 2900.0, "latency_ms": 1610.0})
        };
        let text = players(&[line("films", 7), line(&"tv".repeat(60), 1112)]);
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert!(
            lines[0].starts_with("   1,112      3    3200     2.9 s    1.6 s  live tv"),
            "{text}"
        );
        assert!(lines[1].ends_with("live films"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
    }
}

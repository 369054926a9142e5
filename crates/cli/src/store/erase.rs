//! `freshet store erase`: content that is to be nowhere on the disks any more, and what shows it.

use crate::client::NodeArguments;
use crate::form::FormArguments;
use crate::text::{COLUMNS, cut, percent, print, thousands};
use anyhow::Result;
use clap::Args;
use freshet_base::units::format_bytes;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::process::ExitCode;
use std::time::Duration;

/// How often the node is asked how far it is.
const EVERY: Duration = Duration::from_millis(500);

/// `freshet store erase`
#[derive(Args)]
#[command(
    after_help = "It ends with status 0 where each store was read again and nothing is left.\n\n\
                        Examples:\n  freshet store erase --site shop\n  freshet store erase --follow"
)]
pub(super) struct EraseArguments {
    /// All that this site has; everything without it.
    #[arg(long, value_name = "NAME")]
    site: Option<String>,
    /// Show the last one, as after a restart, and begin none.
    #[arg(long, conflicts_with = "site")]
    follow: bool,
    #[command(flatten)]
    form: FormArguments,
    #[command(flatten)]
    node: NodeArguments,
}

/// Has content erased, and waits until it is.
///
/// # Errors
/// When the node cannot be asked or refuses, as while another erasure is under way.
pub(super) fn run(arguments: &EraseArguments) -> Result<ExitCode> {
    let EraseArguments { site, follow, form, node } = arguments;
    if !follow {
        let answer = node.post("/v1/erase", &json!({"site": site}))?.json()?;
        if !form.is_json() {
            print(&begun(&answer, site.as_deref()))?;
        }
    }
    let shows = std::io::stderr().is_terminal();
    let erasure = loop {
        let erasure = node.get("/v1/erase")?.json()?;
        if erasure["state"] != "running" {
            break erasure;
        }
        if shows {
            tell!("\r{:<width$}", cut(&progress(&erasure), COLUMNS - 1), width = COLUMNS - 1);
            let _ = std::io::stderr().flush();
        }
        std::thread::sleep(EVERY);
    };
    if shows {
        tell!("\r{:<width$}\r", "", width = COLUMNS - 1);
    }
    if form.is_json() {
        say!("{erasure:#}")?;
    } else {
        print(&account(&erasure))?;
    }
    Ok(if erasure["state"] == "done" { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What was done before the stores are visited.
fn begun(answer: &Value, site: Option<&str>) -> String {
    let purged = answer["purged"].as_u64().unwrap_or(0);
    let mut out = format!(
        "{}: {} in memory purged\n",
        cut(site.unwrap_or("everything"), 30),
        if purged == 1 { "1 object".to_owned() } else { format!("{} objects", thousands(purged)) }
    );
    if answer["durable"] != true {
        out.push_str("the purge is not durable on every store: one is away or fails\n");
    }
    if answer["begun"] != true {
        out.push_str("it has not begun on every store: ask again once all are in use\n");
    }
    out
}

fn stores(erasure: &Value) -> &[Value] {
    erasure["stores"].as_array().map_or(&[], Vec::as_slice)
}

/// One line while it goes on.
fn progress(erasure: &Value) -> String {
    let sum = |name: &str| -> u64 {
        stores(erasure).iter().filter_map(|store| store[name].as_u64()).sum()
    };
    format!(
        "erasing {} of the segments: {} overwritten, {} read again",
        percent(sum("segments_done"), sum("segments")),
        format_bytes(sum("overwritten_bytes")),
        format_bytes(sum("zero_bytes")),
    )
}

/// What became of each store, and of all.
fn account(erasure: &Value) -> String {
    let what = erasure["site"].as_str().unwrap_or("everything");
    let what = cut(what, 30);
    let mut out = match erasure["state"].as_str() {
        Some("done") => format!("{what}: nothing of it is left on the stores\n"),
        Some("waiting") => format!("{what}: NOT erased everywhere: a store is away\n"),
        Some("none") => "nothing was erased here\n".to_owned(),
        _ => format!("{what}: NOT all of it is erased\n"),
    };
    for store in stores(erasure) {
        let number = |name: &str| store[name].as_u64().unwrap_or(0);
        let size = |name: &str| format_bytes(number(name));
        let _ = writeln!(out, "{}", cut(store["path"].as_str().unwrap_or("?"), COLUMNS));
        match store["state"].as_str() {
            Some("away") => {
                let _ = writeln!(out, "  it is not in use: it goes on when it is");
                continue;
            }
            Some("missed") => {
                let _ = writeln!(out, "  it was not in use: erase again");
                continue;
            }
            _ => {}
        }
        let _ = writeln!(
            out,
            "  {} of {} segments in {}; {} of others stay",
            thousands(number("segments_done")),
            thousands(number("segments")),
            duration(number("begun_ms"), number("ended_ms")),
            size("kept_bytes"),
        );
        let _ = writeln!(
            out,
            "  {} overwritten; {} read again and zeroes, {} left",
            size("overwritten_bytes"),
            size("zero_bytes"),
            size("left_bytes"),
        );
    }
    out
}

fn duration(begun_ms: u64, ended_ms: u64) -> String {
    format!("{:.1} s", ended_ms.saturating_sub(begun_ms) as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_said_fits_the_terminal() {
        // The longest disk there may be, and a hundred days.
        let (most, segments, ended_ms) = (1u64 << 46, 1 << 18, 8_640_000_000u64);
        let store = |state: &str| {
            json!({"path": "p".repeat(200), "state": state, "segments": segments,
                "segments_done": segments, "kept_bytes": most, "overwritten_bytes": most,
                "zero_bytes": most, "left_bytes": most, "begun_ms": 1, "ended_ms": ended_ms})
        };
        let states = ["running", "done", "incomplete", "away", "missed", "waiting", "none"];
        for state in states {
            let stores = [store(state), store(state)];
            let erasure = json!({"state": state, "site": "s".repeat(200), "stores": stores});
            let started = json!({"purged": most, "durable": false, "begun": false});
            let text = [account(&erasure), begun(&started, Some(&"s".repeat(200)))].concat();
            assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
            let erasure = json!({"stores": [store(state)]});
            assert!(progress(&erasure).chars().count() < COLUMNS, "{}", progress(&erasure));
            assert_eq!(
                account(&json!({"state": state})).contains("NOT"),
                !["done", "none"].contains(&state)
            );
        }
    }
}

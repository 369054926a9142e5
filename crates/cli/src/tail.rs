//! `freshet log`: the last requests, and those that come.

use crate::client::NodeArguments;
use crate::form::FormArguments;
use crate::text::{cut, micros, print, row_columns};
use anyhow::Result;
use clap::Args;
use freshet_base::units::format_bytes;
use serde_json::Value;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

/// How often new lines are asked for: as often as workers hand theirs over.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(250);

/// `freshet log`
#[derive(Args)]
pub(crate) struct Arguments {
    /// Go on with what comes.
    #[arg(short, long)]
    follow: bool,
    /// How many lines to begin with.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    count: u64,
    /// Lines as long as they are, on a terminal too.
    #[arg(short, long)]
    wide: bool,
    #[command(flatten)]
    form: FormArguments,
    #[command(flatten)]
    node: NodeArguments,
}

/// Shows the last requests.
///
/// # Errors
/// When the node cannot be asked or refuses.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    let mut path = format!("/v1/log?count={}", arguments.count);
    loop {
        let answer = arguments.node.get(&path)?;
        if arguments.form.is_json() {
            print(&answer.body)?;
        } else {
            let width = if arguments.wide { usize::MAX } else { row_columns() };
            let records = answer.lines()?;
            let lines: String = records.iter().map(|record| line(record, width) + "\n").collect();
            print(&lines)?;
        }
        if !arguments.follow {
            return Ok(ExitCode::SUCCESS);
        }
        path = format!("/v1/log?count=2000&since={}", answer.number("log-next")?);
        sleep(FOLLOW_INTERVAL);
    }
}

/// Time of day in UTC, status, reason, bytes, time taken, method and URL.
fn line(record: &Value, width: usize) -> String {
    let text = |name: &str| record[name].as_str().unwrap_or("");
    let count = |name: &str| record[name].as_u64().unwrap_or(0);
    let second = record["time"].as_f64().unwrap_or(0.0) as u64 % 86_400;
    let aborted = if record["aborted"] == true { " (broken off)" } else { "" };
    let line = format!(
        "{:02}:{:02}:{:02} {} {:<20} {:>8} {:>8} {} {}{}{aborted}",
        second / 3_600,
        second / 60 % 60,
        second % 60,
        count("status"),
        text("reason"),
        format_bytes(count("body_bytes")),
        micros(count("total_us")),
        text("method"),
        text("host"),
        text("target"),
    );
    // What a client sends may be anything, also what a terminal obeys.
    cut(&line.replace(char::is_control, "\u{fffd}"), width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::COLUMNS;
    use serde_json::json;

    #[test]
    fn a_line_says_what_happened_and_fits() {
        let record = json!({
            "time": 1_795_165_628.63, "status": 200, "reason": "hit", "body_bytes": 5_120,
            "total_us": 1_250, "method": "GET", "host": "tv.example", "target": "/live/1/a.m4s",
        });
        assert_eq!(
            line(&record, COLUMNS),
            "09:07:08 200 hit                    5.1 KB   1.2 ms GET tv.example/live/1/a.m4s"
        );
        assert_eq!(line(&record, 30).chars().count(), 30);
        let record = json!({"method": "", "host": "", "target": "\u{1b}[2J"});
        assert!(line(&record, COLUMNS).ends_with(" \u{fffd}[2J"), "{}", line(&record, COLUMNS));
        let mut longer = record.clone();
        longer["reason"] = "status-not-cacheable".into();
        assert_eq!(line(&longer, COLUMNS).find("GET"), line(&record, COLUMNS).find("GET"));
    }
}

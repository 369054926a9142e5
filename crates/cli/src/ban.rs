//! `freshet ban`: what is not to be served any more, by conditions.

use crate::client::NodeArguments;
use crate::control::list;
use crate::form::FormArguments;
use crate::text::{cut, row_columns, thousands};
use anyhow::Result;
use clap::Args;
use freshet_base::clock::UnixMillis;
use freshet_base::units::span;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;

/// `freshet ban`
#[derive(Args)]
#[command(after_help = "Examples:\n  freshet ban 'req.url ~ ^/news/'\n  \
                  freshet ban 'obj.http.content-type ~ html && obj.age > 1h' --site shop\n  freshet ban")]
pub(crate) struct Arguments {
    /// What has to hold of what is banned; without it, the bans in force.
    #[arg(value_name = "CONDITIONS")]
    conditions: Vec<String>,
    /// Only of what this site has.
    #[arg(long, value_name = "NAME", requires = "conditions")]
    site: Option<String>,
    #[command(flatten)]
    form: FormArguments,
    #[command(flatten)]
    node: NodeArguments,
}

/// Adds a ban, or lists those that are in force.
///
/// # Errors
/// When the node cannot be asked or refuses.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    let Arguments { conditions, site, form, node } = arguments;
    let answer = match conditions.as_slice() {
        [] => node.get("/v1/bans")?,
        words => node.post("/v1/bans", &json!({"ban": words.join(" "), "site": site}))?,
    };
    form.print(&answer, |answer| table(answer, UnixMillis::now(), row_columns()))
}

fn table(answer: &Value, now: UnixMillis, columns: usize) -> String {
    let mut out = String::new();
    let bans: Vec<_> = list(&answer["bans"]).collect();
    if bans.is_empty() {
        return "nothing is banned\n".to_owned();
    }
    let _ = writeln!(out, "{:<8} {:>12}  ban", "since", "objects");
    for ban in bans {
        let since = span(now.since(UnixMillis(ban["time_ms"].as_u64().unwrap_or(0))));
        let objects = match ban["is_done"] == true {
            true => "done".to_owned(),
            false => thousands(ban["objects"].as_u64().unwrap_or(0)),
        };
        let text = ban["ban"].as_str().unwrap_or_default();
        let line = format!("{since:<8} {objects:>12}  {text}");
        let _ = writeln!(out, "{}", cut(&line, columns));
    }
    if answer["durable"] == false {
        out.push_str("the new one is not durable yet: a disk is away\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::COLUMNS;

    #[test]
    fn bans_fit_the_terminal() {
        let ban = |text: &str, is_done| json!({"ban": text, "time_ms": 1_000, "objects": 12_345, "needs_request": true, "is_done": is_done});
        let long = format!("req.url ~ {}", "x".repeat(200));
        let answer =
            json!({"durable": false, "bans": [ban("req.url ~ ^/a", false), ban(&long, true)]});
        let text = table(&answer, UnixMillis(61_000), COLUMNS);
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        let rows: Vec<_> = text.lines().collect();
        assert!(rows[1].ends_with("req.url ~ ^/a") && rows[1].contains("12,345"), "{text}");
        assert!(rows[2].contains(" done ") && rows[3].contains("not durable"), "{text}");
        assert!(table(&answer, UnixMillis(61_000), usize::MAX).contains(&long));
        assert_eq!(table(&json!({"bans": []}), UnixMillis(0), COLUMNS), "nothing is banned\n");
    }
}

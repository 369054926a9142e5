//! `freshet certificate`: what a node shows to clients, and renewing it.

use crate::client::NodeArguments;
use crate::control::list;
use crate::form::FormArguments;
use crate::text::{COLUMNS, cut};
use anyhow::Result;
use clap::{Args, Subcommand};
use freshet_base::clock::UnixMillis;
use freshet_base::units::span;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

/// `freshet certificate`
#[derive(Args)]
#[command(after_help = "Examples:\n  freshet certificate list\n  \
                        freshet certificate renew www.example.org")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List them: when each ends, how it comes, and what failed last.
    List(List),
    /// Order certificates anew that the node got by itself.
    Renew(Renew),
}

#[derive(Args)]
struct List {
    #[command(flatten)]
    form: FormArguments,
    #[command(flatten)]
    node: NodeArguments,
}

#[derive(Args)]
struct Renew {
    /// Names of the certificates.
    #[arg(value_name = "NAME", required_unless_present = "all")]
    names: Vec<String>,
    /// All that the node got by itself.
    #[arg(long, conflicts_with = "names")]
    all: bool,
    #[command(flatten)]
    node: NodeArguments,
}

/// Runs the command.
///
/// # Errors
/// When the node cannot be asked or refuses.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.command {
        Command::List(List { form, node }) => {
            let answer = node.get("/v1/certificates")?;
            form.print(&answer, |answer| table(answer, UnixMillis::now().seconds()))?;
        }
        Command::Renew(Renew { names, node, .. }) => {
            let names: Vec<_> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
            let answer = node.post("/v1/certificates/renew", &json!({"names": names}))?.json()?;
            let count = answer["certificates"].as_u64().unwrap_or(0);
            let count = format!("{count} certificate{}", if count == 1 { "" } else { "s" });
            say!("{count} ordered; `freshet certificate list` says how it goes")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn table(answer: &Value, now_s: i64) -> String {
    let mut out = format!("{:<44}{:>10}{:>10}  {}\n", "name", "ends in", "next", "by");
    let mut many = 0;
    for one in list(&answer["certificates"]) {
        many += 1;
        let until = |key: &str| match u64::try_from(one[key].as_i64()? - now_s) {
            Err(_) | Ok(0) => Some("now".to_owned()),
            Ok(ahead_s) => Some(span(Duration::from_secs(ahead_s))),
        };
        let name = cut(one["name"].as_str().unwrap_or(""), 43);
        let ends = until("until_s").unwrap_or_else(|| "none yet".to_owned());
        let due = until("due_s").unwrap_or_default();
        let _ =
            writeln!(out, "{name:<44}{ends:>10}{due:>10}  {}", one["by"].as_str().unwrap_or(""));
        if let Some(error) = one["error"].as_str() {
            let _ = writeln!(out, "{}", cut(&format!("  failed: {error}"), COLUMNS));
            let _ = writeln!(
                out,
                "{}",
                cut(&format!("  {}", one["help"].as_str().unwrap_or("")), COLUMNS)
            );
        }
    }
    if many == 0 { "there is no certificate\n".to_owned() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_fits_the_terminal() {
        let long = "x".repeat(200);
        let answer = json!({"certificates": [
            {"name": long, "until_s": 864_000, "by": "file"},
            {"name": "a.example", "until_s": null, "due_s": 5, "by": "acme", "error": long, "help": long},
        ]});
        let text = table(&answer, 0);
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert!(text.contains("10 d"), "{text}");
        assert!(text.contains("none yet       5 s  acme\n"), "{text}");
        assert_eq!(table(&json!({}), 0), "there is no certificate\n");
    }
}

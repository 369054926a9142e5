//! `freshet sites`: what each site of a node was asked for, and what it has of what all share.

use crate::client::NodeArguments;
use crate::control::list;
use crate::form::FormArguments;
use crate::text::{COLUMNS, cut, percent, thousands};
use anyhow::Result;
use clap::Args;
use freshet_base::units::format_bytes;
use serde_json::Value;
use std::fmt::Write as _;
use std::process::ExitCode;

/// `freshet sites`
#[derive(Args)]
#[command(after_help = "Examples:\n  freshet sites\n  freshet sites --json")]
pub(crate) struct Arguments {
    #[command(flatten)]
    form: FormArguments,
    #[command(flatten)]
    node: NodeArguments,
}

/// Lists the sites of a node.
///
/// # Errors
/// When the node cannot be asked or refuses.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let answer = arguments.node.get("/v1/sites")?;
    arguments.form.print(&answer, table)
}

/// Columns of a site's name.
const NAME_WIDTH: usize = 19;

fn table(sites: &Value) -> String {
    let mut out = String::new();
    if list(sites).all(|site| site["served"].is_null()) {
        return "this node is one site, for every host: `freshet stat` has its figures\n"
            .to_owned();
    }
    let _ = writeln!(
        out,
        "{:<NAME_WIDTH$}{:>14}{:>8}{:>12}{:>11}{:>8}{:>8}",
        "site", "requests", "hits", "errors", "sent", "memory", "disk"
    );
    for site in list(sites) {
        let count = |path: &str| site.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        // What has no bound is not counted.
        let share = |of: &str| {
            let bytes = |name: &str| count(&format!("/{of}/{name}"));
            if site[of].is_null() {
                "-".to_owned()
            } else {
                percent(bytes("bytes"), bytes("bytes_max"))
            }
        };
        let line = format!(
            "{:<NAME_WIDTH$}{:>14}{:>8}{:>12}{:>11}{:>8}{:>8}",
            cut(site["site"].as_str().unwrap_or(""), NAME_WIDTH - 1),
            thousands(count("/served/requests")),
            percent(count("/served/hits"), count("/served/requests")),
            thousands(count("/served/errors")),
            format_bytes(count("/served/body_bytes")),
            share("memory"),
            share("disk"),
        );
        let _ = writeln!(out, "{}", cut(&line, COLUMNS));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_list_fits_the_terminal_and_says_how_much_of_each_bound_is_used() {
        let served = json!({"requests": 1_234_567_890, "hits": 1_000_000_000, "errors": 12_345_678,
            "body_bytes": 9_876_543_210_987_u64, "hit_body_bytes": 0});
        let shop = json!({"site": "shop".repeat(20), "served": served, "disk": null,
            "memory": {"bytes": 25, "bytes_max": 100}});
        let text = table(&json!([shop, {"site": "tv", "served": served}]));
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert_eq!(text.lines().count(), 3, "{text}");
        let [_, first, second] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
        assert!(first.contains("25") && first.trim_end().ends_with('-'), "{text}");
        assert!(second.starts_with("tv ") && second.contains("81"), "{text}");
    }

    #[test]
    fn a_node_that_is_one_site_says_where_its_figures_are() {
        let text = table(&json!([{"site": "", "served": null}]));
        assert!(text.contains("freshet stat"), "{text}");
    }
}

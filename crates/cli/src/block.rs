//! `freshet block`: clients that get nothing for a while.

use crate::client::NodeArguments;
use crate::control::list;
use crate::form::FormArguments;
use crate::text::{COLUMNS, cut};
use anyhow::{Result, bail};
use clap::Args;
use freshet_base::units::span;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

/// `freshet block`
#[derive(Args)]
#[command(after_help = "Examples:\n  freshet block\n  freshet block 192.0.2.7 --for 1h --why \
                        scraper\n  freshet block 2001:db8::/56 --for 1d --site shop\n  \
                        freshet block 192.0.2.7 --remove")]
pub(crate) struct Arguments {
    /// Addresses or networks, as 192.0.2.0/24; without any, those that are blocked are listed.
    #[arg(value_name = "NETWORK")]
    networks: Vec<String>,
    /// For how long.
    #[arg(long = "for", value_name = "TIME", default_value = "10m", conflicts_with = "remove")]
    time: String,
    /// At this site only.
    #[arg(long, value_name = "NAME")]
    site: Option<String>,
    /// Why, for whoever reads the list.
    #[arg(long, value_name = "TEXT", default_value = "", conflicts_with = "remove")]
    why: String,
    /// Let them in again.
    #[arg(long)]
    remove: bool,
    #[command(flatten)]
    form: FormArguments,
    #[command(flatten)]
    node: NodeArguments,
}

/// Blocks networks, lets them in again, or lists those that are blocked.
///
/// # Errors
/// When the node cannot be asked or refuses.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    let Arguments { networks, time, site, why, remove, form, node } = arguments;
    if networks.is_empty() && (remove || site.is_some() || !why.is_empty()) {
        bail!("give the addresses or networks this is about");
    }
    let mut answer = None;
    for network in &networks {
        answer = Some(if remove {
            node.post("/v1/blocks/remove", &json!({"network": network, "site": site}))?
        } else {
            let block = json!({"network": network, "for": time, "site": site, "why": why});
            node.post("/v1/blocks", &block)?
        });
    }
    let answer = match answer {
        Some(answer) => answer,
        None => node.get("/v1/blocks")?,
    };
    form.print(&answer, table)
}

fn table(answer: &Value) -> String {
    let mut out = format!("{:<32}{:>9}  {:<16}{}\n", "network", "left", "site", "by");
    let mut many = 0;
    for block in list(&answer["blocks"]) {
        many += 1;
        let text = |name: &str| block[name].as_str();
        let by = match (text("limit"), text("why")) {
            (Some(limit), _) => format!("limit {limit}"),
            (None, Some("") | None) => "an operator".to_owned(),
            (None, Some(why)) => format!("an operator: {why}"),
        };
        let line = format!(
            "{:<32}{:>9}  {:<16}{by}",
            cut(text("network").unwrap_or(""), 31),
            span(Duration::from_secs(block["left_s"].as_u64().unwrap_or(0))),
            cut(text("site").unwrap_or("all"), 15),
        );
        let _ = writeln!(out, "{}", cut(&line, COLUMNS));
    }
    if many == 0 { "nobody is blocked\n".to_owned() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_fits_the_terminal() {
        let network = "2001:db8:1111:2222:3333:4444:5555:6666/127";
        let long = "x".repeat(200);
        let answer = json!({"blocks": [
            {"network": network, "site": long, "left_s": 31_536_000, "why": long, "limit": null},
            {"network": "192.0.2.7", "site": null, "left_s": 59, "why": null, "limit": "shop/login"},
        ]});
        let text = table(&answer);
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert!(text.contains("192.0.2.7"), "{text}");
        assert!(text.ends_with("59 s  all             limit shop/login\n"), "{text}");
        assert_eq!(table(&json!({"blocks": []})), "nobody is blocked\n");
    }
}

//! `freshet maintenance`: whether sites serve nobody for now.

use crate::client::NodeArguments;
use crate::control::list;
use crate::form::FormArguments;
use crate::text::{COLUMNS, cut};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;

/// `freshet maintenance`
#[derive(Args)]
#[command(after_help = "Examples:\n  freshet maintenance\n  freshet maintenance on\n  \
                        freshet maintenance off --site shop")]
pub(crate) struct Arguments {
    /// Serve nobody but `maintenance.allow`, or everybody again; without it, how things stand.
    state: Option<Switch>,
    /// This site only.
    #[arg(long, value_name = "NAME")]
    site: Option<String>,
    #[command(flatten)]
    form: FormArguments,
    #[command(flatten)]
    node: NodeArguments,
}

#[derive(Clone, Copy, ValueEnum)]
enum Switch {
    On,
    Off,
}

/// Says whether sites are under maintenance, or has them be so.
///
/// # Errors
/// When the node cannot be asked or refuses.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    let Arguments { state, site, form, node } = arguments;
    let answer = match state {
        Some(state) => {
            let is_on = matches!(state, Switch::On);
            node.post("/v1/maintenance", &json!({"on": is_on, "site": site}))?
        }
        None if site.is_some() => bail!("give `on` or `off`"),
        None => node.get("/v1/maintenance")?,
    };
    form.print(&answer, table)
}

fn table(answer: &Value) -> String {
    let mut out = String::new();
    for site in list(&answer["sites"]) {
        let name = site["site"].as_str().filter(|name| !name.is_empty()).unwrap_or("this node");
        let state = if site["on"].as_bool() == Some(true) { "maintenance" } else { "serving" };
        let line = format!("{:<48}{state}", cut(name, 47));
        let _ = writeln!(out, "{}", cut(&line, COLUMNS));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_fits_the_terminal() {
        let long = "x".repeat(200);
        let answer = json!({"sites": [{"site": "", "on": true}, {"site": long, "on": false}]});
        let text = table(&answer);
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert!(text.starts_with("this node") && text.contains("maintenance\n"), "{text}");
        assert!(text.ends_with("serving\n"), "{text}");
    }
}

//! `freshet check`: would a node start with a configuration, and do what is meant?

mod origins;

use crate::acme;
use crate::admin;
use crate::form::FormArguments;
use crate::nodes;
use crate::self_signed;
use crate::settings::{Below, SettingsArguments, Source, Wrong};
use crate::text::{print, wrap};
use crate::traces;
use anyhow::Result;
use clap::Args;
use freshet_config::keys::{KEYS, Key, Kind};
use freshet_config::mistake::{Mistake, Place, Severity};
use freshet_config::{Settings, stages};
use freshet_net::address::Address;
use freshet_node::layout::Layout;
use freshet_node::preflight::{self, Prepared};
use freshet_node::vcl::Files;
use freshet_vcl::{Diagnostic, Report};
use serde::Serialize;
use serde_json::json;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Files to check.
#[derive(Args)]
#[command(after_help = "Examples:\n  freshet check /etc/freshet/freshet.toml\n  \
                        freshet check --json freshet.toml policy.vcl\n  \
                        freshet check --explain policy.vcl")]
pub(crate) struct Arguments {
    /// Configuration files, and policies in VCL: names that end with .vcl.
    #[arg(required_unless_present = "config", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Another such file, named as `serve` has it named.
    #[arg(short, long, value_name = "FILE", hide = true)]
    config: Vec<PathBuf>,
    /// List what a policy does at each state.
    #[arg(long)]
    explain: bool,
    /// Do not ask name servers and origins whether they answer.
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    form: FormArguments,
}

/// All that was found, in JSON.
#[derive(Serialize)]
struct Outcome {
    /// Whether a node would start.
    good: bool,
    files: Vec<Checked>,
}

/// One file.
#[derive(Serialize)]
struct Checked {
    file: String,
    good: bool,
    findings: Vec<Finding>,
    /// Where its workers and memory would be, where they are divided.
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<String>,
    /// What people see of the findings.
    #[serde(skip)]
    shown: String,
}

/// One thing that was found.
#[derive(Serialize)]
struct Finding {
    /// `error`, with which no node starts, or `warning`.
    severity: &'static str,
    /// Where, in characters from 1; absent where it is nowhere in a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<FindingPlace>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<String>,
}

#[derive(Serialize)]
struct FindingPlace {
    file: String,
    line: usize,
    column: usize,
}

/// Checks each file and says what is wrong; exit status 1 where a node would not start.
///
/// # Errors
/// None: what is wrong with a file is shown.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    // Classes of stores that a policy may name are those of the configurations beside it.
    let mut classes: Vec<String> = Vec::new();
    let is_json = arguments.form.is_json();
    let is_policy = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == "vcl");
    let mut files = Vec::new();
    let named = || arguments.config.iter().chain(&arguments.files);
    for path in named().filter(|path| !is_policy(path)) {
        files.push(configuration(path, &mut classes, arguments.offline));
    }
    for path in named().filter(is_policy) {
        let (checked, explanation) = policy(path, &classes);
        if arguments.explain
            && !is_json
            && let Some(explanation) = explanation
        {
            print(&explanation)?;
        }
        files.push(checked);
    }
    let outcome = Outcome { good: files.iter().all(|file| file.good), files };
    if is_json {
        say!("{}", serde_json::to_string_pretty(&outcome)?)?;
    } else {
        for file in &outcome.files {
            file.show(arguments.explain)?;
        }
    }
    Ok(if outcome.good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Checked {
    fn show(&self, is_explained: bool) -> Result<()> {
        tell!("{}", self.shown);
        let count = |severity: &str, what: &str| {
            let count = self.findings.iter().filter(|one| one.severity == severity).count();
            format!("{count} {what}{}", if count == 1 { "" } else { "s" })
        };
        let warnings = count("warning", "warning");
        if !self.good {
            tell!("{}: {}\n", self.file, count("error", "mistake"));
        } else if !warnings.starts_with("0 ") {
            say!("{}: good, {warnings}", self.file)?;
        } else if !is_explained {
            say!("{}: good", self.file)?;
        }
        if let Some(groups) = &self.groups {
            say!("{}: {groups}", self.file)?;
        }
        Ok(())
    }
}

/// Checks a configuration as a start of a node does.
fn configuration(path: &Path, classes: &mut Vec<String>, is_offline: bool) -> Checked {
    let file = path.display().to_string();
    let arguments = SettingsArguments { config: Some(path.into()), ..SettingsArguments::default() };
    let mut groups = None;
    let wrong = match arguments.read(&Below::Kept) {
        Ok((settings, source, wrong)) => {
            if wrong.is_empty() {
                let layout = Layout::of(&settings);
                groups = (layout.groups.len() > 1).then(|| layout.to_string());
            }
            classes.extend(settings.store_classes().map(str::to_owned));
            let found = examine(settings, is_offline);
            source.wrong(stages::and_then(source.text(0), wrong, found))
        }
        Err(error) => match error.downcast::<Wrong>() {
            Ok(wrong) => wrong,
            Err(error) => {
                let mistake = Mistake::error(Place::default(), format!("{error:#}"));
                Source::default().wrong(vec![mistake])
            }
        },
    };
    let findings = wrong.mistakes.iter().map(|mistake| finding(&wrong, mistake));
    let (good, shown) = (!wrong.is_error(), wrong.shown());
    Checked { good, findings: findings.collect(), groups: groups.filter(|_| good), shown, file }
}

/// What a start would say of these settings on this machine, and what an operator would want to know.
pub(crate) fn examine(mut settings: Settings, is_offline: bool) -> Vec<Mistake> {
    let mut found = Vec::new();
    let running = nodes::running();
    let is_own = |address: &Address| running.iter().any(|node| node.has(address));
    found.extend(preflight::examine(&settings, is_own));
    let others =
        running.iter().filter(|node| !node.is_administered_at(settings.admin_listen.as_ref()));
    found.extend(others.flat_map(|node| node.in_the_way_of(&settings)));
    found.extend(acme::examine(&settings));
    found.extend(traces::examine(&settings));
    found.extend(admin::examine(&settings, is_own));
    if let Some(listener) = self_signed::wanted_by(&settings) {
        let message = "TLS without a certificate: a start makes one that it signs itself";
        let help = "clients refuse it: give [[certificate]] with cert and key";
        found.push(Mistake::warning(listener.place, message).help(help));
        // There is none to be read yet.
        settings.listeners.iter_mut().for_each(|listener| listener.tls = false);
    }
    match Prepared::new(settings, None) {
        Ok(prepared) => {
            found.extend(prepared.warnings);
            if !is_offline {
                found.extend(origins::examine(&prepared.draft));
            }
        }
        Err(mistakes) => found.extend(mistakes),
    }
    found.sort_by_key(|one| (one.place.text(), one.place.span().map(|span| span.start)));
    found
}

fn finding(wrong: &Wrong, mistake: &Mistake) -> Finding {
    let (file, place) = wrong.place(mistake);
    Finding {
        severity: match mistake.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        },
        place: place.map(|(line, column)| FindingPlace { file: file.to_owned(), line, column }),
        message: mistake.message.clone(),
        help: mistake.help.clone(),
    }
}

/// Checks a policy; what it does at each state, where it is good.
fn policy(path: &Path, classes: &[String]) -> (Checked, Option<String>) {
    let file = path.display().to_string();
    let (source, files) = match Files::open(path) {
        Ok(found) => found,
        Err(error) => {
            let finding =
                Finding { severity: "error", place: None, message: error.clone(), help: None };
            let shown = format!("{error}\n");
            let findings = vec![finding];
            return (Checked { file, good: false, findings, groups: None, shown }, None);
        }
    };
    let settings = freshet_node::vcl::language(classes.iter().map(String::as_str));
    let (program, report) = freshet_vcl::compile(source, &files, &settings);
    let checked = Checked {
        good: program.is_some(),
        groups: None,
        findings: report.diagnostics.iter().map(|one| diagnosed(&report, one)).collect(),
        shown: match report.diagnostics.is_empty() {
            true => String::new(),
            false => report.render(std::io::stderr().is_terminal()),
        },
        file,
    };
    (checked, program.map(|program| freshet_vcl::explain(&program)))
}

fn diagnosed(report: &Report, diagnostic: &Diagnostic) -> Finding {
    let (file, line, column) = report.sources.place(diagnostic.span);
    Finding {
        severity: match diagnostic.severity {
            freshet_vcl::Severity::Error => "error",
            freshet_vcl::Severity::Warning => "warning",
        },
        place: (line > 0).then(|| FindingPlace { file: file.to_owned(), line, column }),
        message: diagnostic.message.clone(),
        help: diagnostic.help.clone(),
    }
}

/// List every key of freshet.toml with its default.
#[derive(Args)]
pub(crate) struct KeysArguments {
    #[command(flatten)]
    form: FormArguments,
}

/// Prints the table of keys.
///
/// # Errors
/// None.
pub(crate) fn keys(arguments: &KeysArguments) -> Result<ExitCode> {
    if arguments.form.is_json() {
        let of = |key: &Key| {
            json!({
                "path": key.path, "default": key.default, "help": key.whole_help(),
                "choices": if let Kind::Choice(words) = key.kind { Some(words) } else { None },
                "per_site": key.is_per_site,
            })
        };
        say!("{}", serde_json::Value::from_iter(KEYS.iter().map(of)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = String::new();
    for key in KEYS {
        let default = if key.default.is_empty() { "none" } else { key.default };
        wrap(&format!("{} (default {default})", key.path), 8, &mut out);
        out.push_str("    ");
        wrap(&key.whole_help(), 4, &mut out);
    }
    print(&out)?;
    Ok(ExitCode::SUCCESS)
}

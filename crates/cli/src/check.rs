//! `freshet check`: is a configuration right?

use crate::settings;
use anyhow::Result;
use clap::Args;
use freshet_node::config::Settings;
use freshet_node::config::keys::KEYS;
use freshet_node::log::Format;
use freshet_node::policy::vcl::Files;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Files to check.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Configuration files, and policies in VCL: names that end with .vcl.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// List what a policy does at each state.
    #[arg(long)]
    explain: bool,
}

/// Checks each file and says what is wrong; exit status 1 where something is.
///
/// # Errors
/// None: what is wrong with a file is shown.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    let mut wrong = 0;
    // Classes of stores that a policy may name are those of the configurations beside it.
    let mut classes: Vec<String> = Vec::new();
    let is_policy = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == "vcl");
    for path in arguments.files.iter().filter(|path| !is_policy(path)) {
        let result = settings::read(path).map_err(|error| error.to_string()).and_then(|document| {
            let settings = Settings::from_document(&document).map_err(|lines| lines.join("\n"))?;
            Format::parse(&settings.log.format).map_err(|error| format!("log.format: {error}"))?;
            Ok(settings)
        });
        match result {
            Ok(settings) => {
                classes.extend(settings.store_classes().map(str::to_owned));
                println!("{}: good", path.display());
            }
            Err(error) => {
                wrong += 1;
                eprintln!("{}: {error}", path.display());
            }
        }
    }
    for path in arguments.files.iter().filter(is_policy) {
        wrong += usize::from(!policy(path, &classes, arguments.explain));
    }
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks a policy and says all that is wrong with it; whether it is right.
fn policy(path: &Path, classes: &[String], explain: bool) -> bool {
    let (source, files) = match Files::open(path) {
        Ok(found) => found,
        Err(error) => {
            eprintln!("{error}");
            return false;
        }
    };
    let settings = freshet_node::policy::vcl::language(classes.iter().map(String::as_str));
    let (program, report) = freshet_vcl::compile(source, &files, &settings);
    if !report.diagnostics.is_empty() {
        eprint!("{}", report.render(std::io::stderr().is_terminal()));
    }
    let Some(program) = program else {
        let count = report.diagnostics.len() + report.omitted;
        eprintln!("{}: {count} mistake{}", path.display(), if count == 1 { "" } else { "s" });
        return false;
    };
    if explain {
        print!("{}", freshet_vcl::explain(&program));
    } else {
        println!("{}: good", path.display());
    }
    true
}

/// Prints the table of keys.
///
/// # Errors
/// None.
pub(crate) fn keys() -> Result<ExitCode> {
    for key in KEYS {
        let default = if key.default.is_empty() { "none" } else { key.default };
        println!("{} (default {default})", key.path);
        for line in wrapped(key.help) {
            println!("    {line}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Width of a terminal that everything fits.
const COLUMNS: usize = 80;

/// `text` in lines that fit the terminal behind an indent of four.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is at least one line");
        if last.len() + word.len() + 5 > COLUMNS {
            lines.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines
}

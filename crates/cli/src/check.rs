//! `freshet check`: is a configuration right?

use crate::settings;
use anyhow::Result;
use clap::Args;
use freshet_node::config::Settings;
use freshet_node::log::Format;
use std::path::PathBuf;
use std::process::ExitCode;

/// Files to check.
#[derive(Args)]
pub struct Arguments {
    /// Configuration files.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Checks each file and says what is wrong; exit status 1 where something is.
///
/// # Errors
/// None: what is wrong with a file is shown.
pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let mut wrong = 0;
    for path in &arguments.files {
        let result = settings::read(path).map_err(|error| error.to_string()).and_then(|document| {
            let settings = Settings::from_document(&document).map_err(|lines| lines.join("\n"))?;
            Format::parse(&settings.log.format).map_err(|error| format!("log.format: {error}"))?;
            Ok(settings)
        });
        match result {
            Ok(_) => println!("{}: good", path.display()),
            Err(error) => {
                wrong += 1;
                eprintln!("{}: {error}", path.display());
            }
        }
    }
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

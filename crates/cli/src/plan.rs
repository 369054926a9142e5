//! `freshet plan`: capacity, cost, energy and endurance, from the papers' cases or one's own.

use crate::text;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use freshet_plan::outcome::Outcome;
use freshet_plan::{File, Model, PlanError, Request, fit, plan, present};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Largest file that is read: hours of a lab run take some megabytes, inputs a few kilobytes.
const INPUT_BYTES_MAX: u64 = 256 << 20;

/// Capacity, cost, energy and endurance of nodes and sites, from published papers' models.
#[derive(Args)]
#[command(after_help = "Without a file each model prints its paper's case, with every input and\n\
                        where it is from. `freshet plan MODEL --inputs` prints these inputs as\n\
                        a file to change.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Live channels that fit a server.
    Channels(Options),
    /// Cost of a rack over its life, of a TB and of a channel.
    Tco(Options),
    /// Energy of a site in a year.
    Energy(Options),
    /// What the energy of a site costs.
    Cost(Options),
    /// What making that energy emits.
    Carbon(Options),
    /// How often drives are written, and how long they last.
    Endurance(Options),
    /// Nodes of each site and tier for an audience.
    Fleet(Options),
    /// Packets a router forwards, by frequency and size.
    Forwarding(Options),
    /// Cores of uneven frequency at the same power.
    Cores(Options),
    /// Virtual machines that memory holds, and what their load asks.
    Memory(Options),
    /// Round trips of mobile clients, by where the service is.
    Latency(Options),
    /// Channels and cost of this box, from a lab run or a node's curve.
    Fit(FitOptions),
}

/// A measurement, and what the models have in common.
#[derive(Args)]
struct FitOptions {
    /// Result of `freshet lab`, or a node's curve of hit ratios, as JSON.
    #[arg(value_name = "RESULT", required_unless_present = "inputs")]
    result: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
}

/// What the models have in common.
#[derive(Args)]
struct Options {
    /// Your values as TOML with units; what it leaves out is the paper's.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// One value, as pue=1.3 or price="0.2 EUR/kWh"; repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// A range, as pue=1.1..1.6 or buffer="2..10 min:5"; twice for lines.
    #[arg(long, value_name = "KEY=LOW..HIGH")]
    vary: Vec<String>,
    /// What to print.
    #[arg(long, value_enum, default_value = "table", value_name = "FORMAT")]
    format: Format,
    /// The same as --format json.
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Print the paper's inputs as a file, and nothing else.
    #[arg(long)]
    inputs: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// Text that fits 80 columns.
    Table,
    /// Everything, for programs.
    Json,
    /// All numbers, for spreadsheets.
    Csv,
    /// One page with plots.
    Html,
}

/// Makes a plan and prints it.
///
/// # Errors
/// When a file cannot be read or its values cannot be used; each mistake is shown in place.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    answer(arguments).or_else(|error| match error.downcast_ref::<PlanError>() {
        // Mistakes in a file are shown in place, and have their own lines.
        Some(PlanError::ConfigFile(shown)) => {
            tell!("{shown}\n");
            Ok(ExitCode::FAILURE)
        }
        _ => {
            let mut shown = String::new();
            text::wrap(&format!("freshet: {error:#}"), 9, &mut shown);
            tell!("{shown}");
            Ok(ExitCode::FAILURE)
        }
    })
}

fn answer(arguments: Arguments) -> Result<ExitCode> {
    let (model, options) = match arguments.what {
        What::Channels(options) => (Model::Channels, options),
        What::Tco(options) => (Model::Tco, options),
        What::Energy(options) => (Model::Energy, options),
        What::Cost(options) => (Model::Cost, options),
        What::Carbon(options) => (Model::Carbon, options),
        What::Endurance(options) => (Model::Endurance, options),
        What::Fleet(options) => (Model::Fleet, options),
        What::Forwarding(options) => (Model::Forwarding, options),
        What::Cores(options) => (Model::Cores, options),
        What::Memory(options) => (Model::Memory, options),
        What::Latency(options) => (Model::Latency, options),
        What::Fit(FitOptions { result, options }) => {
            return show(options, fit::INPUTS, |request| {
                let path = result.as_deref().context("there is no file to fit")?;
                let (name, content) = (path.display().to_string(), read(path)?);
                Ok(fit(File { name: &name, text: &content }, request)?)
            });
        }
    };
    show(options, model.inputs(), |request| Ok(plan(model, request)?))
}

/// Prints the inputs, or what is made of them.
fn show(
    options: Options,
    inputs: &str,
    make: impl FnOnce(&Request<'_>) -> Result<Outcome>,
) -> Result<ExitCode> {
    if options.inputs {
        text::print(inputs)?;
        return Ok(ExitCode::SUCCESS);
    }
    let content = options.file.as_deref().map(read).transpose()?;
    let name = options.file.as_deref().map(|path| path.display().to_string()).unwrap_or_default();
    let outcome = make(&Request {
        file: content.as_deref().map(|text| File { name: &name, text }),
        set: options.set.iter().map(|one| pair(one)).collect::<Result<_>>()?,
        vary: options.vary.iter().map(|one| Ok(one.parse()?)).collect::<Result<_>>()?,
    })?;
    let format = if options.json { Format::Json } else { options.format };
    let shown = match format {
        Format::Table => present::as_text(&outcome),
        Format::Json => present::as_json(&outcome),
        Format::Csv => present::as_csv(&outcome),
        Format::Html => present::as_html(&outcome),
    };
    text::print(&shown)?;
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Result<String> {
    let shown = path.display();
    freshet_base::file::read_text(path, INPUT_BYTES_MAX)
        .with_context(|| format!("{shown} cannot be read"))
}

fn pair(text: &str) -> Result<(String, String)> {
    let Some((key, value)) = text.split_once('=') else {
        bail!("--set {text}: write it as KEY=VALUE, such as --set pue=1.3");
    };
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

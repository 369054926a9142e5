//! `freshet vcl`: policies laid out, tested, and served to editors.

mod documents;
mod server;

use crate::form::FormArguments;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use freshet_base::file;
use freshet_node::vcl::Files;
use freshet_vcl::{Policy, SOURCE_BYTES_MAX, Source};
use serde_json::json;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// What to do with policies.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lay files out in the one way there is.
    Fmt {
        /// Files, which are changed.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Change nothing; exit status 1 where a file is not laid out so.
        #[arg(long)]
        check: bool,
    },
    /// Run tests of a policy: requests in, actions and fields out, without a network.
    Test {
        /// The policy.
        policy: PathBuf,
        /// Files of tests.
        #[arg(required = true, value_name = "TESTS")]
        tests: Vec<PathBuf>,
        #[command(flatten)]
        form: FormArguments,
    },
    /// Speak the Language Server Protocol on standard input and output.
    Lsp,
}

/// Does it.
///
/// # Errors
/// Which file could not be read or written.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    match arguments.command {
        Command::Fmt { files, check } => lay_out(&files, check),
        Command::Test { policy, tests, form } => test(&policy, &tests, form.is_json()),
        Command::Lsp => server::run(),
    }
}

fn read(path: &Path) -> Result<String> {
    file::read_text(path, SOURCE_BYTES_MAX as u64)
        .with_context(|| format!("{} could not be read", path.display()))
}

fn lay_out(files: &[PathBuf], check: bool) -> Result<ExitCode> {
    let mut wrong = 0;
    for path in files {
        let text = read(path)?;
        let source = Source { name: path.display().to_string(), text: text.clone() };
        match freshet_vcl::format(source) {
            Ok(laid_out) if laid_out == text => {}
            Ok(_) if check => {
                say!("{} is laid out differently", path.display())?;
                wrong += 1;
            }
            Ok(laid_out) => std::fs::write(path, laid_out)
                .with_context(|| format!("{} could not be written", path.display()))?,
            Err(report) => {
                tell!("{}", report.render(std::io::stderr().is_terminal()));
                wrong += 1;
            }
        }
    }
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The node while a policy begins: every backend is healthy.
struct Beginning;

impl freshet_vcl::Host for Beginning {
    fn backend_health(&self, _: u32) -> (bool, f64) {
        (true, 0.0)
    }

    fn random(&mut self) -> u64 {
        0
    }
}

fn test(path: &Path, tests: &[PathBuf], as_json: bool) -> Result<ExitCode> {
    let (source, files) = Files::open(path).map_err(anyhow::Error::msg)?;
    let settings = freshet_node::vcl::language([]);
    let (program, report) = freshet_vcl::compile(source, &files, &settings);
    if !report.diagnostics.is_empty() {
        tell!("{}", report.render(std::io::stderr().is_terminal()));
    }
    let Some(program) = program else { bail!("{} has mistakes", path.display()) };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
    let policy = Policy::load("test", program, Default::default(), None, now, &mut Beginning)
        .map_err(|why| anyhow::anyhow!("vcl_init failed: {why}"))?;
    let (mut all, mut wrong) = (Vec::new(), 0);
    for path in tests {
        for trial in freshet_vcl::trials(&read(path)?, &policy, now) {
            let (line, why) = trial.wrong.unzip();
            wrong += usize::from(why.is_some());
            if let (Some(line), Some(why), false) = (line, &why, as_json) {
                say!("{}:{line}: {}: {why}", path.display(), trial.name)?;
            }
            all.push(json!({
                "file": path.display().to_string(),
                "name": trial.name,
                "passed": why.is_none(),
                "line": line,
                "why": why,
            }));
        }
    }
    match as_json {
        true => say!("{:#}", json!({ "passed": all.len() - wrong, "tests": all }))?,
        false => say!("{} of {} tests passed", all.len() - wrong, all.len())?,
    }
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

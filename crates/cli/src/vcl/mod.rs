//! `freshet vcl`: policies laid out, tested, and served to editors.

mod nearby;
mod scripts;
mod server;

use crate::form::FormArguments;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use freshet_base::file;
use freshet_node::vcl::Files;
use freshet_vcl::{Policy, SOURCE_BYTES_MAX, Source};
use serde_json::{Value, json};
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
    /// Run tests of a policy: requests in, actions and fields out, without a network. Scripts of varnishtest
    /// (.vtc) are run as a whole.
    Test {
        /// The policy with its files of tests, scripts, or both.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
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
        Command::Test { files, form } => test(&files, form.is_json()),
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

fn test(files: &[PathBuf], as_json: bool) -> Result<ExitCode> {
    let (scripts, others): (Vec<_>, Vec<_>) =
        files.iter().map(PathBuf::as_path).partition(|path| scripts::is_script(path));
    let mut trials = Vec::new();
    match &others[..] {
        [] => {}
        [policy] => bail!("no tests of {} were named", policy.display()),
        [policy, tests @ ..] => try_policy(policy, tests, &mut trials)?,
    }
    for path in scripts {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let wrong = scripts::run(path)?.map(|why| (None, why));
        trials.push(Tried { path, name, wrong });
    }
    let wrong = trials.iter().filter(|one| one.wrong.is_some()).count();
    let (passed, all) = (trials.len() - wrong, trials.len());
    if as_json {
        let tests: Vec<_> = trials.iter().map(Tried::shown).collect();
        say!("{:#}", json!({ "passed": passed, "tests": tests }))?;
    } else {
        for Tried { path, name, wrong } in &trials {
            match wrong {
                Some((Some(line), why)) => say!("{}:{line}: {name}: {why}", path.display())?,
                Some((None, why)) => say!("{}: {why}", path.display())?,
                None => {}
            }
        }
        say!("{passed} of {all} tests passed")?;
    }
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How a test went.
struct Tried<'p> {
    path: &'p Path,
    name: String,
    /// What was not as expected first, and in which line.
    wrong: Option<(Option<usize>, String)>,
}

impl Tried<'_> {
    fn shown(&self) -> Value {
        let (line, why) = self.wrong.as_ref().map(|(line, why)| (*line, why)).unzip();
        json!({
            "file": self.path.display().to_string(),
            "name": self.name,
            "passed": why.is_none(),
            "line": line.flatten(),
            "why": why,
        })
    }
}

/// Runs tests of a policy in this process.
fn try_policy<'p>(path: &Path, tests: &[&'p Path], out: &mut Vec<Tried<'p>>) -> Result<()> {
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
    for path in tests {
        for trial in freshet_vcl::trials(&read(path)?, &policy, now) {
            let wrong = trial.wrong.map(|(line, why)| (Some(line), why));
            out.push(Tried { path, name: trial.name, wrong });
        }
    }
    Ok(())
}

//! Hands a running node over to a new process: the new program, the same arguments, the same
//! listening sockets.
//!
//! The sockets are inherited as they are, with the connections that wait in their queues, so none is
//! refused or reset: until the new process says that it serves, both may accept; then the old one
//! stops accepting, answers what it has and ends. Whatever goes wrong before that word leaves the old
//! process serving.
//!
//! A new process keeps the file of the program that ran before it open, whatever is installed in its
//! place, so that there is a way back: the same hand-over, to that program.

use crate::form::FormArguments;
use crate::nodes::{Node, Which};
use crate::runtime;
use anyhow::{Context, Result, bail};
use freshet_admin::Words;
use freshet_fleet::upgrade::{NO_PROGRAM, Program};
use freshet_net::address::Address;
use freshet_net::listener::Listener;
use freshet_net::program::{KeptProgram, pass_on_program};
use freshet_net::readiness::Readiness;
use freshet_net::succession::Line;
use freshet_node::node;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::env;
use std::ffi::{CString, OsStr};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// How long a new process may take until it serves. Starting takes milliseconds; a name server that
/// is slow to answer takes seconds.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// How often `freshet upgrade` looks whether the new process has taken over.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// What systemd says about sockets it passed to the old process, and only to that one.
const ACTIVATION_VARIABLES: [&str; 3] = ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"];

/// Starts a program that somebody has asked for, and waits until it serves. Returns its process id; from
/// then on it lives without us. Dropping the future before ends it.
///
/// # Errors
/// Why there is no new process; then nothing has changed.
pub(crate) async fn start(
    node: &node::Node,
    directory: &Path,
    admin: Option<&(Address, Listener)>,
    before: Option<&KeptProgram>,
) -> Result<u32> {
    if std::process::id() == 1 {
        bail!("this is process 1: its end would end the container and the new process in it");
    }
    let own = KeptProgram::running(env!("CARGO_PKG_VERSION")).inspect_err(
        |error| tracing::warn!(%error, "this program's file is not kept for a way back"),
    );
    let (program, mut command, keeps) = match asked(directory) {
        Program::Installed => {
            let program = program().context("the program's file is not found")?;
            let command = Command::new(&program);
            let keeps = match &own {
                // The same program once more, as for other listeners, is nothing to go back from.
                Ok(own) if own.is(&program) => before,
                own => own.as_ref().ok(),
            };
            (program, command, keeps)
        }
        Program::Before => {
            let program = before.context(NO_PROGRAM)?.path();
            let mut command = Command::new(&program);
            // Where it was called from, so that it finds what is installed there at the next upgrade.
            command.arg0(env::args_os().next().unwrap_or_default());
            // What was gone back from is nothing to go back to.
            (program, command, None)
        }
    };
    pass_on_program(&mut command, keeps);
    command.args(env::args_os().skip(1));
    command.env(runtime::HOME_VARIABLE, directory);
    for variable in ACTIVATION_VARIABLES {
        command.env_remove(variable);
    }
    let said = Words::of(node);
    if let Err(error) = said.clone().leave(directory) {
        let directory = directory.display();
        tracing::warn!(
            "the new process does not know what was said on the command line: {directory}: {error}"
        );
    }
    let more: Vec<_> = admin.iter().map(|(address, listener)| (address, listener)).collect();
    let lines = node.pass_on(&mut command, &more).context("lines to the new process")?;
    let readiness = Readiness::of(&mut command)?;
    let line = Line::of(&mut command)?;
    let child = command.spawn().with_context(|| program.display().to_string())?;
    drop(lines);
    let mut successor = Successor(Some(child));
    tracing::info!(pid = successor.id(), program = %program.display(), "a new process starts");
    node.hand_over(line.opened())?;
    let mut keeps = Keeps(Some(node));
    match tokio::time::timeout(READY_WITHIN, readiness.wait()).await {
        Ok(Ok(Ok(()))) => {
            keeps.0 = None;
            if Words::of(node) != said {
                tracing::warn!("what was said while the new process started has to be said again");
            }
            Ok(successor.release())
        }
        Ok(Ok(Err(why))) if why.is_empty() => {
            bail!("the new process ended before it was ready: {}", successor.end())
        }
        Ok(Ok(Err(why))) => bail!("the new process ended before it was ready: {why}"),
        Ok(Err(error)) => Err(error).context("the new process cannot be heard"),
        Err(_) => bail!("the new process was not ready within {} s", READY_WITHIN.as_secs()),
    }
}

/// Tells `freshet upgrade`, which waits, that and why this process goes on.
pub(crate) fn note_failure(directory: &Path, error: &anyhow::Error) {
    let _ = fs::write(directory.join(FAILURE_FILE), format!("{error:#}\n"));
}

/// Where the reason is left.
const FAILURE_FILE: &str = "upgrade.failed";
/// What says that the next hand-over is to the program before. A signal cannot.
const BACK_FILE: &str = "upgrade.back";

/// Which program the signal that came is about: what was asked for is asked once.
fn asked(directory: &Path) -> Program {
    match fs::remove_file(directory.join(BACK_FILE)) {
        Ok(()) => Program::Before,
        Err(_) => Program::Installed,
    }
}

/// Has this process called as the program is, also where it was started from an open file: threads that are
/// to come as well.
pub(crate) fn take_name() {
    let called = env::args_os().next().unwrap_or_default();
    let name = Path::new(&called).file_name().unwrap_or_default().as_bytes();
    // The kernel keeps 15 bytes of it.
    if let Ok(name) = CString::new(&name[..name.len().min(15)]) {
        let _ = rustix::thread::set_name(&name);
    }
}

/// Ends the hand-over of memory unless the new process became ready.
struct Keeps<'a>(Option<&'a node::Node>);

impl Drop for Keeps<'_> {
    fn drop(&mut self) {
        if let Some(node) = self.0 {
            node.keep();
        }
    }
}

/// A new process that is ended unless it became ready.
struct Successor(Option<Child>);

impl Successor {
    fn id(&self) -> u32 {
        self.0.as_ref().map_or(0, Child::id)
    }

    /// Lets it live.
    fn release(&mut self) -> u32 {
        self.0.take().map_or(0, |child| child.id())
    }

    /// Ends it, if it has not ended by itself, and says how it ended.
    fn end(&mut self) -> String {
        let Some(mut child) = self.0.take() else { return String::new() };
        let _ = child.kill();
        child.wait().map_or_else(|error| error.to_string(), |status| status.to_string())
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        self.end();
    }
}

/// The file to start: where this program was called from, which by now may hold a newer one.
fn program() -> Option<PathBuf> {
    let called = env::args_os().next().unwrap_or_default();
    let search = env::var_os("PATH").unwrap_or_default();
    find(&called, &search, fs::read_link("/proc/self/exe").ok())
}

/// As the shell or service manager did: a name with a slash is a path, which may be a symbolic link
/// that points to another version now; one without is looked for in `search`. Else the file that
/// `running` is, or that has replaced it.
fn find(called: &OsStr, search: &OsStr, running: Option<PathBuf>) -> Option<PathBuf> {
    let by_name = if called.as_bytes().contains(&b'/') {
        Some(PathBuf::from(called)).filter(|path| is_program(path))
    } else if called.is_empty() {
        None
    } else {
        env::split_paths(search)
            .map(|directory| directory.join(called))
            .find(|path| is_program(path))
    };
    by_name.or_else(|| running.map(undeleted).filter(|path| is_program(path)))
}

/// The kernel marks the path of a file that was replaced or removed.
fn undeleted(path: PathBuf) -> PathBuf {
    let mut bytes = path.into_os_string().into_vec();
    if let Some(rest) = bytes.strip_suffix(b" (deleted)") {
        bytes.truncate(rest.len());
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// `freshet upgrade`
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  freshet upgrade\n  freshet upgrade --name edge-2\n  \
                        freshet upgrade --admin 127.0.0.1:6080\n  freshet upgrade --back")]
pub(crate) struct Arguments {
    /// Hand over to the program that ran before the one that runs, instead of what is installed.
    #[arg(long)]
    back: bool,
    #[command(flatten)]
    form: FormArguments,
    #[command(flatten)]
    which: Which,
}

/// Has a running node hand over to the program that is installed now, or to the one before, and waits until
/// it has.
///
/// # Errors
/// When there is no such process, or it goes on as before.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let found = arguments.which.node()?;
    let pid = match (arguments.which.pid, &found) {
        (_, Some(node)) => node.pid,
        (Some(pid), None) => pid,
        (None, None) => bail!("no node runs here as this user: name its process with --pid"),
    };
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw).context("--pid")?;
    let program = if arguments.back { Program::Before } else { Program::Installed };
    let Some(node) = found else {
        if arguments.back {
            bail!("process {pid} has no directory here, and can only be asked to upgrade");
        }
        kill_process(process, Signal::USR2).with_context(|| format!("process {pid}"))?;
        match arguments.form.is_json() {
            true => say!("{}", json!({"node": null, "before": pid, "process": null}))?,
            false => say!("process {pid} was asked; its log says how it went")?,
        }
        return Ok(ExitCode::SUCCESS);
    };
    let name = node.name();
    if program == Program::Before && node.program_before.is_none() {
        bail!("node {name}, process {pid}: {NO_PROGRAM}");
    }
    let next = hand_over(&node.directory, pid, program).with_context(|| format!("node {name}"))?;
    let gone_back = node.program_before.filter(|_| arguments.back);
    if arguments.form.is_json() {
        let done = json!({"node": name, "before": pid, "process": next, "version": gone_back});
        say!("{done}")?;
        return Ok(ExitCode::SUCCESS);
    }
    say!("node {name}: process {next} serves; process {pid} ends when its open requests have")?;
    if let Some(version) = gone_back {
        say!("It runs {version}; a restart starts what is installed")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Has the process of the node in this directory hand over to a program, and waits until it has; the process
/// that serves then.
///
/// # Errors
/// Why it goes on as before.
pub(crate) fn hand_over(directory: &Path, pid: u32, program: Program) -> Result<u32> {
    let failure = directory.join(FAILURE_FILE);
    let _ = fs::remove_file(&failure);
    let back = directory.join(BACK_FILE);
    match program {
        Program::Installed => drop(fs::remove_file(&back)),
        Program::Before => {
            fs::write(&back, "")
                .with_context(|| format!("{} could not be written", back.display()))?;
        }
    }
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw).context("its number")?;
    kill_process(process, Signal::USR2)
        // Nobody is to come upon it who is asked for something else later.
        .inspect_err(|_| drop(fs::remove_file(&back)))
        .with_context(|| format!("process {pid}"))?;
    let asked = Instant::now();
    while asked.elapsed() < READY_WITHIN + LOOK_EVERY {
        if let Some(next) = Node::read_whole(directory).filter(|next| next.pid != pid) {
            return Ok(next.pid);
        }
        let why = fs::read_to_string(&failure).ok();
        if let Some(why) = why.filter(|why| why.ends_with('\n')) {
            bail!("process {pid} goes on as before: {}", why.trim_end());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    bail!("process {pid} goes on as before; its log says why");
}

/// The version of the program that is installed where this one was started from.
///
/// # Errors
/// There is none, or it is none of ours.
pub(crate) fn installed() -> Result<String> {
    let program = program().context("the program's file is not found")?;
    let shown = || program.display().to_string();
    let said = Command::new(&program).arg("--version").stdin(Stdio::null()).output();
    let said = said.with_context(shown)?;
    let text = String::from_utf8_lossy(&said.stdout);
    let version = text.trim_end().strip_prefix("freshet ").filter(|_| said.status.success());
    let version = version.with_context(|| format!("{} does not say its version", shown()))?;
    Ok(version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_where_it_was_called_from() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("freshet");
        let none = OsStr::new("");
        assert_eq!(find(path.as_os_str(), none, None), None, "not there");
        fs::write(&path, "").unwrap();
        assert_eq!(find(path.as_os_str(), none, None), None, "not a program");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find(path.as_os_str(), none, None), Some(path.clone()));
        let search = env::join_paths([Path::new("/nowhere"), directory.path()]).unwrap();
        assert_eq!(find(OsStr::new("freshet"), &search, None), Some(path.clone()));
        let mut replaced = path.clone().into_os_string();
        replaced.push(" (deleted)");
        assert_eq!(find(none, none, Some(replaced.into())), Some(path.clone()));
        assert_eq!(find(OsStr::new("/gone/freshet"), none, Some(path.clone())), Some(path));
    }
}

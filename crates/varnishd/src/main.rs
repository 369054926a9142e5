//! `varnishd`: a Freshet node that is started, driven and watched as Varnish is.
//!
//! It takes Varnish's command line, answers its command line interface and keeps its shared
//! memory, so that `varnishadm`, `varnishstat`, `varnishlog`, `varnishncsa`, `varnishtest` and
//! what is built upon them work with it. Requests are served by the node in this same process; the
//! "child" that Varnish's manager starts and stops is that node.
//!
//! | a reader looks for | it is in |
//! |---|---|
//! | options | [`arguments`], [`endpoint`] |
//! | lines in, answers out | [`cli`] |
//! | commands | [`manager`] |
//! | parameters | [`parameters`] |
//! | policies and what they become | [`program`] |
//! | shared memory | [`shm`] |
//! | which counters there are, and their values | [`counters`], [`sampler`] |
//! | log records | [`journal`] |
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program talks to its user")]

mod accounts;
mod arguments;
mod cli;
mod counters;
mod endpoint;
mod glob;
mod journal;
mod manager;
mod parameters;
mod program;
mod sampler;
mod shm;
mod traffic;

use arguments::{Options, Task};
use cli::connection::{self, Commands};
use cli::listener;
use freshet_base::file;
use freshet_net::address::Address;
use manager::Manager;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;
use tokio::signal::unix::{SignalKind, signal};

// As the `freshet` program has it, and for the same reasons.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What programs take for the version. The first part is the Varnish that is spoken.
pub(crate) const VERSION: &str =
    concat!("varnish-7.1.1 revision freshet-", env!("CARGO_PKG_VERSION"));
/// Bytes of a file with commands.
const COMMANDS_BYTES_MAX: u64 = 16 << 20;
/// Status of a command line that makes no sense.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    match arguments::read(std::env::args().skip(1)) {
        Ok(Task::Run(options)) => run(*options).unwrap_or_else(|error| {
            eprintln!("Error: {error}");
            ExitCode::from(USAGE)
        }),
        Ok(Task::Usage) => {
            print!("{}", usage());
            ExitCode::SUCCESS
        }
        Ok(Task::Version) => {
            eprintln!("varnishd ({VERSION})");
            ExitCode::SUCCESS
        }
        Ok(Task::Document(what)) => document(&what),
        Err(error) => {
            eprintln!("Error: {error}");
            if error.is_of_form() {
                eprint!("{}", usage());
            }
            ExitCode::from(USAGE)
        }
    }
}

/// Why the program ends.
enum End {
    /// Whoever started it has let go of it.
    Released,
    /// A signal.
    Told,
}

fn run(options: Options) -> Result<ExitCode, String> {
    let parameters = options.parameters().map_err(|error| error.to_string())?;
    if !options.debug && !options.foreground && !options.check {
        return detach();
    }
    if !options.check {
        check_addresses(&options)?;
    }
    start_log();
    let shown = |error: io::Error| error.to_string();
    let (debug, check) = (options.debug, options.check);
    shm::directory::make(&options.workdir).map_err(shown)?;
    // Before anything in the directory is touched, which may be another's.
    let _pid_files = if check { None } else { Some(PidFiles::write(&options)?) };
    let manager = Manager::new(options, parameters).map_err(shown)?;
    if check {
        manager.state().load_options()?;
        return Ok(ExitCode::SUCCESS);
    }
    let (sender, ends) = channel();
    watch_signals(sender.clone()).map_err(shown)?;
    // Who sees what is said of a policy can ask for more already.
    open_interfaces(&manager).map_err(shown)?;
    manager.state().load_options()?;
    run_commands(&manager)?;
    if debug {
        serve_stdin(&manager, sender).map_err(shown)?;
    } else {
        let mut state = manager.state();
        if state.has_policy() && !state.is_serving() {
            state.start()?;
        }
    }
    wait(&manager, &ends);
    Ok(ExitCode::SUCCESS)
}

/// Refuses addresses that are none of this machine's, before a policy is looked at. One that is in
/// use is found out when it is served.
fn check_addresses(options: &Options) -> Result<(), String> {
    for endpoint in &options.endpoints {
        let Address::Tcp(address) = endpoint.address else { continue };
        let any_port = std::net::SocketAddr::new(address.ip(), 0);
        match std::net::TcpListener::bind(any_port) {
            Err(why) if why.kind() == io::ErrorKind::AddrNotAvailable => {
                return Err(format!("Could not get socket {address}: {why}"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Waits for the end and carries it out.
fn wait(manager: &Manager, ends: &Receiver<End>) {
    if let Ok(End::Told) = ends.recv() {
        tracing::info!("told to end");
    }
    manager.end();
}

/// The interfaces that the command line asks for, announced for `varnishadm`.
fn open_interfaces(manager: &Arc<Manager>) -> io::Result<()> {
    let commands = || Arc::clone(manager) as Arc<dyn Commands + Send + Sync>;
    let secret = manager.state().secret()?;
    let (mut listen, report) = {
        let state = manager.state();
        let options = &state.options;
        (options.command_addresses.clone(), options.report_addresses.clone())
    };
    // Without an address one on this machine is chosen, so that `varnishadm` finds a way.
    if listen.is_empty() {
        listen.push("localhost:0".into());
    }
    let mut shown = String::new();
    for address in &listen {
        if address == "none" {
            continue;
        }
        for address in listener::listen(address, commands(), Some(secret.clone()))? {
            shown.push_str(&format!("{} {}\n", address.ip(), address.port()));
        }
    }
    manager.state().announce("-T", &shown)?;
    manager.state().announce("-S", &secret.to_string_lossy())?;
    for address in &report {
        listener::report_to(address, commands(), secret.clone())?;
    }
    Ok(())
}

/// Carries out the commands of the file that `-I` names. One that fails ends the program, unless
/// its line begins with `-`.
fn run_commands(manager: &Manager) -> Result<(), String> {
    let Some(path) = manager.state().options.commands.clone() else { return Ok(()) };
    let text = file::read_text(&path, COMMANDS_BYTES_MAX)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (line, may_fail) = match line.strip_prefix('-') {
            Some(line) => (line, true),
            None => (line, false),
        };
        let words = cli::words::split(line).map_err(|error| format!("{line}: {error}"))?;
        if words.first().is_none_or(|word| word.starts_with('#')) {
            continue;
        }
        let reply = manager.command(words);
        if reply.status != cli::Status::Ok && !may_fail {
            return Err(format!("{line}: {}", reply.text));
        }
    }
    Ok(())
}

/// Serves the command line interface on standard input; its end is the program's.
fn serve_stdin(manager: &Arc<Manager>, ends: Sender<End>) -> io::Result<()> {
    let manager = Arc::clone(manager);
    Builder::new().name("cli-stdin".into()).spawn(move || {
        let _ = connection::serve(io::stdin(), io::stdout(), &*manager, None);
        let _ = ends.send(End::Released);
    })?;
    Ok(())
}

fn watch_signals(ends: Sender<End>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut terminate, mut interrupt) = {
        let _within = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    Builder::new().name("signals".into()).spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        });
        let _ = ends.send(End::Told);
    })?;
    Ok(())
}

/// Starts this program again in the background, and ends when that one serves.
fn detach() -> Result<ExitCode, String> {
    let shown = |error: io::Error| error.to_string();
    let program = std::env::current_exe().map_err(shown)?;
    let mut child = Command::new(program)
        .arg("-F")
        .args(std::env::args_os().skip(1))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(shown)?;
    // It has nothing to say as long as all is well; what it says until it lives on is passed on.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(1);
    while std::time::Instant::now() < deadline {
        if let Some(status) = child.try_wait().map_err(shown)? {
            if let Some(mut errors) = child.stderr.take() {
                io::copy(&mut errors, &mut io::stderr()).map_err(shown)?;
            }
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            return Ok(ExitCode::from(code.unwrap_or(USAGE)));
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Ok(ExitCode::SUCCESS)
}

/// Files with the number of this process, each locked as long as it runs.
struct PidFiles(Vec<(PathBuf, std::fs::File)>);

impl PidFiles {
    /// Writes the number where it was asked for, and into the working directory.
    fn write(options: &Options) -> Result<Self, String> {
        let paths = [Some(options.workdir.join("_.pid")), options.pid_file.clone()];
        let mut files = Vec::new();
        for path in paths.into_iter().flatten() {
            let failed =
                |why: io::Error| format!("Could not open pid-file ({}): {why}", path.display());
            let mut open = std::fs::OpenOptions::new();
            let open = open.read(true).write(true).create(true).truncate(false);
            let mut file = open.open(&path).map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(std::fs::TryLockError::WouldBlock) => {
                    let mut number = String::new();
                    let _ = io::Read::read_to_string(&mut file, &mut number);
                    let (number, path) = (number.trim(), path.display());
                    return Err(format!(
                        "Varnishd is already running (pid={number}) (pidfile={path})"
                    ));
                }
                Err(std::fs::TryLockError::Error(why)) => return Err(failed(why)),
            }
            file.set_len(0)
                .and_then(|()| writeln!(file, "{}", std::process::id()))
                .map_err(failed)?;
            files.push((path, file));
        }
        Ok(Self(files))
    }
}

impl Drop for PidFiles {
    fn drop(&mut self) {
        for (path, _) in &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn start_log() {
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("FRESHET_LOG")
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn")),
        )
        .with_writer(io::stderr)
        // As in `freshet serve`: it panics where standard error takes nothing.
        .log_internal_errors(false)
        .init();
}

/// The name of this machine.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// What this machine is.
pub(crate) fn platform() -> String {
    let uname = rustix::system::uname();
    let part = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let (system, release) = (part(uname.sysname()), part(uname.release()));
    format!("{system},{release},{},-jnone,-smalloc,-sdefault,-hcritbit", part(uname.machine()))
}

fn document(what: &str) -> ExitCode {
    match what {
        "parameter" => print!("{}", parameters::Parameters::reference()),
        "vsl" => {
            for tag in freshet_node::transcript::Tag::ALL {
                println!("{}", tag.name());
            }
        }
        "cli" => print!("{}", manager::reference()),
        "builtin" => print!("{}", program::builtin()),
        "optstring" => println!("{}", arguments::OPTIONS),
        _ => {
            eprintln!("Error: Invalid -x argument");
            return ExitCode::from(USAGE);
        }
    }
    ExitCode::SUCCESS
}

fn usage() -> &'static str {
    "\
Usage: varnishd [options]

  -a [name=]address[:port][,PROXY][,user=u][,group=g][,mode=m]
                     Where clients connect; repeatable; default :80
  -b address[:port]  The origin, or none; not with -f
  -f file            VCL program; repeatable, the last one is used
  -n dir             Working directory
  -d                 Command line interface on standard input and output
  -F                 Stay in the foreground
  -C                 Check the VCL programs, then end
  -T address[:port]  Where varnishadm connects; repeatable
  -M address:port    Connect there to be driven; repeatable
  -S file            Secret for -T and -M
  -P file            File for the number of the process
  -i name            Name of this instance
  -I file            Commands to begin with
  -t seconds         Default TTL
  -p param=value     Set a parameter; repeatable
  -r param[,...]     Forbid to change parameters
  -s [name=]kind[,size]
                     Storage: malloc, default or file; repeatable
  -l size            Size of the log
  -x parameter|vsl|cli|builtin|optstring
                     Print a part of the documentation
  -V                 Version
  -h -W -j           Taken and not used
"
}

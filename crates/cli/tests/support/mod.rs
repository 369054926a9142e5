//! What the tests of the program share: programs by name, and processes that end with their test.
#![allow(
    clippy::print_stderr,
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "tests, of which each uses a part of this"
)]

#[path = "../../../../tests/skip.rs"]
pub mod skip;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long a test waits for something before it says that it never came.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The program under test.
pub fn freshet() -> Command {
    Command::new(env!("CARGO_BIN_EXE_freshet"))
}

/// Where a program of somebody else is; `None`, with a printed reason, when it is not installed.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Debian keeps servers where ordinary users do not look.
    let found = std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|directory| directory.join(name))
        .find(|file| file.is_file());
    if found.is_none() {
        skip::missing(name);
    }
    found
}

/// Runs a program to its end.
pub fn run(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output();
    output.unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Runs a program that must succeed, and returns what it printed.
pub fn succeed(command: &mut Command) -> String {
    let output = run(command);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// A process that runs beside a test, and ends with it.
pub struct Process {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Process {
    /// Starts it; what it says on standard error can be waited for. It must stay one process: what it
    /// starts itself would outlive a test that failed.
    pub fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let errors = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = channel();
        // To the end, whoever listens: a full pipe would stop the process.
        std::thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, lines, seen: Vec::new() }
    }

    /// Waits for a line on standard error, and returns what `find` makes of it.
    pub fn wait_for<T>(&mut self, find: impl Fn(&str) -> Option<T>) -> T {
        let started = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(started.elapsed());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    let found = find(&line);
                    self.seen.push(line);
                    if let Some(found) = found {
                        return found;
                    }
                }
                Err(error) => panic!("{error}; it said so far:\n{}", self.seen.join("\n")),
            }
        }
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
    }

    /// Waits for the end; what it said on standard output, when that is piped, comes along.
    pub fn end(&mut self) -> (ExitStatus, String) {
        let mut text = String::new();
        if let Some(mut output) = self.child.stdout.take() {
            output.read_to_string(&mut text).unwrap();
        }
        (self.child.wait().unwrap(), text)
    }

    /// What it has said on standard error until now.
    pub fn said_so_far(&mut self) -> String {
        self.seen.extend(self.lines.try_iter());
        self.seen.join("\n")
    }

    /// What it said on standard error, once it has ended.
    pub fn said(&mut self) -> String {
        self.seen.extend(self.lines.iter());
        self.seen.join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether a process ended by itself, with success.
pub fn is_clean(status: ExitStatus) -> bool {
    status.success() && status.signal().is_none()
}

/// Writes `length` bytes that differ from one another to a file.
pub fn write_noise(path: &Path, length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    })
    .take(length)
    .collect();
    std::io::Write::write_all(&mut File::create(path).unwrap(), &bytes).unwrap();
    bytes
}

/// Waits until a node, or the one it hands over to, says that it serves; its process.
pub fn ready(process: &mut Process) -> u32 {
    process
        .wait_for(|line| line.strip_prefix("ready      process ").map(|pid| pid.parse().unwrap()))
}

/// A process by its number.
pub fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap()).unwrap()
}

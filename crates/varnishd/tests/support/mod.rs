//! What the tests share: programs by name, and a `varnishd` that ends with its test.
#![allow(
    clippy::print_stderr,
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "tests, of which each uses a part of this"
)]

#[path = "../../../../tests/skip.rs"]
pub mod skip;

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a test waits for something before it says that it never came.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Where a program of somebody else is; `None`, with a printed reason, when it is not installed.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|directory| directory.join(name))
        .find(|file| file.is_file());
    if found.is_none() {
        skip::missing(name);
    }
    found
}

/// A `PATH` on which our `varnishd` comes first.
pub fn path() -> OsString {
    let own = Path::new(env!("CARGO_BIN_EXE_varnishd")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths([own].into_iter().chain(std::env::split_paths(&path))).unwrap()
}

/// A `varnishd` with its command line interface on our pipes; it ends when they do.
pub struct Varnishd {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<Box<dyn Read + Send>>,
    pub directory: tempfile::TempDir,
}

impl Varnishd {
    /// Starts one with these options, and waits until it listens to commands.
    pub fn start(options: &[&str]) -> Self {
        Self::start_program(Path::new(env!("CARGO_BIN_EXE_varnishd")), options)
    }

    /// As [`Self::start`], for a `varnishd` of somebody else.
    pub fn start_program(program: &Path, options: &[&str]) -> Self {
        Self::start_command(&mut Command::new(program), options)
    }

    /// As [`Self::start_program`], where more is said of the process than its options.
    pub fn start_command(command: &mut Command, options: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut child = command
            .arg("-d")
            .arg("-n")
            .arg(directory.path().join("v"))
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to = child.stdin.take();
        let from: Box<dyn Read + Send> = Box::new(child.stdout.take().unwrap());
        let mut started = Self { child, to, from: BufReader::new(from), directory };
        let (status, banner) = started.answer();
        assert_eq!(status, 200, "{banner}");
        started
    }

    /// The working directory.
    pub fn name(&self) -> PathBuf {
        self.directory.path().join("v")
    }

    /// Sends a command and returns its answer.
    pub fn command(&mut self, line: &str) -> (u16, String) {
        writeln!(self.to.as_mut().unwrap(), "{line}").unwrap();
        self.answer()
    }

    /// Sends a command that has to succeed.
    pub fn ok(&mut self, line: &str) -> String {
        let (status, text) = self.command(line);
        assert_eq!(status, 200, "{line}: {text}");
        text
    }

    /// The first address clients connect to.
    pub fn address(&mut self) -> String {
        let text = self.ok("debug.listen_address");
        let words: Vec<_> = text.split_whitespace().collect();
        format!("{}:{}", words[1], words[2])
    }

    fn answer(&mut self) -> (u16, String) {
        let mut head = String::new();
        self.from.read_line(&mut head).unwrap();
        let mut words = head.split_whitespace();
        let status = words.next().unwrap().parse().unwrap();
        let length: usize = words.next().unwrap().parse().unwrap();
        let mut text = vec![0; length + 1];
        self.from.read_exact(&mut text).unwrap();
        text.pop();
        (status, String::from_utf8_lossy(&text).into_owned())
    }

    /// Lets go of it and returns its exit status.
    pub fn end(mut self) -> std::process::ExitStatus {
        self.to = None;
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Varnishd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

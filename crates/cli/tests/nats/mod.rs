//! A server of NATS for the tests of fleets, which may be killed and started again.
#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "tests, of which each uses a part of this"
)]

use crate::support::{Process, freshet, succeed};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A server with a folder of its own.
pub struct Nats {
    program: PathBuf,
    pub folder: tempfile::TempDir,
    port: u16,
    /// More of its command line.
    arguments: Vec<String>,
    process: Option<Process>,
}

impl Nats {
    pub fn start(program: PathBuf) -> Self {
        Self::start_with(program, &[])
    }

    pub fn start_with(program: PathBuf, arguments: &[&str]) -> Self {
        Self::start_at(program, 0, arguments)
    }

    /// At a port; 0 is any.
    pub fn start_at(program: PathBuf, port: u16, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let arguments = arguments.iter().map(|one| (*one).to_owned()).collect();
        let mut out = Self { program, folder, port, arguments, process: None };
        out.run();
        out
    }

    pub fn run(&mut self) {
        let port = if self.port == 0 { "-1".to_owned() } else { self.port.to_string() };
        let mut command = Command::new(&self.program);
        command.args(["-js", "-a", "127.0.0.1", "-p", &port, "-sd"]).arg(self.folder.path());
        command.args(&self.arguments);
        let mut process = Process::start(command.stdout(Stdio::null()));
        self.port = process.wait_for(|line| {
            let (_, address) = line.split_once("Listening for client connections on ")?;
            address.trim().rsplit_once(':')?.1.parse().ok()
        });
        process.wait_for(|line| line.contains("Server is ready").then_some(()));
        self.process = Some(process);
    }

    pub fn kill(&mut self) {
        self.process.take();
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Where it speaks TLS.
    pub fn secure_url(&self) -> String {
        format!("tls://localhost:{}", self.port)
    }

    /// A command of `freshet fleet`.
    pub fn fleet(&self, words: &[&str]) -> Command {
        let mut command = freshet();
        command.arg("fleet").args(words).args(["--server", &self.url()]);
        command
    }

    pub fn status(&self) -> String {
        succeed(&mut self.fleet(&["config", "status"]))
    }
}

//! A server of NATS for the tests of fleets, which may be killed and started again.
#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "tests, of which each uses a part of this"
)]

use crate::support::{Process, freshet, succeed};
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
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

    pub fn start_with(program: PathBuf, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().display().to_string();
        let own = ["-js", "-sd", store.as_str()];
        let arguments = own.iter().chain(more).map(|one| (*one).to_owned()).collect();
        let mut out = Self { program, folder, port: 0, arguments, process: None };
        out.run();
        out
    }

    /// At a port, with more of its configuration in the file `fleet.conf` of `files`.
    pub fn start_including(program: PathBuf, port: u16, files: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "jetstream {{ store_dir: {:?} }}\ninclude \"fleet.conf\"\n",
            folder.path().join("store")
        );
        // Names in it are those of its folder.
        let own = files.join("nats.conf");
        fs::write(&own, text).unwrap();
        let arguments = vec!["-c".to_owned(), own.display().to_string()];
        let mut out = Self { program, folder, port, arguments, process: None };
        out.run();
        out
    }

    pub fn run(&mut self) {
        let port = if self.port == 0 { "-1".to_owned() } else { self.port.to_string() };
        let mut command = Command::new(&self.program);
        command.args(["-a", "127.0.0.1", "-p", &port]).args(&self.arguments);
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

    /// Has it read its configuration again.
    pub fn reload(&mut self) {
        let process = self.process.as_mut().unwrap();
        process.signal(Signal::HUP);
        process.wait_for(|line| line.contains("Reloaded server configuration").then_some(()));
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

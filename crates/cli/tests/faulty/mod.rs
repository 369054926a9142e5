//! A disk that fails as told: a file of the file system that `bench/store/faulty` is.
#![allow(
    clippy::print_stderr,
    clippy::unwrap_used,
    missing_docs,
    unreachable_pub,
    reason = "tests"
)]

use crate::support;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub struct Faulty {
    /// Where the file is.
    pub path: String,
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Faulty {
    /// A file of zeroes; `None`, with a printed reason, where file systems cannot be mounted.
    pub fn start(folder: &Path, bytes: u64) -> Option<Self> {
        let python = support::program("python3")?;
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/store/faulty");
        let (image, mount) = (folder.join("image"), folder.join("mount"));
        std::fs::File::create(&image).unwrap().set_len(bytes).unwrap();
        std::fs::create_dir(&mount).unwrap();
        let mut process = Command::new(python)
            .arg(program)
            .args([&mount, &image])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().unwrap());
        let path = mount.join("disk").display().to_string();
        let mut this = Self { path, process, input, output };
        if this.line() != "ready" {
            support::skip::skip("no FUSE file system can be mounted here");
            return None;
        }
        Some(this)
    }

    /// Lets it fail from now on as `bench/store/faulty` knows it, or be good.
    pub fn tell(&mut self, what: &str) {
        writeln!(self.input.as_mut().unwrap(), "{what}").unwrap();
        assert_eq!(self.line(), "ok");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.process.wait();
    }
}

//! What the drills share: a node with a configuration to change, an origin that can be held up and
//! lost, and load that counts every request that fails.
#![allow(
    clippy::unwrap_used,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "tests, of which each uses a part of this"
)]

use super::support::{PATIENCE, Process, pid, ready, succeed};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, Signal, kill_process, pidfd_open};
use std::fs::{self, Metadata};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{JoinHandle, spawn};
use std::time::Instant;

/// Bytes of `/slow`, of which the first half comes at once.
pub const SLOW_BYTES: usize = 1 << 20;

/// A number that threads raise and a test waits for.
#[derive(Clone, Default)]
pub struct Count(Arc<(Mutex<u64>, Condvar)>);

impl Count {
    pub fn add(&self) {
        *self.0.0.lock().unwrap() += 1;
        self.0.1.notify_all();
    }

    pub fn value(&self) -> u64 {
        *self.0.0.lock().unwrap()
    }

    /// Waits until it is at least `wanted`.
    pub fn reach(&self, wanted: u64) {
        let guard = self.0.0.lock().unwrap();
        let waited = self.0.1.wait_timeout_while(guard, PATIENCE, |value| *value < wanted);
        let value = *waited.unwrap().0;
        assert!(value >= wanted, "{value} of {wanted}");
    }
}

/// Bytes of `/large`.
pub const LARGE_BYTES: usize = 3 << 20;

/// An origin of small objects for a minute (`/…`) or a second (`/brief…`), of `/large` and of `/slow…`.
pub struct Origin {
    pub address: SocketAddr,
    /// Downloads of `/slow` that stand at the half.
    pub halves: Count,
    gate: Count,
    lost: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
    thread: Option<JoinHandle<()>>,
}

impl Origin {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (halves, gate, lost) =
            (Count::default(), Count::default(), Arc::<AtomicBool>::default());
        let open = Arc::<Mutex<Vec<TcpStream>>>::default();
        let shared = (halves.clone(), gate.clone(), Arc::clone(&lost), Arc::clone(&open));
        let thread = spawn(move || {
            let (halves, gate, lost, open) = shared;
            for stream in listener.incoming().map_while(Result::ok) {
                if lost.load(SeqCst) {
                    return;
                }
                open.lock().unwrap().push(stream.try_clone().unwrap());
                let (halves, gate) = (halves.clone(), gate.clone());
                spawn(move || answer(stream, &halves, &gate));
            }
        });
        Self { address, halves, gate, lost, open, thread: Some(thread) }
    }

    /// Lets downloads of `/slow` go on to their end.
    pub fn go_on(&self) {
        self.gate.add();
    }

    /// Breaks all connections and accepts no more.
    pub fn lose(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.lost.store(true, SeqCst);
        let _ = TcpStream::connect(self.address);
        thread.join().unwrap();
        for stream in self.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.go_on();
        self.lose();
    }
}

fn answer(stream: TcpStream, halves: &Count, gate: &Count) -> Option<()> {
    let mut input = BufReader::new(stream.try_clone().ok()?);
    let mut output = stream;
    loop {
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        let path = line.split(' ').nth(1)?.to_owned();
        while line != "\r\n" {
            line.clear();
            if input.read_line(&mut line).ok()? == 0 {
                return None;
            }
        }
        let (age, length) = match &path {
            path if path.starts_with("/slow") => (60, SLOW_BYTES),
            path if path.starts_with("/large") => (60, LARGE_BYTES),
            path if path.starts_with("/brief") => (1, 1000),
            _ => (60, 1000),
        };
        let mut bytes = format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age={age}\r\nContent-Length: {length}\r\n\r\n"
        )
        .into_bytes();
        bytes.resize(bytes.len() + length, b'x');
        if length == SLOW_BYTES {
            let rest = bytes.split_off(bytes.len() - length / 2);
            output.write_all(&bytes).ok()?;
            halves.add();
            gate.reach(1);
            bytes = rest;
        }
        output.write_all(&bytes).ok()?;
    }
}

/// Makes a copy of the program under test, by a process of its own: a file that this one has open for writing
/// cannot be started, and what other tests start here meanwhile would have it open, too.
pub fn copy_of_program(path: &Path) {
    let program = env!("CARGO_BIN_EXE_freshet");
    succeed(Command::new("install").args(["-m", "0755", program]).arg(path));
}

/// A node that may hand over to others; all of them end with the test.
pub struct Node {
    pub process: Process,
    pub address: SocketAddr,
    /// Of the listener with TLS, where there is one.
    pub tls_address: Option<SocketAddr>,
    pub directory: tempfile::TempDir,
    pids: Vec<u32>,
}

impl Node {
    /// Starts it with `configuration` in its file, from a link that [`Node::install`] may change.
    pub fn start(origin: &Origin, configuration: &str, environment: &[(&str, PathBuf)]) -> Self {
        Self::start_with(origin, configuration, environment, false)
    }

    /// As [`Node::start`], with a listener that has TLS and HTTP/3 besides.
    pub fn start_with_tls(origin: &Origin, configuration: &str) -> Self {
        Self::start_with(origin, configuration, &[], true)
    }

    fn start_with(
        origin: &Origin,
        configuration: &str,
        environment: &[(&str, PathBuf)],
        has_tls: bool,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("freshet");
        symlink(env!("CARGO_BIN_EXE_freshet"), &program).unwrap();
        let file = directory.path().join("freshet.toml");
        fs::write(&file, configuration).unwrap();
        let mut command = Command::new(program);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--memory", "64MiB"])
            .args(["--admin", "127.0.0.1:0", "--access-log", "off"])
            .args(["--origin", &format!("http://{}", origin.address)])
            .arg("--config")
            .arg(file)
            .env("RUNTIME_DIRECTORY", directory.path())
            .envs(environment.iter().map(|(name, value)| (name, value)));
        if has_tls {
            command.args(["--listen-tls", "127.0.0.1:0"]);
        }
        let mut process = Process::start(&mut command);
        let mut listens = |scheme: &str| {
            process.wait_for(|line| {
                let rest = line.strip_prefix("listening  ")?.strip_prefix(scheme)?;
                Some(rest.split_whitespace().next()?.parse().unwrap())
            })
        };
        let address = listens("http://");
        let tls_address = has_tls.then(|| listens("https://"));
        let pid = ready(&mut process);
        Self { process, address, tls_address, directory, pids: vec![pid] }
    }

    pub fn configure(&self, configuration: &str) {
        fs::write(self.directory.path().join("freshet.toml"), configuration).unwrap();
    }

    /// Puts another program where this one was started from.
    pub fn install(&self, program: &str) {
        let path = self.directory.path().join("freshet");
        fs::remove_file(&path).unwrap();
        symlink(program, path).unwrap();
    }

    /// The process that serves now.
    pub fn pid(&self) -> u32 {
        *self.pids.last().unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(pid(self.pid()), signal).unwrap();
    }

    pub fn wait_for(&mut self, text: &str) {
        self.process.wait_for(|line| line.contains(text).then_some(()));
    }

    /// Hands over, and waits for the end of the process before.
    pub fn upgrade(&mut self) {
        let before = self.pid();
        let ended = pidfd_open(pid(before), PidfdFlags::empty()).unwrap();
        self.signal(Signal::USR2);
        self.takes_over();
        self.wait_for("the new process serves");
        self.wait_for("drained");
        let limit = Timespec::try_from(PATIENCE).unwrap();
        let mut polled = [PollFd::new(&ended, PollFlags::IN)];
        assert_eq!(poll(&mut polled, Some(&limit)).unwrap(), 1, "process {before} does not end");
    }

    /// Waits until another process says that it serves; that process.
    pub fn takes_over(&mut self) -> u32 {
        let next = ready(&mut self.process);
        assert_ne!(next, self.pid());
        self.pids.push(next);
        next
    }

    /// The file that the serving process runs.
    pub fn file(&self) -> Metadata {
        fs::metadata(format!("/proc/{}/exe", self.pid())).unwrap()
    }

    /// Descriptors that the serving process has open.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    /// Waits until it has no more descriptors open than `most`: what is closing needs a moment.
    pub fn settle(&self, most: usize) {
        let started = Instant::now();
        while self.descriptors() > most {
            assert!(started.elapsed() < PATIENCE, "{} descriptors, not {most}", self.descriptors());
            std::thread::yield_now();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // The first one is our child and ends with `process`.
        for successor in &self.pids[1..] {
            let _ = kill_process(pid(*successor), Signal::KILL);
        }
    }
}

/// Clients that ask one request after another, some over connections they keep, some over a new
/// one for each.
pub struct Load {
    pub answered: Count,
    /// Answers of an age that is over one second.
    pub aged: Count,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    pub fn start(address: SocketAddr, path: &'static str, kept: usize, fresh: usize) -> Self {
        let (answered, aged, stop) = (Count::default(), Count::default(), Arc::default());
        let threads = (0..kept + fresh)
            .map(|index| {
                let stop: Arc<AtomicBool> = Arc::clone(&stop);
                let (answered, aged) = (answered.clone(), aged.clone());
                spawn(move || {
                    let mut client = Client { address, keep: index < kept, connection: None };
                    let mut failures = Vec::new();
                    while !stop.load(SeqCst) && failures.len() < 10 {
                        match client.ask(path) {
                            Ok(Answer { status: 200, age, .. }) => {
                                if age > 1 {
                                    aged.add();
                                }
                            }
                            Ok(answer) => failures.push(format!("status {}", answer.status)),
                            Err(error) => {
                                client.connection = None;
                                failures.push(format!("{error} (kept: {})", client.keep));
                            }
                        }
                        answered.add();
                    }
                    failures
                })
            })
            .collect();
        Self { answered, aged, stop, threads }
    }

    /// Waits until `more` requests were answered from now on.
    pub fn go_on(&self, more: u64) {
        self.answered.reach(self.answered.value() + more);
    }

    /// Ends it. No request may have failed.
    pub fn finish(self) -> u64 {
        self.stop.store(true, SeqCst);
        let failures: Vec<_> =
            self.threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        let requests = self.answered.value();
        assert!(failures.is_empty(), "{} of {requests} failed: {failures:?}", failures.len());
        requests
    }
}

/// A client with at most one connection.
pub struct Client {
    pub address: SocketAddr,
    pub keep: bool,
    pub connection: Option<BufReader<TcpStream>>,
}

pub struct Answer {
    pub status: u16,
    pub age: u64,
    /// Whether the server said that it closes the connection.
    pub closes: bool,
}

impl Client {
    /// Asks and reads the whole answer. A connection that ends without the server having said so
    /// is an error.
    pub fn ask(&mut self, path: &str) -> io::Result<Answer> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let stream = TcpStream::connect(self.address)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_nodelay(true)?;
                BufReader::new(stream)
            }
        };
        let request = format!("GET {path} HTTP/1.1\r\nHost: drill.example\r\n\r\n");
        connection.get_mut().write_all(request.as_bytes())?;
        let mut line = String::new();
        connection.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|text| text.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no answer: {line:?}")))?;
        let mut answer = Answer { status, age: 0, closes: false };
        let mut length = 0;
        loop {
            line.clear();
            connection.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().map_err(io::Error::other)?,
                "age" => answer.age = value.parse().map_err(io::Error::other)?,
                "connection" => answer.closes = value.eq_ignore_ascii_case("close"),
                _ => {}
            }
        }
        connection.read_exact(&mut vec![0; length])?;
        if self.keep && !answer.closes {
            self.connection = Some(connection);
        }
        Ok(answer)
    }
}

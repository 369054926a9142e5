//! A node in front of a small origin, and the commands that talk to it.

use crate::support::{Process, freshet, succeed};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Paths of the origin and the fields it answers with.
pub(super) const PAGES: &[(&str, &str)] = &[
    ("/page", "Cache-Control: max-age=60"),
    ("/news/1", "Cache-Control: max-age=60\r\nSurrogate-Key: news sport"),
    ("/news/2", "Cache-Control: max-age=60\r\nCache-Tag: news"),
    ("/live", "Cache-Control: max-age=60, stale-while-revalidate=60"),
    ("/private", "Cache-Control: no-store"),
    ("/vary", "Cache-Control: max-age=60\r\nVary: Accept-Encoding"),
];

/// An origin that answers each request on a connection of its own. `/held` it answers once it is
/// told to, after having said that it was asked.
pub(super) struct Origin {
    pub(super) address: SocketAddr,
    pub(super) asked: Receiver<()>,
    pub(super) go_on: Sender<()>,
}

impl Origin {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (was_asked, asked) = channel();
        let (go_on, wait) = channel();
        std::thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let mut reader = BufReader::new(socket);
                let mut line = String::new();
                let _ = reader.read_line(&mut line);
                let mut field = String::from(" ");
                while field.trim_end() != "" {
                    field.clear();
                    let _ = reader.read_line(&mut field);
                }
                let target = line.split(' ').nth(1).unwrap_or("");
                let path = target.split('?').next().unwrap_or(target);
                if path == "/held" {
                    let _ = was_asked.send(());
                    let _ = wait.recv();
                }
                let known = PAGES.iter().find(|(known, _)| *known == path);
                let (status, fields) = match known {
                    Some((_, fields)) => ("200 OK", *fields),
                    None => ("404 Not Found", "X-Path: unknown"),
                };
                let answer = format!(
                    "HTTP/1.1 {status}\r\n{fields}\r\nContent-Length: 5\r\nConnection: close\r\n\
                     \r\nhello"
                );
                let _ = reader.into_inner().write_all(answer.as_bytes());
            }
        });
        Self { address, asked, go_on }
    }
}

/// A running node with an origin, and where its parts are.
pub(super) struct Node {
    pub(super) process: Process,
    pub(super) origin: Origin,
    pub(super) home: tempfile::TempDir,
    pub(super) clients: SocketAddr,
    pub(super) admin: SocketAddr,
    pub(super) token: PathBuf,
}

impl Node {
    pub(super) fn start() -> Self {
        let origin = Origin::start();
        let url = format!("http://{}", origin.address);
        Self::with(origin, &["--origin", &url])
    }

    pub(super) fn with(origin: Origin, arguments: &[&str]) -> Self {
        Self::with_workers(1, origin, arguments)
    }

    pub(super) fn with_workers(workers: usize, origin: Origin, arguments: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut command = freshet();
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .args(["--memory", "64MiB", "--workers", &workers.to_string()])
            .args(arguments)
            .env("XDG_RUNTIME_DIR", home.path())
            .env_remove("RUNTIME_DIRECTORY");
        let mut process = Process::start(&mut command);
        let mut after =
            |name: &str| process.wait_for(|line| Some(line.strip_prefix(name)?.trim().to_owned()));
        let clients = address_in(&after("listening"));
        let admin = address_in(&after("admin"));
        let token = PathBuf::from(after("token"));
        after("try");
        Self { process, origin, home, clients, admin, token }
    }

    /// A command that talks to this node, with the token it finds by itself.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = freshet();
        command
            .args(arguments)
            .args(["--admin", &self.admin.to_string()])
            .env("XDG_RUNTIME_DIR", self.home.path())
            .env_remove("RUNTIME_DIRECTORY");
        command
    }

    /// What such a command prints, which has to fit a terminal.
    pub(super) fn say(&self, arguments: &[&str]) -> String {
        let text = succeed(&mut self.command(arguments));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        text
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.clients)
    }

    /// Asks the node as a client and returns `Cache-Status`.
    pub(super) fn ask(&self, path: &str) -> String {
        let answer = get(self.clients, path, "");
        let line = answer.lines().find_map(|line| line.strip_prefix("Cache-Status: freshet; "));
        line.unwrap_or_else(|| panic!("no Cache-Status in {answer}")).to_owned()
    }

    pub(super) fn ask_admin(&self, path: &str, fields: &str) -> String {
        get(self.admin, path, fields)
    }
}

pub(super) fn address_in(text: &str) -> SocketAddr {
    let rest = text.split_once("http://").unwrap_or_else(|| panic!("no URL in {text}")).1;
    rest.split('/').next().unwrap().parse().unwrap()
}

/// A request on a connection of its own; the whole answer as text.
pub(super) fn get(address: SocketAddr, path: &str, fields: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{fields}Connection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

pub(super) fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("")
}

pub(super) fn errors(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "it should fail");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

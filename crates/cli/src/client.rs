//! A client for the admin interface: HTTP/1.0, one request a connection. The other end is a node
//! of ours, mostly on this machine.

use crate::nodes::{self, Node};
use crate::runtime;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use freshet_admin::Token;
use freshet_net::address::Address;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Where a node is asked that says nothing of itself, such as one of another user: the default of
/// `admin.listen`.
const ADMIN_DEFAULT: &str = "127.0.0.1:6080";
/// Time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time between two pieces of an answer: a purge of everything may take a while.
const READ_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest answer taken; a page of the log or the objects has about a MiB.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Flags that say which node is meant.
#[derive(Args, Clone, Debug)]
pub(crate) struct NodeArguments {
    /// Node to ask, where several run here.
    #[arg(long = "name", id = "node", value_name = "NAME", conflicts_with = "admin")]
    node: Option<String>,
    /// Admin address of the node, as 127.0.0.1:6080 or unix:/path; otherwise that of the node that
    /// runs here.
    #[arg(long, value_name = "ADDR")]
    admin: Option<Address>,
    /// File with its token; found by itself where the node runs as this user.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// What a node answered, when it did what it was asked.
pub(crate) struct Answer {
    head: String,
    /// The body.
    pub(crate) body: String,
}

/// The node that is meant.
struct Target {
    admin: Address,
    /// What it says of itself, where it runs here.
    node: Option<Node>,
}

impl NodeArguments {
    /// The node that is meant, in a word or two.
    ///
    /// # Errors
    /// When that is not clear.
    pub(crate) fn named(&self) -> Result<String> {
        let target = self.target()?;
        Ok(match target.node {
            Some(node) => format!("node {} (process {})", node.name(), node.pid),
            None => format!("the node at {}", target.admin),
        })
    }

    /// The node that is meant where it runs here, also one without an admin interface.
    ///
    /// # Errors
    /// When several run and none is named.
    pub(crate) fn here(&self) -> Result<Option<Node>> {
        if self.admin.is_some() {
            return Ok(None);
        }
        nodes::choose(nodes::running(), self.node.as_deref())
    }

    fn target(&self) -> Result<Target> {
        let mut running = nodes::running();
        if let Some(admin) = &self.admin {
            let node = running.into_iter().find(|node| node.admin().as_ref() == Some(admin));
            return Ok(Target { admin: admin.clone(), node });
        }
        if self.node.is_none() {
            running.retain(|node| node.admin().is_some());
        }
        let Some(node) = nodes::choose(running, self.node.as_deref())? else {
            let admin = ADMIN_DEFAULT.parse().context("the default address")?;
            return Ok(Target { admin, node: None });
        };
        let Some(admin) = node.admin() else {
            bail!("{} has no admin interface", node.describe());
        };
        Ok(Target { admin, node: Some(node) })
    }

    /// Asks for something.
    ///
    /// # Errors
    /// When no node answers, or it refuses: what it says, with its hint.
    pub(crate) fn get(&self, path: &str) -> Result<Answer> {
        self.request("GET", path, "")
    }

    /// Has something done.
    ///
    /// # Errors
    /// As [`NodeArguments::get`].
    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Answer> {
        self.request("POST", path, &body.to_string())
    }

    fn request(&self, method: &str, path: &str, body: &str) -> Result<Answer> {
        let target = self.target()?;
        let token = self.token(&target)?;
        let mut head = format!("{method} {path} HTTP/1.0\r\nHost: localhost\r\n");
        if let Some(token) = &token {
            let _ = write!(head, "Authorization: Bearer {}\r\n", token.secret());
        }
        let _ = write!(head, "Content-Length: {}\r\n\r\n", body.len());
        head.push_str(body);
        let answer =
            target.exchange(head.as_bytes()).map_err(|error| target.unreachable(&error))?;
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .ok_or_else(|| anyhow!("{}: what answers there is no node", target.admin))?;
        let status = head.split(' ').nth(1).and_then(|text| text.parse::<u16>().ok());
        if !status.is_some_and(|status| (200..300).contains(&status)) {
            return Err(target.refused(status, body, token.is_none()));
        }
        Ok(Answer { head: head.to_owned(), body: body.to_owned() })
    }

    /// The token, from the file that was named or the first that is there.
    fn token(&self, target: &Target) -> Result<Option<Token>> {
        if let Some(file) = &self.token_file {
            return Ok(Some(Token::read(file)?));
        }
        let found = target.token_files().into_iter().find(|file| file.exists());
        found.map(|file| Token::read(&file)).transpose().context("the token could not be used")
    }
}

impl Target {
    /// Places where its token may be, likeliest first.
    fn token_files(&self) -> Vec<PathBuf> {
        let said = self.node.as_ref().and_then(|node| node.token_file.clone());
        said.into_iter().chain(runtime::token_files(&self.admin)).collect()
    }

    fn exchange(&self, request: &[u8]) -> io::Result<String> {
        let mut text = Vec::new();
        match &self.admin {
            Address::Tcp(address) => {
                let mut stream = TcpStream::connect_timeout(&reachable(*address), CONNECT_TIMEOUT)?;
                stream.set_read_timeout(Some(READ_TIMEOUT))?;
                stream.write_all(request)?;
                stream.take(ANSWER_BYTES_MAX).read_to_end(&mut text)?;
            }
            Address::Unix(path) => {
                let mut stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(READ_TIMEOUT))?;
                stream.write_all(request)?;
                stream.take(ANSWER_BYTES_MAX).read_to_end(&mut text)?;
            }
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn unreachable(&self, error: &io::Error) -> anyhow::Error {
        anyhow!(
            "{}: no node answers there: {error}\n  start one with `freshet serve`, or say where \
             it is with --admin ADDR",
            self.admin
        )
    }

    fn refused(&self, status: Option<u16>, body: &str, had_no_token: bool) -> anyhow::Error {
        if status == Some(401) && had_no_token {
            let mut text =
                format!("{}: the node wants its token, which is in none of\n", self.admin);
            for file in self.token_files() {
                let _ = writeln!(text, "  {}", file.display());
            }
            text.push_str("  run this as the user of the node, or give --token-file FILE");
            return anyhow!(text);
        }
        let problem: Value = serde_json::from_str(body).unwrap_or_default();
        match (problem["detail"].as_str(), problem["help"].as_str()) {
            (Some(detail), Some(help)) => anyhow!("{detail}\n  {help}"),
            _ => anyhow!(
                "{}: answered {}\n  is that the admin interface of a node? --admin takes where it is",
                self.admin,
                status.unwrap_or(0)
            ),
        }
    }
}

impl Answer {
    /// The body as JSON.
    ///
    /// # Errors
    /// When it is none, as from a server that is no node.
    pub(crate) fn json(&self) -> Result<Value> {
        let value = serde_json::from_str(&self.body);
        value.context("the answer is not what a node of this version gives")
    }

    /// The body as JSON, a value a line.
    ///
    /// # Errors
    /// As [`Answer::json`].
    pub(crate) fn lines(&self) -> Result<Vec<Value>> {
        let lines = self.body.lines().map(serde_json::from_str).collect::<Result<_, _>>();
        lines.context("the answer is not what a node of this version gives")
    }

    /// A field of the head as a number.
    ///
    /// # Errors
    /// When it is not there.
    pub(crate) fn number(&self, name: &str) -> Result<u64> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        let value = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, v)| v);
        match value.filter_map(|text| text.trim().parse().ok()).next() {
            Some(number) => Ok(number),
            None => bail!("the answer has no {name}; the node may be of another version"),
        }
    }
}

/// An address one can connect to: a node that listens everywhere is reached over loopback.
fn reachable(address: SocketAddr) -> SocketAddr {
    if !address.ip().is_unspecified() {
        return address;
    }
    match address {
        SocketAddr::V4(_) => ([127, 0, 0, 1], address.port()).into(),
        SocketAddr::V6(_) => (Ipv6Addr::LOCALHOST, address.port()).into(),
    }
}

/// A value for a query, percent-encoded.
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_encoded_for_a_query() {
        assert_eq!(encode("http://a/?b=ü"), "http%3A%2F%2Fa%2F%3Fb%3D%C3%BC");
    }

    #[test]
    fn fields_of_an_answer_are_found_whatever_their_case() {
        let answer = Answer { head: "HTTP/1.1 200 OK\r\nLog-Next: 7".into(), body: "{}".into() };
        assert_eq!(answer.number("log-next").unwrap(), 7);
        assert!(answer.number("other").is_err());
    }
}

//! A plain HTTP/1 client that shows what came, byte for byte.

use crate::harness::TestNode;
use std::net::SocketAddr;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// The host all tests ask for.
pub(crate) const HOST: &str = "example.test";

/// A request's or response's head.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    pub(crate) line: String,
    pub(crate) fields: Vec<(String, String)>,
}

impl Head {
    /// Takes a head off the front of `input`, if a whole one is there.
    pub(crate) fn take(input: &mut Vec<u8>) -> Option<Self> {
        let end = input.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let text: Vec<u8> = input.drain(..end).collect();
        let text = String::from_utf8(text).expect("tests speak UTF-8");
        let mut lines = text.trim_end().split("\r\n");
        let line = lines.next().unwrap_or("").to_owned();
        let fields = lines.filter_map(|line| line.split_once(':'));
        let fields = fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
        Some(Self { line, fields: fields.collect() })
    }

    /// The status of a response's head.
    pub(crate) fn status(&self) -> u16 {
        self.line.split(' ').nth(1).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// The first field of this name.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The value of a number field.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.field(name)?.parse().ok()
    }
}

/// A response and what came of it.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
    /// Whether the body came to the end its framing promised.
    pub(crate) complete: bool,
    pub(crate) trailers: Vec<(String, String)>,
    /// Heads of interim responses before it.
    pub(crate) interim: Vec<Head>,
}

impl Answer {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.field(name)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// `Cache-Status`.
    pub(crate) fn cache(&self) -> &str {
        self.field("cache-status").unwrap_or("")
    }
}

trait Io: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Io for T {}

/// A connection.
pub(crate) struct Client {
    stream: Box<dyn Io>,
    input: Vec<u8>,
}

impl Client {
    pub(crate) async fn to(node: &TestNode) -> Self {
        Self::connect(node.address()).await
    }

    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap())
    }

    pub(crate) fn over(stream: impl AsyncRead + AsyncWrite + Unpin + 'static) -> Self {
        Self { stream: Box::new(stream), input: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Ends the sending side.
    pub(crate) async fn finish(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// Sends a request head; `fields` are whole lines without their ends.
    pub(crate) async fn ask(&mut self, method: &str, target: &str, fields: &[&str]) {
        let mut text = format!("{method} {target} HTTP/1.1\r\nHost: {HOST}\r\n");
        for field in fields {
            text.push_str(&format!("{field}\r\n"));
        }
        text.push_str("\r\n");
        self.send(text).await;
    }

    pub(crate) async fn get(&mut self, target: &str) -> Answer {
        self.get_with(target, &[]).await
    }

    pub(crate) async fn get_with(&mut self, target: &str, fields: &[&str]) -> Answer {
        self.ask("GET", target, fields).await;
        self.answer("GET").await
    }

    pub(crate) async fn request(&mut self, method: &str, target: &str, fields: &[&str]) -> Answer {
        self.ask(method, target, fields).await;
        self.answer(method).await
    }

    /// The next head, interim ones too; `None` when the connection ended first.
    pub(crate) async fn head(&mut self) -> Option<Head> {
        loop {
            if let Some(head) = Head::take(&mut self.input) {
                return Some(head);
            }
            if !self.fill().await {
                return None;
            }
        }
    }

    /// The next final response with its body.
    pub(crate) async fn answer(&mut self, method: &str) -> Answer {
        let mut interim = Vec::new();
        let head = loop {
            let head = self.head().await.expect("a response before the end");
            if head.status() >= 200 || head.status() == 101 {
                break head;
            }
            interim.push(head);
        };
        let mut answer = Answer {
            status: head.status(),
            head,
            body: Vec::new(),
            complete: true,
            trailers: Vec::new(),
            interim,
        };
        if method == "HEAD" || matches!(answer.status, 101 | 204 | 304) {
            return answer;
        }
        if answer.field("transfer-encoding").is_some() {
            self.chunks(&mut answer).await;
        } else if let Some(length) = answer.head.number("content-length") {
            let length = usize::try_from(length).unwrap();
            answer.body = self.some(length).await;
            answer.complete = answer.body.len() == length;
        } else {
            while self.fill().await {}
            answer.body = std::mem::take(&mut self.input);
        }
        answer
    }

    /// Exactly `count` bytes, or what came before the end.
    pub(crate) async fn some(&mut self, count: usize) -> Vec<u8> {
        while self.input.len() < count {
            if !self.fill().await {
                return std::mem::take(&mut self.input);
            }
        }
        self.input.drain(..count).collect()
    }

    /// Whether nothing more comes but the end of the connection.
    pub(crate) async fn ended(&mut self) -> bool {
        self.input.is_empty() && !self.fill().await
    }

    /// The next chunk of a chunked body; empty at its end, `None` when it breaks off.
    pub(crate) async fn chunk(&mut self) -> Option<Vec<u8>> {
        let line = self.line().await?;
        let length = usize::from_str_radix(&line, 16).expect("a chunk's size");
        if length == 0 {
            return Some(Vec::new());
        }
        let mut bytes = self.some(length + 2).await;
        if bytes.len() < length + 2 {
            return None;
        }
        bytes.truncate(length);
        Some(bytes)
    }

    async fn chunks(&mut self, answer: &mut Answer) {
        loop {
            match self.chunk().await {
                Some(bytes) if bytes.is_empty() => break,
                Some(bytes) => answer.body.extend_from_slice(&bytes),
                None => {
                    answer.complete = false;
                    return;
                }
            }
        }
        while let Some(line) = self.line().await.filter(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':').expect("a trailer field");
            answer.trailers.push((name.to_owned(), value.trim().to_owned()));
        }
    }

    async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.input.windows(2).position(|two| two == b"\r\n") {
                let line: Vec<u8> = self.input.drain(..end + 2).collect();
                return Some(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            if !self.fill().await {
                return None;
            }
        }
    }

    async fn fill(&mut self) -> bool {
        matches!(self.stream.read_buf(&mut self.input).await, Ok(count) if count > 0)
    }
}

/// One GET over a connection of its own.
pub(crate) async fn get(node: &TestNode, target: &str) -> Answer {
    get_with(node, target, &[]).await
}

/// One GET with these field lines over a connection of its own.
pub(crate) async fn get_with(node: &TestNode, target: &str, fields: &[&str]) -> Answer {
    Client::to(node).await.get_with(target, fields).await
}

/// One request without a body over a connection of its own.
pub(crate) async fn request(
    node: &TestNode,
    method: &str,
    target: &str,
    fields: &[&str],
) -> Answer {
    Client::to(node).await.request(method, target, fields).await
}

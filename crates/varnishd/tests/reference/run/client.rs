//! A client that keeps its connection as long as it may.

use super::message::{self, read};
use super::requests::Ask;
use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(3);

pub(super) struct Client {
    address: String,
    connection: Option<(TcpStream, Vec<u8>)>,
    /// How many connections it has had.
    pub(super) sessions: usize,
}

/// What came of a request.
pub(super) struct Said {
    /// As text, interim ones included.
    pub(super) messages: Vec<String>,
    pub(super) is_answered: bool,
}

impl Client {
    pub(super) fn new(address: &str) -> Self {
        Self { address: address.to_owned(), connection: None, sessions: 0 }
    }

    /// Sends a request and waits for what is said of it.
    pub(super) fn ask(&mut self, ask: &Ask) -> Said {
        let mut said = Said { messages: Vec::new(), is_answered: false };
        if self.connection.is_none() {
            // One that has panicked listens no more.
            let socket = TcpStream::connect(&self.address);
            self.connection = socket.ok().map(|socket| (socket, Vec::new()));
            self.sessions += 1;
        }
        let Some((socket, bytes)) = &mut self.connection else {
            said.messages.push("no answer: not listening".into());
            return said;
        };
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_nodelay(true).unwrap();
        let _ = socket.write_all(ask.text.as_bytes());
        let mut closes = true;
        while !said.is_answered {
            match read(socket, bytes, Some(&ask.method)) {
                Ok(message) => {
                    closes = message.field("connection").is_some_and(|value| value == "close")
                        || message.head.starts_with("HTTP/1.0")
                        || message.head.contains(" 500 Internal")
                        || message.end != "whole"
                        || is_piped(&message);
                    // Whether what was not read of a request is read to its end is the server's.
                    let message =
                        match ask.text.ends_with("\r\n\r\n") && !ask.text.contains("chunked") {
                            true => message,
                            false => message.without("connection"),
                        };
                    said.is_answered = !message.head.starts_with("HTTP/1.1 1");
                    said.messages.push(visible(message));
                }
                Err(error) => {
                    // How a connection ends that bytes of a request are still coming over is chance.
                    let why = match error.kind() {
                        ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => "closed",
                        _ => "none in time",
                    };
                    said.messages.push(format!("no answer: {why}"));
                    break;
                }
            }
        }
        if closes || ask.text.contains("HTTP/1.0") {
            self.connection = None;
        }
        said
    }
}

/// Whether it is, as far as can be seen, the origin's as it is: what follows on its connection is
/// no request of the server's, and is in no log.
fn is_piped(message: &message::Message) -> bool {
    !["x-varnish", "via"].iter().any(|name| message.field(name).is_some())
}

/// An answer as text; a packed body is unpacked.
fn visible(mut message: message::Message) -> String {
    let is_packed = message.head.to_ascii_lowercase().contains("content-encoding: gzip");
    if is_packed {
        // Where the last bytes of what was packed are depends on who has packed it.
        message = message.without("content-range");
    }
    let mut body = message.body;
    if is_packed {
        let mut unpacked = Vec::new();
        let mut decoder = flate2::read::GzDecoder::new(&*body);
        if std::io::Read::read_to_end(&mut decoder, &mut unpacked).is_ok() {
            unpacked.extend_from_slice(b" (unpacked)");
            body = unpacked;
        } else if message.head.starts_with("HTTP/1.1 206") {
            // Nor is what is in a part of it the same.
            body.clear();
        }
    }
    if message.end != "whole" {
        // How much of it has come by then is chance.
        body.clear();
    }
    let body: String = body.into_iter().map(char::from).collect();
    format!("{}{body}\n({})\n", message.head, message.end)
}

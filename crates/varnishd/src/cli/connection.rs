//! One connection of the command line interface, from its first line to its end.

use super::words::{self, WordError};
use super::{Reply, Status};
use aws_lc_rs::digest::{SHA256, digest};
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;

/// Bytes of one line, and of a text that follows one. A VCL file is far below.
const LINE_BYTES_MAX: usize = 16 << 20;
/// Bytes of the file with the secret, of which there are a few dozen.
const SECRET_BYTES_MAX: u64 = 1 << 16;
/// Letters of a challenge.
const CHALLENGE_LEN: usize = 32;
/// The longest answer before somebody has proved who they are.
const GREETING_BYTES_MAX: usize = 1 << 16;

/// Who carries commands out.
pub(crate) trait Commands {
    /// Carries out a command of at least one word.
    fn command(&self, words: Vec<String>) -> Reply;
    /// What a new connection is told.
    fn banner(&self) -> String;
    /// Longest answer.
    fn reply_bytes_max(&self) -> usize;
}

/// Serves a connection until it ends. With a `secret`, nothing but authentication, help and the
/// like is answered until the other end has proved that it knows it.
pub(crate) fn serve(
    from: impl Read,
    to: impl Write,
    commands: &dyn Commands,
    secret: Option<PathBuf>,
) -> io::Result<()> {
    let mut connection = Connection { lines: BufReader::new(from), to, commands };
    match secret {
        None => connection.greet()?,
        Some(secret) => {
            if !connection.authenticate(&secret)? {
                return Ok(());
            }
        }
    }
    while let Some(line) = connection.line()? {
        let words = match words::split(&line) {
            Ok(words) => words,
            Err(error) => {
                connection.reply(&syntax_error(error))?;
                continue;
            }
        };
        let words = match connection.with_text(words)? {
            // Lines without anything are passed over before, but not a `-` without a command.
            Some(words) if words.is_empty() => {
                let text = "Empty CLI command?\n";
                connection.reply(&Reply::error(Status::Syntax, text))?;
                continue;
            }
            Some(words) => words,
            None => return Ok(()),
        };
        let reply = match words.first().map(String::as_str) {
            Some("quit") => {
                let close = Reply::error(Status::Close, "Closing CLI connection");
                return connection.reply(&close);
            }
            Some("auth") => Reply::ok(),
            _ => commands.command(words),
        };
        connection.reply(&reply)?;
    }
    Ok(())
}

/// The answer to a line that cannot be split.
pub(crate) fn syntax_error(error: WordError) -> Reply {
    let text = format!("Unknown request.\nType 'help' for more info.\nSyntax Error: {error}");
    Reply::error(Status::Syntax, text)
}

struct Connection<'a, R, W> {
    lines: BufReader<R>,
    to: W,
    commands: &'a dyn Commands,
}

impl<R: Read, W: Write> Connection<'_, R, W> {
    fn greet(&mut self) -> io::Result<()> {
        let banner = Reply::text(self.commands.banner());
        self.reply(&banner)
    }

    /// A challenge, and the proof; false ends the connection.
    fn authenticate(&mut self, secret: &std::path::Path) -> io::Result<bool> {
        let challenge = challenge()?;
        let ask = format!("{challenge}\n\nAuthentication required.\n");
        self.send(&Reply::error(Status::Authentication, &ask).encode(GREETING_BYTES_MAX))?;
        while let Some(line) = self.line()? {
            let words = words::split(&line).unwrap_or_default();
            match words.first().map(String::as_str) {
                None => {}
                Some("auth") => {
                    let key = freshet_base::file::read(secret, SECRET_BYTES_MAX);
                    let expected = key.map(|key| proof(&challenge, &key));
                    let given = words.get(1).map(|word| word.to_ascii_lowercase());
                    if matches!((expected, given), (Ok(expected), Some(given)) if same(&expected, &given))
                    {
                        self.greet()?;
                        return Ok(true);
                    }
                    let close = Reply::error(Status::Close, "Closing CLI connection");
                    self.send(&close.encode(GREETING_BYTES_MAX))?;
                    return Ok(false);
                }
                Some("quit") => return Ok(false),
                Some(_) => {
                    let again = Reply::error(Status::Authentication, &ask);
                    self.send(&again.encode(GREETING_BYTES_MAX))?;
                }
            }
        }
        Ok(false)
    }

    /// The words with the text that follows the line in place of `<< word`, up to a line that is
    /// that word. `None` where the connection ends first.
    fn with_text(&mut self, mut words: Vec<String>) -> io::Result<Option<Vec<String>>> {
        let is_here = words.len() > 2 && words.get(words.len() - 2).is_some_and(|w| w == "<<");
        if !is_here {
            return Ok(Some(words));
        }
        let end = words.pop().unwrap_or_default();
        words.pop();
        let mut text = String::new();
        loop {
            let Some(line) = self.raw_line()? else { return Ok(None) };
            if line == end {
                words.push(text);
                return Ok(Some(words));
            }
            if text.len() + line.len() > LINE_BYTES_MAX {
                return Ok(None);
            }
            text.push_str(&line);
            text.push('\n');
        }
    }

    /// The next line that is not empty, without its end.
    fn line(&mut self) -> io::Result<Option<String>> {
        loop {
            match self.raw_line()? {
                Some(line) if line.trim().is_empty() => {}
                // A `-` before a command says that a script goes on if it fails.
                Some(line) => {
                    let line = line.trim_start();
                    return Ok(Some(line.strip_prefix('-').unwrap_or(line).to_owned()));
                }
                None => return Ok(None),
            }
        }
    }

    fn raw_line(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        let most = LINE_BYTES_MAX as u64;
        let count = self.lines.by_ref().take(most).read_until(b'\n', &mut line)?;
        if count == 0 || count as u64 == most {
            return Ok(None);
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(Some(String::from_utf8_lossy(&line).into_owned()))
    }

    fn reply(&mut self, reply: &Reply) -> io::Result<()> {
        let bytes_max = self.commands.reply_bytes_max();
        self.send(&reply.encode(bytes_max))
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to.write_all(bytes)?;
        self.to.flush()
    }
}

/// Whether two proofs are the same; how long it takes does not tell where they differ.
fn same(a: &str, b: &str) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(a.as_bytes(), b.as_bytes()).is_ok()
}

/// Random letters.
fn challenge() -> io::Result<String> {
    let mut bytes = [0; CHALLENGE_LEN];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| io::Error::other("no random numbers"))?;
    Ok(bytes.iter().map(|byte| char::from(b'a' + byte % 26)).collect())
}

/// What proves that somebody knows the secret: the SHA-256 of challenge, line end, secret,
/// challenge, line end, as hexadecimal digits.
pub(crate) fn proof(challenge: &str, secret: &[u8]) -> String {
    let mut text = Vec::new();
    text.extend_from_slice(challenge.as_bytes());
    text.push(b'\n');
    text.extend_from_slice(secret);
    text.extend_from_slice(challenge.as_bytes());
    text.push(b'\n');
    let mut out = String::new();
    for byte in digest(&SHA256, &text).as_ref() {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Echo;

    impl Commands for Echo {
        fn command(&self, words: Vec<String>) -> Reply {
            Reply::text(words.join("|"))
        }

        fn banner(&self) -> String {
            "hello\n".into()
        }

        fn reply_bytes_max(&self) -> usize {
            1000
        }
    }

    fn talk(lines: &str, secret: Option<PathBuf>) -> String {
        let mut out = Vec::new();
        serve(lines.as_bytes(), &mut out, &Echo, secret).expect("memory does not fail");
        String::from_utf8(out).expect("it is text")
    }

    #[test]
    fn lines_are_answered_and_texts_follow_lines() {
        let out = talk("\n  a b\nvcl.inline x << END\none\n two\nEND\nc \"\nquit\nmore\n", None);
        assert_eq!(
            out,
            "200 6       \nhello\n\n\
             200 3       \na|b\n\
             200 22      \nvcl.inline|x|one\n two\n\n\
             100 69      \nUnknown request.\nType 'help' for more info.\nSyntax Error: Missing '\"'\n\
             500 22      \nClosing CLI connection\n"
        );
    }

    #[test]
    fn a_secret_has_to_be_proved() {
        let home = tempfile::tempdir().expect("there is room");
        let secret = home.path().join("secret");
        std::fs::write(&secret, "s3\n").expect("it can be written");
        let out = talk("ping\nauth 00\nping\n", Some(secret));
        assert!(out.starts_with("107 59      \n"), "{out}");
        assert!(out.ends_with("500 22      \nClosing CLI connection\n"), "{out}");
        assert!(!out.contains("ping"), "{out}");
        // The example of the documentation of varnish-cli(7).
        assert_eq!(
            proof("ixslvvxrgkjptxmcgnnsdxsvdmvfympg", b"foo\n"),
            "455ce847f0073c7ab3b1465f74507b75d3dc064c1e7de3b71e00de9092fdc89a"
        );
    }
}

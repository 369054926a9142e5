//! Source texts and places in them.

use std::net::SocketAddr;

/// Bytes of all files of one policy together; more is refused. A hundred times the largest policy
/// seen in the field.
pub const SOURCE_BYTES_MAX: usize = 16 << 20;

/// A file of VCL.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Source {
    /// Its path, or a made-up name such as `<vcl.inline>`.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// A place in one of the sources of a policy: bytes `start..end` of file `file`.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Span {
    /// Index of the file in its [`SourceMap`].
    pub file: u16,
    /// First byte.
    pub start: u32,
    /// Byte behind the last.
    pub end: u32,
}

impl Span {
    /// From the start of this to the end of `other`, where both are in one file.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        if self.file == other.file && other.end >= self.start {
            Self { end: other.end, ..self }
        } else {
            self
        }
    }
}

/// What the compiler asks of the world around it. It does no I/O itself.
pub trait Sources {
    /// The files that `include "name";` in file `from` stands for: one, or with `glob` any number.
    ///
    /// # Errors
    /// Why they cannot be had, for a person.
    fn include(&self, name: &str, from: &str, glob: bool) -> Result<Vec<Source>, String>;

    /// The addresses of a host.
    ///
    /// # Errors
    /// Why it has none, for a person.
    fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, String>;

    /// The port of a service over TCP by its name; those of HTTP are known everywhere.
    fn service(&self, name: &str) -> Option<u16> {
        match name {
            "http" => Some(80),
            "https" => Some(443),
            _ => None,
        }
    }
}

/// A world without files, where hosts are addresses: for policies that are one text.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Sources for NoFiles {
    fn include(&self, name: &str, _: &str, _: bool) -> Result<Vec<Source>, String> {
        Err(format!("Cannot read file '{name}': there are no files here"))
    }

    fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
        match (host, host.parse()) {
            (_, Ok(ip)) => Ok(vec![SocketAddr::new(ip, port)]),
            ("localhost", _) => Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))]),
            _ => Err("names are not looked up here".into()),
        }
    }
}

/// The files a policy is made of.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    files: Vec<Source>,
    /// Where each is included; `None` for what nobody includes.
    included_at: Vec<Option<Span>>,
    /// Of all their texts.
    bytes: usize,
}

impl SourceMap {
    /// Adds a file that is included at a place, if it is; `None` where there are too many.
    pub fn add(&mut self, source: Source, included_at: Option<Span>) -> Option<u16> {
        let bytes = self.bytes.saturating_add(source.text.len());
        if bytes > SOURCE_BYTES_MAX {
            return None;
        }
        let index = u16::try_from(self.files.len()).ok()?;
        self.bytes = bytes;
        self.files.push(source);
        self.included_at.push(included_at);
        Some(index)
    }

    /// What places are sorted by to be in the order in which a policy is read, with each file where it
    /// is included: from the outermost file on, the byte, and the file that is included there.
    pub fn order(&self, span: Span) -> Vec<(u32, u16)> {
        let mut order = vec![(span.start, 0)];
        let mut file = span.file;
        // Only files that were there before include one.
        while let Some(Some(at)) = self.included_at.get(usize::from(file)) {
            order.push((at.start, file));
            file = at.file;
        }
        order.push((0, file));
        order.reverse();
        order
    }

    /// All files.
    pub fn files(&self) -> &[Source] {
        &self.files
    }

    /// The file a span is in.
    pub fn file(&self, span: Span) -> Option<&Source> {
        self.files.get(usize::from(span.file))
    }

    /// The text of a span; empty where there is none.
    pub fn text(&self, span: Span) -> &str {
        self.file(span)
            .and_then(|file| file.text.get(span.start as usize..span.end as usize))
            .unwrap_or("")
    }

    /// File name, line and column (both from 1; columns count characters) of a span's start.
    pub fn place(&self, span: Span) -> (&str, usize, usize) {
        let Some(file) = self.file(span) else { return ("", 0, 0) };
        let before = file.text.get(..span.start as usize).unwrap_or(&file.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.matches('\n').count() + 1;
        (&file.name, line, before[line_start..].chars().count() + 1)
    }

    /// The whole line a span begins in, and the span's bytes within it.
    pub fn line(&self, span: Span) -> Option<(&str, std::ops::Range<usize>)> {
        let text = &self.file(span)?.text;
        let start = (span.start as usize).min(text.len());
        let line_start = text.get(..start)?.rfind('\n').map_or(0, |at| at + 1);
        let line_end = text.get(start..)?.find('\n').map_or(text.len(), |at| start + at);
        let end = (span.end as usize).clamp(start, line_end);
        Some((text.get(line_start..line_end)?, start - line_start..end - line_start))
    }
}

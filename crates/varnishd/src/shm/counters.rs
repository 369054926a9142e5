//! Counters in shared memory: a document that describes them as JSON, and arrays of 64-bit values
//! that readers look at whenever they like.

use super::{Directory, Segment};
use serde_json::json;
use std::io;

/// Both kinds of segment begin with `ready`, padding, offset of the body and the document's number.
const HEAD_BYTES: u64 = 24;
const READY: u32 = 1;

/// How a value behaves.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// 64 yes-or-no values.
    Bitmap,
}

/// How a value is shown.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Format {
    /// As a number.
    Integer,
    /// As an amount of bytes.
    Bytes,
    /// As a bit pattern.
    Bitmap,
    /// As seconds.
    Duration,
}

/// For whom a counter is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Level {
    /// Operators.
    Info,
    /// Those who look for a fault.
    Diagnostic,
    /// Developers.
    Debug,
}

/// One counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) level: Level,
    pub(crate) format: Format,
    pub(crate) about: &'static str,
}

/// A set of counters that groups share.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Place among the documents when they are shown.
    pub(crate) order: u32,
    pub(crate) elements: &'static [Element],
}

/// The values of one group, as they are in shared memory.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) segment: Segment,
    document: &'static Document,
    bytes: Vec<u8>,
}

impl Document {
    /// Announces the document; this has to come before the groups that use it.
    pub(crate) fn announce(&self, directory: &Directory) -> io::Result<Segment> {
        let mut content = self.head();
        content.extend_from_slice(self.json().as_bytes());
        content.push(0);
        directory.add("StatDoc", &format!("{:x}", self.number()), &content, 0)
    }

    /// A number of its own among all documents.
    fn number(&self) -> u64 {
        self.name.bytes().fold(0x1000, |number, byte| number << 5 ^ number >> 59 ^ u64::from(byte))
    }

    fn head(&self) -> Vec<u8> {
        let mut head = Vec::new();
        head.extend_from_slice(&READY.to_ne_bytes());
        head.extend_from_slice(&[0; 4]);
        head.extend_from_slice(&HEAD_BYTES.to_ne_bytes());
        head.extend_from_slice(&self.number().to_ne_bytes());
        head
    }

    fn json(&self) -> String {
        let elements: serde_json::Map<_, _> = self
            .elements
            .iter()
            .enumerate()
            .map(|(index, element)| (element.name.to_owned(), element.json(index)))
            .collect();
        json!({
            "version": "1",
            "name": self.name,
            "oneliner": self.about,
            "order": self.order,
            "docs": "",
            "elements": self.elements.len(),
            "elem": elements,
        })
        .to_string()
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.elements.iter().position(|element| element.name == name)
    }
}

impl Element {
    fn json(&self, index: usize) -> serde_json::Value {
        json!({
            "type": match self.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Bitmap => "bitmap",
            },
            "ctype": "uint64_t",
            "level": match self.level {
                Level::Info => "info",
                Level::Diagnostic => "diag",
                Level::Debug => "debug",
            },
            "oneliner": self.about,
            "format": match self.format {
                Format::Integer => "integer",
                Format::Bytes => "bytes",
                Format::Bitmap => "bitmap",
                Format::Duration => "duration",
            },
            "index": 8 * index,
            "name": self.name,
            "docs": "",
        })
    }
}

impl Group {
    /// Makes a group named `ident`, all zero.
    pub(crate) fn create(
        directory: &Directory,
        document: &'static Document,
        ident: &str,
    ) -> io::Result<Self> {
        let bytes = vec![0; 8 * document.elements.len()];
        let mut content = document.head();
        content.extend_from_slice(&bytes);
        let segment = directory.add("Stat", ident, &content, 0)?;
        Ok(Self { segment, document, bytes })
    }

    /// Sets a value; it shows after [`Group::publish`]. A name the document does not have is a
    /// mistake of ours.
    pub(crate) fn set(&mut self, name: &str, value: u64) {
        let position = self.document.position(name);
        debug_assert!(position.is_some(), "{name} is not in {}", self.document.name);
        if let Some(slot) = position.and_then(|at| self.bytes.get_mut(8 * at..8 * at + 8)) {
            slot.copy_from_slice(&value.to_ne_bytes());
        }
    }

    /// Shows all values set.
    pub(crate) fn publish(&self) -> io::Result<()> {
        self.segment.write(&self.bytes, HEAD_BYTES)
    }
}

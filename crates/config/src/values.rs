//! Values of several kinds of keys: what a text has to be besides a text.

use super::document::{Document, Row, Value};
use super::mistake::{Mistake, Place};
use freshet_base::units;
use freshet_net::address::Address;
use freshet_net::trust::Network;

/// What keys are looked up in: a document, or a row of one.
pub(super) trait Lookup {
    /// The value of a key, or its default.
    fn value(&self, path: &str) -> Value;
    /// Where it is.
    fn at(&self, path: &str) -> Place;
}

impl Lookup for Document {
    fn value(&self, path: &str) -> Value {
        Self::value(self, path)
    }

    fn at(&self, path: &str) -> Place {
        Self::at(self, path)
    }
}

impl Lookup for Row<'_> {
    fn value(&self, path: &str) -> Value {
        Self::value(self, path)
    }

    fn at(&self, path: &str) -> Place {
        Self::at(self, path)
    }
}

/// A key as messages call it: `listen.address` for `listen[].address`.
fn shown(path: &str) -> String {
    path.replace("[]", "")
}

pub(super) fn parse_address(
    from: &impl Lookup,
    path: &str,
    wrong: &mut Vec<Mistake>,
) -> Option<Address> {
    let parsed = from.value(path).text().parse();
    let refuse = |error| Mistake::error(from.at(path), format!("{}: {error}", shown(path)));
    parsed.map_err(|error: freshet_net::NetError| wrong.push(refuse(error))).ok()
}

pub(super) fn networks(from: &impl Lookup, path: &str, wrong: &mut Vec<Mistake>) -> Vec<Network> {
    let mut out = Vec::new();
    for text in from.value(path).list() {
        match text.parse() {
            Ok(network) => out.push(network),
            Err(error) => {
                let error: freshet_net::NetError = error;
                wrong.push(Mistake::error(from.at(path), format!("{}: {error}", shown(path))));
            }
        }
    }
    out
}

/// A name goes into fields as a token (RFC 9211 §2, RFC 8586 §2), so it must be one.
pub(super) fn name(from: &impl Lookup, path: &str, wrong: &mut Vec<Mistake>) -> String {
    let text = from.value(path).text();
    let token = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    if text.is_empty() || !text.as_bytes()[0].is_ascii_alphabetic() || !text.bytes().all(token) {
        let message = format!("{path} takes letters, digits, `-`, `.` and `_`, not `{text}`");
        wrong.push(Mistake::error(from.at(path), message));
    }
    text
}

pub(super) fn memory(document: &Document, wrong: &mut Vec<Mistake>) -> u64 {
    let text = document.value("memory").text();
    if text == "auto" {
        return machine_memory_bytes() / 4;
    }
    let bytes = size(document, "memory", wrong);
    if wrong.is_empty() && bytes < MEMORY_BYTES_MIN {
        let message = format!("memory is at least 16MiB, not `{text}`");
        wrong.push(Mistake::error(document.at("memory"), message));
    }
    bytes
}

/// Below this the arena has too few frames to hold anything useful.
pub(crate) const MEMORY_BYTES_MIN: u64 = 16 << 20;

/// The bytes that a key of text gives, where that is a size.
pub(super) fn size(from: &impl Lookup, path: &str, wrong: &mut Vec<Mistake>) -> u64 {
    units::parse_bytes(&from.value(path).text()).unwrap_or_else(|error| {
        wrong.push(Mistake::error(from.at(path), format!("{}: {error}", shown(path))));
        0
    })
}

/// Memory this process may use: the machine's, or the cgroup's limit where that is less.
pub fn machine_memory_bytes() -> u64 {
    let machine = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line =
                text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.trim().to_owned();
            line.trim_end_matches(" kB").trim().parse::<u64>().ok()
        })
        .map_or(4 << 30, |kib| kib << 10);
    let cgroup = std::fs::read_to_string("/sys/fs/cgroup/memory.max")
        .ok()
        .and_then(|text| text.trim().parse::<u64>().ok());
    machine.min(cgroup.unwrap_or(u64::MAX))
}

pub(super) fn optional(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

pub(super) fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

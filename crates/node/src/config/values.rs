//! Values of several kinds of keys: what a text has to be besides a text.

use super::document::Value;
use freshet_base::units;
use freshet_net::address::Address;
use freshet_net::trust::Network;

pub(super) fn parse_address(key: &str, text: &str, wrong: &mut Vec<String>) -> Option<Address> {
    text.parse().map_err(|error| wrong.push(format!("{key}: {error}"))).ok()
}

pub(super) fn networks(path: &str, value: Value, wrong: &mut Vec<String>) -> Vec<Network> {
    let mut out = Vec::new();
    for text in value.list() {
        match text.parse() {
            Ok(network) => out.push(network),
            Err(error) => wrong.push(format!("{path}: {error}")),
        }
    }
    out
}

/// A name goes into fields as a token (RFC 9211 §2, RFC 8586 §2), so it must be one.
pub(super) fn name(key: &str, text: String, wrong: &mut Vec<String>) -> String {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    if text.is_empty() || !text.as_bytes()[0].is_ascii_alphabetic() || !text.bytes().all(token) {
        wrong.push(format!("{key} takes letters, digits, `-`, `.` and `_`, not `{text}`"));
    }
    text
}

pub(super) fn memory(text: &str, wrong: &mut Vec<String>) -> u64 {
    if text == "auto" {
        return machine_memory_bytes() / 4;
    }
    let bytes = size_of_text("memory", text, wrong);
    if wrong.is_empty() && bytes < MEMORY_BYTES_MIN {
        wrong.push(format!("memory is at least 16MiB, not `{text}`"));
    }
    bytes
}

/// Below this the arena has too few frames to hold anything useful.
const MEMORY_BYTES_MIN: u64 = 16 << 20;

pub(super) fn size_of_text(key: &str, text: &str, wrong: &mut Vec<String>) -> u64 {
    units::parse_bytes(text).unwrap_or_else(|error| {
        wrong.push(format!("{key}: {error}"));
        0
    })
}

/// Memory this process may use: the machine's, or the cgroup's limit where that is less.
fn machine_memory_bytes() -> u64 {
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

//! Values of several kinds of keys: what a text has to be besides a text.

use super::document::{Document, Row, Value};
use super::mistake::{Mistake, Place};
use freshet_base::units;
use freshet_http::target;
use freshet_net::address::Address;
use freshet_net::trust::Network;
use std::borrow::Cow;
use std::path::Path;

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

/// The beginning of a path that a key gives, as clients send it.
pub(super) fn beginning(
    from: &impl Lookup,
    path: &str,
    example: &str,
    wrong: &mut Vec<Mistake>,
) -> Option<String> {
    as_beginning(&shown(path), &from.value(path).text(), example)
        .map_err(|message| wrong.push(Mistake::error(from.at(path), message)))
        .ok()
}

/// A text as the beginning of paths that clients send: what stands in no target is encoded as they do it.
///
/// # Errors
/// Why it is none.
pub(super) fn as_beginning(key: &str, text: &str, example: &str) -> Result<String, String> {
    if !text.starts_with('/') {
        return Err(format!("{key} begins with `/`, as `{example}`, not `{text}`"));
    }
    // Taken for itself it would be for no path, and a rule that protects would protect nothing.
    if text.contains('*') {
        return Err(format!("{key} is what a path begins with: leave out `*` of `{text}`"));
    }
    if text.contains(['?', '#']) {
        return Err(format!(
            "{key} is what a path begins with, and no query: leave that out of `{text}`"
        ));
    }
    if let Some(dots) = text.split('/').find(|segment| matches!(*segment, "." | "..")) {
        return Err(format!(
            "{key} is what a path begins with that is read already: no path has `{dots}` as `{text}`"
        ));
    }
    let sent = target::encoded(text.as_bytes()).map(Cow::into_owned);
    sent.ok_or_else(|| format!("{key} has a control character, which is in no path"))
}

/// Memory this process may use: the machine's, or what a cgroup that it is in may have where that is less.
pub fn machine_memory_bytes() -> u64 {
    let machine = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line =
                text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.trim().to_owned();
            line.trim_end_matches(" kB").trim().parse::<u64>().ok()
        })
        .map_or(4 << 30, |kib| kib << 10);
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    machine.min(cgroup_memory_bytes(Path::new("/sys/fs/cgroup"), &own).unwrap_or(u64::MAX))
}

/// What cgroups of a process may have, by its `/proc/self/cgroup`: those of the unified hierarchy, or those of the memory
/// controller. All above it count (Linux, cgroup-v2 "Top-down Constraint").
fn cgroup_memory_bytes(root: &Path, own: &str) -> Option<u64> {
    let limits = own.lines().flat_map(|line| {
        let (folder, file, path) = match line.splitn(3, ':').collect::<Vec<_>>()[..] {
            [_, "", path] => (root.to_owned(), "memory.max", path),
            [_, controllers, path] if controllers.split(',').any(|one| one == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes", path)
            }
            _ => return Vec::new(),
        };
        // Within a namespace of its own a process sees its cgroup as the root.
        let own = folder.join(path.trim_start_matches('/'));
        let all = own.ancestors().take_while(|one| one.starts_with(&folder));
        all.filter_map(|one| std::fs::read_to_string(one.join(file)).ok()?.trim().parse().ok())
            .collect()
    });
    limits.min()
}

pub(super) fn optional(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

pub(super) fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn memory_is_what_each_cgroup_on_the_way_leaves() {
        let root = tempfile::tempdir().expect("there is room");
        let write = |path: &str, text: &str| {
            let file = root.path().join(path);
            fs::create_dir_all(file.parent().expect("it has one")).expect("there is room");
            fs::write(file, text).expect("there is room");
        };
        let of = |own: &str| cgroup_memory_bytes(root.path(), own);
        assert_eq!(of("0::/system.slice/freshet.service\n"), None);
        write("system.slice/freshet.service/memory.max", "max\n");
        write("system.slice/memory.max", "300\n");
        assert_eq!(of("0::/system.slice/freshet.service\n"), Some(300));
        write("system.slice/freshet.service/memory.max", "200\n");
        assert_eq!(of("0::/system.slice/freshet.service\n"), Some(200));
        // In a container its own is the root.
        write("memory.max", "400\n");
        assert_eq!(of("0::/\n"), Some(400));
        write("memory/jobs/memory.limit_in_bytes", "100\n");
        assert_eq!(of("3:cpu:/\n2:memory,hugetlb:/jobs\n0::/\n"), Some(100));
    }

    #[test]
    fn a_beginning_of_paths_is_as_clients_send_it() {
        let of = |text: &str| as_beginning("access.path", text, "/admin/");
        for (text, sent) in [
            ("/", "/"),
            ("/admin/", "/admin/"),
            ("/über uns/", "/%C3%BCber%20uns/"),
            ("/%C3%BCber/", "/%C3%BCber/"),
        ] {
            assert_eq!(of(text).as_deref(), Ok(sent));
        }
        for (text, says) in [
            ("admin", "begins with `/`"),
            ("/admin/*", "leave out `*`"),
            ("/a?b", "no query"),
            ("/a/../b", "`..`"),
            ("/a\nb", "control character"),
        ] {
            assert!(of(text).is_err_and(|why| why.contains(says)), "{text}");
        }
    }
}

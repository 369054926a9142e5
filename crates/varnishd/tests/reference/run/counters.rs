//! Counters of a `varnishd`, read where it writes them: a program that shows them would have to start
//! each time.

use std::collections::BTreeMap;
use std::path::Path;

/// Where both kinds of segment say how far their body is from their start.
const BODY_OFFSET_AT: usize = 8;

/// The values of `MAIN`, by name; none while the child is not there.
pub(super) fn main_counters(name: &Path) -> BTreeMap<String, i64> {
    read(&name.join("_.vsm_child")).unwrap_or_default()
}

fn read(directory: &Path) -> Option<BTreeMap<String, i64>> {
    let index = std::fs::read_to_string(directory.join("_.index")).ok()?;
    let values = bodies(directory, &index, "Stat", "MAIN").next()?;
    let document = bodies(directory, &index, "StatDoc", "")
        .filter_map(|body| {
            let end = body.iter().position(|byte| *byte == 0)?;
            serde_json::from_slice::<serde_json::Value>(&body[..end]).ok()
        })
        .find(|document| document["name"] == "main")?;
    let elements = document["elem"].as_object()?;
    let value = |(name, element): (&String, &serde_json::Value)| {
        let at = element["index"].as_u64()? as usize;
        let bytes = values.get(at..at + 8)?.try_into().ok()?;
        Some((name.clone(), i64::from_ne_bytes(bytes)))
    };
    Some(elements.iter().filter_map(value).collect())
}

/// What is in the segments of a class that are of `ident`, or of any where that is empty. A line of
/// the index is `+ file offset length class ident`.
fn bodies<'a>(
    directory: &'a Path,
    index: &'a str,
    class: &'a str,
    ident: &'a str,
) -> impl Iterator<Item = Vec<u8>> + 'a {
    index.lines().filter_map(move |line| {
        let words: Vec<&str> = line.split(' ').collect();
        let ["+", file, offset, length, of, which] = *words else { return None };
        if of != class || !(ident.is_empty() || which == ident) {
            return None;
        }
        let bytes = std::fs::read(directory.join(file)).ok()?;
        let (offset, length): (usize, usize) = (offset.parse().ok()?, length.parse().ok()?);
        let segment = bytes.get(offset..)?;
        let segment = &segment[..length.min(segment.len())];
        let body = segment.get(BODY_OFFSET_AT..BODY_OFFSET_AT + 8)?.try_into().ok()?;
        segment.get(u64::from_ne_bytes(body) as usize..).map(<[u8]>::to_vec)
    })
}

//! Groups of stored responses (RFC 9875): what an origin says belong together, and makes invalid together.

use crate::fields::Fields;
use crate::structured::{BareItem, Item, List, Member};

/// The field that names the groups a response makes invalid.
pub const INVALIDATION: &str = "Cache-Group-Invalidation";

/// Groups of a field that are heeded; RFC 9875 §2 asks for 32 at least.
pub const GROUPS_MAX: usize = 64;

/// Longest name of a group that is heeded, in bytes; RFC 9875 §2 asks for 32 at least.
const NAME_BYTES_MAX: usize = 128;

/// The groups that a response is of, by its `Cache-Groups` (RFC 9875 §2); [`GROUPS_MAX`] at most.
pub fn of(response: &Fields) -> Vec<String> {
    names(response, "Cache-Groups")
}

/// The groups that a response makes invalid, by its `Cache-Group-Invalidation` (RFC 9875 §3), if its request was not
/// safe; [`GROUPS_MAX`] at most.
pub fn invalidated(response: &Fields) -> Vec<String> {
    names(response, INVALIDATION)
}

/// The value of a field with these groups, which are as they were read.
pub fn value(groups: Vec<String>) -> String {
    let member = |group| Member::Item(Item::new(BareItem::String(group)));
    List(groups.into_iter().map(member).collect()).serialize().unwrap_or_default()
}

/// The text of the tag that all of a group have: groups are of one origin each (RFC 9875 §2.1). No other tag begins so.
pub fn tag(authority: &str, group: &str) -> Vec<u8> {
    [b"\0group\0", authority.as_bytes(), b"\0", group.as_bytes()].concat()
}

/// The strings of a list. A field that is none says nothing, and members that are no strings neither (RFC 9651 §4.2).
fn names(response: &Fields, field: &str) -> Vec<String> {
    let Ok(List(members)) = List::from_fields(response, field) else { return Vec::new() };
    let name = |member| match member {
        Member::Item(Item { value: BareItem::String(name), .. }) => Some(name),
        _ => None,
    };
    let names = members.into_iter().filter_map(name);
    names.filter(|name| name.len() <= NAME_BYTES_MAX).take(GROUPS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[(&str, &str)]) -> Vec<String> {
        of(&lines.iter().copied().collect())
    }

    #[test]
    fn groups_are_the_strings_of_all_lines() {
        let lines = [("Cache-Groups", r#""a", "b c";x=1"#), ("cache-groups", r#""A""#)];
        assert_eq!(read(&lines), ["a", "b c", "A"]);
        assert_eq!(value(read(&lines)), r#""a", "b c", "A""#);
        assert_eq!(read(&[("Cache-Groups", r#""a", token, 1, ("b")"#)]), ["a"]);
        assert!(read(&[]).is_empty());
        assert!(read(&[("Cache-Groups", r#""a", "b"#)]).is_empty());
        assert!(invalidated(&[("Cache-Groups", r#""a""#)].into_iter().collect()).is_empty());
    }

    #[test]
    fn names_and_their_number_are_bounded() {
        let many: Vec<_> = (0..100).map(|number| format!("\"{number}\"")).collect();
        assert_eq!(read(&[("Cache-Groups", &many.join(", "))]).len(), GROUPS_MAX);
        let long = format!("\"{}\", \"{}\"", "x".repeat(129), "y".repeat(128));
        assert_eq!(read(&[("Cache-Groups", &long)]), ["y".repeat(128)]);
    }

    #[test]
    fn a_group_is_of_one_origin() {
        assert_ne!(tag("a", "b"), tag("b", "a"));
        assert_ne!(tag("a.example", "g"), tag("b.example", "g"));
    }
}

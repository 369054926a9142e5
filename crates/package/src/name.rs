//! Names of files in archives: where they may lead.

use crate::limits::{DEPTH_MAX, NAME_BYTES_MAX, NAME_PART_BYTES_MAX};

/// What is wrong with a name: it has to be of parts that are only themselves, below the folder it is
/// unpacked to, on any system.
pub(crate) fn mistake(name: &str) -> Option<&'static str> {
    let parts: Vec<&str> = name.strip_suffix('/').unwrap_or(name).split('/').collect();
    if name.len() > NAME_BYTES_MAX || parts.iter().any(|part| part.len() > NAME_PART_BYTES_MAX) {
        return Some("is too long");
    }
    // A colon begins a drive or a stream, a backslash is a slash elsewhere.
    if name.chars().any(|sign| sign.is_control() || matches!(sign, '\\' | ':')) {
        return Some("has signs that names may not have");
    }
    if parts.len() > DEPTH_MAX {
        return Some("is too deep");
    }
    parts
        .iter()
        .any(|part| part.is_empty() || *part == "." || *part == "..")
        .then_some("leads out of the package")
}

/// A name as a file of a package says it, without the `./` that `find` puts before what it finds.
pub(crate) fn bare(said: &str) -> &str {
    said.strip_prefix("./").unwrap_or(said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::{Component, Path};

    #[test]
    fn names_stay_within_their_folder() {
        for good in ["a", "a/b.c", "Definitions/", "...", "a/..b/c..", "ä/ö"] {
            assert_eq!(mistake(good), None, "{good}");
        }
        for wrong in [
            "",
            "/",
            "/etc/passwd",
            "..",
            "../a",
            "a/../../b",
            "a/..",
            "./a",
            "a//b",
            "a/./b",
            "c:a",
            "a\\..\\b",
            "a\0b",
            "a\nb",
            "//a",
        ] {
            assert!(mistake(wrong).is_some(), "{wrong:?}");
        }
        assert!(mistake(&"a/".repeat(DEPTH_MAX + 1)).is_some());
        assert!(mistake(&"a/".repeat(DEPTH_MAX - 1)).is_none());
        assert!(mistake(&"a".repeat(NAME_PART_BYTES_MAX)).is_none());
        assert!(mistake(&"a".repeat(NAME_PART_BYTES_MAX + 1)).is_some());
        let part = format!("{}/", "a".repeat(NAME_BYTES_MAX / 3));
        assert!(mistake(&part.repeat(3)).is_some());
    }

    proptest! {
        #[test]
        fn whatever_is_let_through_is_below(name in "[a/.\\\\:]{0,12}") {
            if mistake(&name).is_none() {
                let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
                prop_assert!(Path::new(&name).components().all(is_plain));
                prop_assert!(Path::new(&name).components().count() > 0);
            }
        }
    }
}

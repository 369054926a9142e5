//! `[lower_memory]`: memory of a lower class behind the first.

use super::document::Document;
use super::mistake::Mistake;
use super::values::{optional, size};
use freshet_store::Placement;
use freshet_store::arena::NODE_MAX;
use freshet_store::limits::ARENA_BYTES_MIN;
use std::time::Duration;

/// `[lower_memory]`
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LowerMemory {
    /// What it is.
    pub placement: Placement,
    /// Its length in bytes.
    pub bytes: u64,
    /// What rules and policies call it.
    pub class: String,
    /// Shortest lifetime of what goes there.
    pub ttl_min: Duration,
    /// Lengths of what goes there.
    pub object_bytes_min: u64,
    /// The same, at most.
    pub object_bytes_max: u64,
}

/// What a document says of it, if it does; what is wrong is listed.
pub(super) fn lower_memory(document: &Document, wrong: &mut Vec<Mistake>) -> Option<LowerMemory> {
    let at = |key: &str| document.at(&format!("lower_memory.{key}"));
    let text = |key: &str| optional(document.value(&format!("lower_memory.{key}")).text());
    let placement = match (text("path"), text("numa_node")) {
        (None, None) => {
            if text("size").is_some() {
                let message = "lower_memory.size is given and neither lower_memory.path nor \
                               lower_memory.numa_node: give one, or none of the three";
                wrong.push(Mistake::error(at("size"), message));
            }
            return None;
        }
        (Some(_), Some(_)) => {
            let message =
                "lower_memory.path and lower_memory.numa_node are both given: it is one of them";
            wrong.push(Mistake::error(at("numa_node"), message));
            return None;
        }
        (Some(path), None) => Placement::File(path.into()),
        (None, Some(node)) => match node.parse() {
            Ok(node) if node <= NODE_MAX => Placement::Node(node),
            _ => {
                let message = format!("lower_memory.numa_node is 0 to {NODE_MAX}, not `{node}`");
                wrong.push(Mistake::error(at("numa_node"), message));
                return None;
            }
        },
    };
    let place = at("path").or(at("numa_node"));
    let mut sizes = ["size", "object_min", "object_max"]
        .into_iter()
        .map(|key| text(key).map(|_| size(document, &format!("lower_memory.{key}"), wrong)));
    let mut next = || sizes.next().flatten();
    let (bytes, least, most) = (next(), next(), next());
    let Some(bytes) = bytes else {
        let message = "lower_memory.size is missing: say how long it is, as `64GiB`";
        wrong.push(Mistake::error(place, message));
        return None;
    };
    if bytes < ARENA_BYTES_MIN {
        let message = format!("lower_memory.size is {ARENA_BYTES_MIN} bytes at least");
        wrong.push(Mistake::error(at("size"), message));
        return None;
    }
    let (object_bytes_min, object_bytes_max) = (least.unwrap_or(0), most.unwrap_or(u64::MAX));
    if object_bytes_min > object_bytes_max {
        let message = "lower_memory.object_min is above lower_memory.object_max: nothing would fit";
        wrong.push(Mistake::error(at("object_min"), message));
        return None;
    }
    Some(LowerMemory {
        placement,
        bytes,
        class: document.value("lower_memory.class").text(),
        ttl_min: document.value("lower_memory.ttl_min").span(),
        object_bytes_min,
        object_bytes_max,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use crate::storage::Storage;

    fn settings(text: &str) -> Result<Settings, Vec<Mistake>> {
        let text = format!("{text}\n[[origin]]\nurl = \"http://a.test\"\n");
        Settings::from_document(&Document::parse(&text).expect("the text is well-formed"))
    }

    #[test]
    fn it_is_a_file_or_a_node_of_some_length() {
        assert_eq!(settings("").map(|settings| settings.lower_memory), Ok(None));
        let file = "[lower_memory]\npath = \"/mnt/pmem/freshet\"\nsize = \"64GiB\"";
        let found = settings(file).expect("it is sound").lower_memory.expect("it is there");
        assert_eq!(found.placement, Placement::File("/mnt/pmem/freshet".into()));
        assert_eq!((found.bytes, found.class.as_str()), (64 << 30, "lower"));
        let node = "[lower_memory]\nnuma_node = \"1\"\nsize = \"1GiB\"\nobject_max = \"1MiB\"";
        let found = settings(node).expect("it is sound").lower_memory.expect("it is there");
        assert_eq!((found.placement, found.object_bytes_max), (Placement::Node(1), 1 << 20));
        for (text, says) in [
            ("size = \"1GiB\"", "neither"),
            ("path = \"/a\"\nnuma_node = \"1\"\nsize = \"1GiB\"", "both"),
            ("path = \"/a\"", "size is missing"),
            ("path = \"/a\"\nsize = \"1MiB\"", "at least"),
            ("numa_node = \"x\"\nsize = \"1GiB\"", "0 to"),
            ("path = \"/a\"\nsize = \"1GiB\"\nobject_min = \"2B\"\nobject_max = \"1B\"", "above"),
        ] {
            let wrong = settings(&format!("[lower_memory]\n{text}")).expect_err(text);
            assert!(wrong.iter().any(|line| line.message.contains(says)), "{wrong:?}");
        }
    }

    #[test]
    fn rules_may_name_it_and_no_store_has_its_name() {
        let lower = "[lower_memory]\npath = \"/a\"\nsize = \"1GiB\"\nclass = \"pmem\"\n";
        let rule = "[[storage]]\npath = \"/live/\"\nclass = \"pmem\"\n";
        let found = settings(&format!("{lower}{rule}")).expect("it is sound");
        assert_eq!(found.site.storage_of("/live/1"), Storage::Class("pmem".into()));
        assert!(settings(rule).is_err());
        let store = "[[store]]\npath = \"/b\"\nclass = \"pmem\"\n";
        assert!(settings(&format!("{lower}{store}")).is_err());
    }
}

//! What the platform holds: documents by their paths.

use crate::table::{self, Segment};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// A document.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// What it says.
    pub value: Value,
    /// Which version of it this is: another one for each change, also after it was removed.
    pub version: u64,
    /// The client that made it; nobody where the platform did.
    pub owner: Option<String>,
    /// Its length, written out as JSON.
    pub bytes: usize,
}

impl Document {
    /// Its entity tag (RFC 9110 §8.8.3).
    pub fn etag(&self) -> String {
        format!("\"{:x}\"", self.version)
    }
}

/// A change of a document: there is none any more, or this one.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Change {
    /// Where.
    pub path: String,
    /// The document; none where there is none any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// The client that makes it; nobody where the platform does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

impl Change {
    /// Has a document there.
    pub fn put(path: impl Into<String>, value: Value, owner: Option<String>) -> Self {
        Self { path: path.into(), value: Some(value), owner }
    }

    /// Has none there.
    pub fn remove(path: impl Into<String>) -> Self {
        Self { path: path.into(), value: None, owner: None }
    }
}

/// What a change did.
#[derive(Clone, Debug)]
pub struct Changed {
    /// Where.
    pub path: String,
    /// What was there.
    pub old: Option<Document>,
    /// What is there now.
    pub new: Option<Value>,
}

/// Documents by their paths. A copy, in which is seen what would be after a change, shares them.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    documents: BTreeMap<String, Arc<Document>>,
    version: u64,
    /// What each owner has.
    owned: BTreeMap<String, Held>,
    /// What all have, the platform as well.
    held: Held,
}

/// How much there is of something.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Held {
    /// How many.
    pub documents: usize,
    /// Of documents, written out as JSON.
    pub bytes: usize,
}

impl Held {
    /// With another document of so many bytes.
    pub fn and(self, bytes: usize) -> Self {
        Self { documents: self.documents + 1, bytes: self.bytes.saturating_add(bytes) }
    }

    /// Without a document of so many bytes that it has.
    pub fn without(self, bytes: usize) -> Self {
        Self { documents: self.documents - 1, bytes: self.bytes - bytes }
    }
}

impl Tree {
    /// Has versions go on where another process left them.
    pub fn resume(&mut self, version: u64) {
        self.version = self.version.max(version);
    }

    /// The last version that was given.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Makes a change, and says what it did.
    pub fn apply(&mut self, change: Change) -> Changed {
        self.version += 1;
        let old = self.documents.remove(&change.path);
        if let Some(old) = &old {
            self.held = self.held.without(old.bytes);
            if let Some(owner) = &old.owner
                && let Some(held) = self.owned.get_mut(owner)
            {
                *held = held.without(old.bytes);
                if held.documents == 0 {
                    self.owned.remove(owner);
                }
            }
        }
        let (path, owner) = (change.path, change.owner);
        if let Some(value) = change.value.clone() {
            let bytes = length(&value);
            self.held = self.held.and(bytes);
            if let Some(owner) = &owner {
                let held = self.owned.entry(owner.clone()).or_default();
                *held = held.and(bytes);
            }
            let document = Document { value, version: self.version, owner, bytes };
            self.documents.insert(path.clone(), Arc::new(document));
        }
        Changed { path, old: old.map(Arc::unwrap_or_clone), new: change.value }
    }

    /// The document at a path.
    pub fn get(&self, path: &str) -> Option<&Document> {
        self.documents.get(path).map(|document| &**document)
    }

    /// What all have.
    pub fn held(&self) -> Held {
        self.held
    }

    /// What an owner has.
    pub fn owned(&self, owner: &str) -> Held {
        self.owned.get(owner).copied().unwrap_or_default()
    }

    /// Documents whose path begins so, in the order of their paths.
    pub fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a Document)> {
        self.documents
            .range(prefix.to_owned()..)
            .take_while(move |(path, _)| path.starts_with(prefix))
            .map(|(path, document)| (path.as_str(), &**document))
    }

    /// Documents of a pattern of paths below `root`, with what is known of its names.
    pub fn matching<'a>(
        &'a self,
        root: &str,
        pattern: &'a [Segment],
        known: &'a [(&'a str, String)],
    ) -> impl Iterator<Item = (&'a str, &'a Document)> {
        let mut prefix = format!("{root}/");
        for segment in pattern {
            let part = match segment {
                Segment::Word(word) => word,
                Segment::Name(name) => match known.iter().find(|(other, _)| other == name) {
                    Some((_, value)) => value,
                    None => break,
                },
            };
            prefix.push_str(&escape(part));
            prefix.push('/');
        }
        prefix.pop();
        let skipped = root.len() + 1;
        let range = self.documents.range(prefix.clone()..);
        range.take_while(move |(path, _)| path.starts_with(&prefix)).filter_map(
            move |(path, document)| {
                let parts: Vec<String> =
                    path.get(skipped..)?.split('/').map(crate::query::decode).collect();
                let names = table::names(pattern, &parts, &[])?;
                let agrees = names.iter().all(|(name, value)| {
                    known
                        .iter()
                        .find(|(other, _)| other == name)
                        .is_none_or(|(_, known)| known == value)
                });
                agrees.then_some((path.as_str(), &**document))
            },
        )
    }

    /// Everything, as changes that make it anew.
    pub fn snapshot(&self) -> impl Iterator<Item = Change> + '_ {
        self.documents.iter().map(|(path, document)| Change {
            path: path.clone(),
            value: Some(document.value.clone()),
            owner: document.owner.clone(),
        })
    }
}

/// How long a value is, written out as JSON, in bytes.
pub fn length(value: &Value) -> usize {
    struct Counted(usize);
    impl io::Write for Counted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counted = Counted(0);
    serde_json::to_writer(&mut counted, value).expect("values are JSON, and a count takes all");
    counted.0
}

/// A segment of a path, with what may not stand in one as `%XX`.
pub fn escape(segment: &str) -> String {
    let mut out = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte) {
            out.push(byte.into());
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Segment::{Name, Word};
    use serde_json::json;

    #[test]
    fn documents_are_found_by_pattern() {
        let mut tree = Tree::default();
        for path in [
            "/a/v1/apps/1/parts/x",
            "/a/v1/apps/1%2F2/parts/y",
            "/a/v1/apps/1/parts/x/z",
            "/b/v1/apps/1/parts/x",
        ] {
            tree.apply(Change::put(path, json!({}), Some("me".to_owned())));
        }
        let pattern =
            [Word("apps".into()), Name("app".into()), Word("parts".into()), Name("part".into())];
        let found = |known: &[(&str, String)]| -> Vec<String> {
            tree.matching("/a/v1", &pattern, known).map(|(path, _)| path.to_owned()).collect()
        };
        assert_eq!(found(&[]), ["/a/v1/apps/1%2F2/parts/y", "/a/v1/apps/1/parts/x"]);
        assert_eq!(found(&[("app", "1/2".into())]), ["/a/v1/apps/1%2F2/parts/y"]);
        assert_eq!(found(&[("part", "x".into())]), ["/a/v1/apps/1/parts/x"]);
        assert_eq!(tree.owned("me"), Held { documents: 4, bytes: 8 });
        assert_eq!(tree.held(), tree.owned("me"));
        tree.apply(Change::put("/b/v1/apps/1/parts/x", json!({"a": "é"}), Some("you".to_owned())));
        tree.apply(Change::remove("/a/v1/apps/1/parts/x"));
        assert_eq!(tree.owned("me"), Held { documents: 2, bytes: 4 });
        assert_eq!(tree.owned("you"), Held { documents: 1, bytes: 10 });
        assert_eq!(tree.held(), Held { documents: 3, bytes: 14 });
    }

    #[test]
    fn a_copy_shares_documents_and_changes_alone() {
        let mut tree = Tree::default();
        for path in ["/a", "/b"] {
            tree.apply(Change::put(path, json!(1), None));
        }
        let mut copy = tree.clone();
        let changed = copy.apply(Change::put("/b", json!(2), None));
        assert_eq!(changed.old.as_ref(), tree.get("/b"));
        assert_eq!(
            (&tree.get("/b").unwrap().value, &copy.get("/b").unwrap().value),
            (&json!(1), &json!(2))
        );
        assert!(std::ptr::eq(tree.get("/a").unwrap(), copy.get("/a").unwrap()));
    }

    #[test]
    fn versions_never_come_again() {
        let mut tree = Tree::default();
        tree.apply(Change::put("/a", json!(1), None));
        let first = tree.get("/a").unwrap().etag();
        tree.apply(Change::remove("/a"));
        tree.apply(Change::put("/a", json!(1), None));
        assert_ne!(tree.get("/a").unwrap().etag(), first);
    }
}

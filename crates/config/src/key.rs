//! What a key of the table is.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;

/// What a key's value must be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number from `min` to `max`.
    Count {
        /// Least value.
        min: u64,
        /// Greatest value.
        max: u64,
    },
    /// Bytes, as `256MB` or `4GiB`.
    Size,
    /// A time, as `250ms`, `10s`, `7d`.
    Span,
    /// Any text.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A list of texts.
    TextList,
    /// The name of a file that is read.
    File,
    /// The name of one that is nobody else's to read: a key, passwords.
    SecretFile,
    /// A list of names of such files.
    SecretFiles,
}

impl Kind {
    /// Whether its values name files.
    pub fn is_file(self) -> bool {
        matches!(self, Self::File | Self::SecretFile | Self::SecretFiles)
    }
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Path, as `cache.grace` or `origin[].url`.
    pub path: &'static str,
    /// Type of its value.
    pub kind: Kind,
    /// Default as it would be written, lists as comma-separated words; empty for none.
    pub default: &'static str,
    /// One or two sentences for the reference and `--help`.
    pub help: &'static str,
    /// Whether a `[[site]]` may have it as well, where it holds for that site only.
    pub is_per_site: bool,
    /// What does the same where a policy in VCL decides and the key does nothing; `None` where it holds there too.
    pub in_vcl: Option<&'static str>,
}

impl Key {
    /// The same key, in whose place a policy in VCL has this.
    pub(super) const fn in_vcl(self, instead: &'static str) -> Self {
        Self { in_vcl: Some(instead), ..self }
    }

    /// Its help, with what is in its place where a policy decides.
    pub fn whole_help(&self) -> Cow<'static, str> {
        match self.in_vcl {
            Some(instead) => {
                format!("{} Does nothing beside `vcl`; in its place: {instead}.", self.help).into()
            }
            None => self.help.into(),
        }
    }
}

/// Every key of one program's file.
#[derive(Debug)]
pub struct Keys {
    /// In the order of the reference page.
    pub list: &'static [Key],
    /// What is said to who wrote a key that there is not.
    pub listed_by: &'static str,
    /// Whether a `[[site]]` may have keys of the top level.
    pub has_sites: bool,
    by_path: OnceLock<HashMap<&'static str, &'static Key>>,
}

impl Keys {
    /// A table of these keys.
    pub const fn new(list: &'static [Key], listed_by: &'static str, has_sites: bool) -> Self {
        Self { list, listed_by, has_sites, by_path: OnceLock::new() }
    }

    /// The key of this path. O(1): a file may have ten thousand sites.
    pub fn find(&self, path: &str) -> Option<&'static Key> {
        let by_path = || self.list.iter().map(|key| (key.path, key)).collect();
        self.by_path.get_or_init(by_path).get(path).copied()
    }

    /// The name of a `[[table]]` that there is.
    pub fn table(&self, name: &str) -> Option<&'static str> {
        let names = self.list.iter().filter_map(|key| key.path.split_once("[]."));
        names.map(|(table, _)| table).find(|known| *known == name)
    }
}

/// A key that holds for the whole node.
pub const fn key(path: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Key {
    Key { path, kind, default, help, is_per_site: false, in_vcl: None }
}

/// A key that a `[[site]]` may have as well.
pub(super) const fn per_site(
    path: &'static str,
    kind: Kind,
    default: &'static str,
    help: &'static str,
) -> Key {
    Key { path, kind, default, help, is_per_site: true, in_vcl: None }
}

/// How many keys there are in parts of the table.
pub(super) const fn count(parts: &[&[Key]]) -> usize {
    let (mut part, mut all) = (0, 0);
    while part < parts.len() {
        all += parts[part].len();
        part += 1;
    }
    all
}

/// Parts of the table as one of `N` keys.
pub(super) const fn joined<const N: usize>(parts: &[&[Key]]) -> [Key; N] {
    let mut all = [parts[0][0]; N];
    let (mut part, mut at) = (0, 0);
    while part < parts.len() {
        let mut index = 0;
        while index < parts[part].len() {
            all[at] = parts[part][index];
            (at, index) = (at + 1, index + 1);
        }
        part += 1;
    }
    assert!(at == N, "every key has its place");
    all
}

pub(super) const COUNT: Kind = Kind::Count { min: 1, max: 1 << 32 };

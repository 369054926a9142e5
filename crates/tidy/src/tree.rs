//! The files of the project: everything under the workspace root that belongs to it.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// What holds what tools made, not what people wrote: folders, and `.git` as a file in a second working tree.
const SKIPPED: [&str; 6] = [".git", ".cache", "target", "node_modules", "corpus", "crashes"];

/// Files longer than this are data (locks, fixtures), not something a person reads: 1 MiB.
const TEXT_BYTES_MAX: u64 = 1 << 20;

/// One text file of the project.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// Where it is, relative to the workspace root, with `/` between the parts.
    pub path: String,
    /// What is in it.
    pub text: String,
}

impl SourceFile {
    /// The lines with their numbers, counted from 1 as editors do.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// The last part of the path.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The room the file is in: `http` for `crates/http/src/date.rs`, none outside `crates/`.
    #[must_use]
    pub fn room(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    /// Whether the name ends in `.extension`.
    #[must_use]
    pub fn has_extension(&self, extension: &str) -> bool {
        self.name().rsplit_once('.').is_some_and(|(_, ending)| ending == extension)
    }
}

/// The workspace root.
///
/// # Panics
///
/// When the test does not run from a crate two folders below a root.
#[must_use]
pub fn root() -> PathBuf {
    // Asked when the test runs: the path it was built with is wrong after the folder has moved, or
    // when two checkouts share a target folder.
    let here = std::env::var_os("CARGO_MANIFEST_DIR");
    let here = here.map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    here.ancestors().nth(2).expect("the crate is two folders below the root").to_path_buf()
}

/// Every text file of the project, sorted by path. Files that are not UTF-8 are not text.
///
/// # Panics
///
/// When a folder of the project cannot be read.
#[must_use]
pub fn files() -> Vec<SourceFile> {
    let mut found = Vec::new();
    walk(&root(), "", &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// The names of the rooms: folders under `crates/` that have a manifest, sorted.
///
/// # Panics
///
/// When `crates/` cannot be read.
#[must_use]
pub fn crates() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(root().join("crates"))
        .expect("crates/ is readable")
        .map(|entry| entry.expect("crates/ is readable"))
        .filter(|entry| entry.path().join("Cargo.toml").is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn walk(folder: &Path, prefix: &str, found: &mut Vec<SourceFile>) {
    let entries = fs::read_dir(folder).expect("the project's folders are readable");
    for entry in entries {
        let entry = entry.expect("the project's folders are readable");
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
        // Symbolic links are not followed: what they point at is either listed anyway or not ours.
        let Ok(kind) = entry.file_type() else { continue };
        if SKIPPED.contains(&name.as_str()) {
            continue;
        }
        if kind.is_dir() {
            walk(&entry.path(), &path, found);
        } else if kind.is_file() && entry.metadata().is_ok_and(|data| data.len() <= TEXT_BYTES_MAX)
        {
            // A file may vanish between the listing and the reading: an editor's swap file.
            if let Ok(text) = fs::read_to_string(entry.path()) {
                found.push(SourceFile { path, text });
            }
        }
    }
}

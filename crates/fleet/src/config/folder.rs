//! What a node has on its disk of its fleet's configuration.
//!
//! ```text
//! state.json          what it knows: Memory
//! bundles/<name>/     the files of a bundle, whole or not at all
//! ```

use super::agent::Memory;
use super::bundle::Bundle;
use super::release::Version;
use freshet_base::private::{make_folder, replace, sync_folder_of, write};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The form that this version writes, and the newest it reads.
const FORMAT: u32 = 1;

/// A folder for one node.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

#[derive(Deserialize)]
struct Format {
    format: u32,
}

#[derive(Deserialize, Serialize)]
struct Written {
    format: u32,
    #[serde(flatten)]
    memory: Memory,
}

impl Folder {
    /// The folder at `path`, which need not be there.
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// What the node knew last; nothing where it never knew anything.
    ///
    /// # Errors
    /// It cannot be read, or a newer version wrote it.
    pub fn memory(&self) -> io::Result<Memory> {
        let path = self.0.join("state.json");
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Memory::default()),
            Err(error) => return Err(error),
        };
        let wrong = |what: String| {
            let message = format!("{}: {what}", path.display());
            io::Error::new(ErrorKind::InvalidData, message)
        };
        let broken = |error: serde_json::Error| wrong(error.to_string());
        let Format { format } = serde_json::from_slice(&text).map_err(broken)?;
        if format > FORMAT {
            return Err(wrong("a newer version of Freshet wrote it: run that one".into()));
        }
        let Written { memory, .. } = serde_json::from_slice(&text).map_err(broken)?;
        Ok(memory)
    }

    /// Keeps this, so that after a crash the disk has it or what was before. Bundles that it does not
    /// name go.
    ///
    /// # Errors
    /// The disk's.
    pub fn remember(&self, memory: &Memory) -> io::Result<()> {
        make_folder(&self.0)?;
        let written = Written { format: FORMAT, memory: memory.clone() };
        replace(&self.0.join("state.json"), &serde_json::to_vec(&written)?)?;
        let used: Vec<_> = memory.kept.iter().chain(&memory.trying).map(|v| &v.bundle).collect();
        for entry in fs::read_dir(self.0.join("bundles")).into_iter().flatten().flatten() {
            if !used.iter().any(|name| entry.file_name() == name.as_str()) {
                // What is left over is in nobody's way.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        Ok(())
    }

    /// Where the files of a bundle are, if they are there.
    pub fn bundle(&self, version: &Version) -> PathBuf {
        self.0.join("bundles").join(&version.bundle)
    }

    /// Puts the files of a bundle there.
    ///
    /// # Errors
    /// The disk's.
    pub fn unpack(&self, version: &Version, bundle: &Bundle) -> io::Result<()> {
        let path = self.bundle(version);
        if path.is_dir() {
            return Ok(());
        }
        let all = self.0.join("bundles");
        make_folder(&all)?;
        let next = all.join(".next");
        match fs::remove_dir_all(&next) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        for (name, bytes) in bundle.files() {
            let file = next.join(name);
            make_folder(file.parent().unwrap_or(&next))?;
            write(&file, bytes)?;
        }
        fs::rename(next, &path)?;
        sync_folder_of(&path)
    }
}

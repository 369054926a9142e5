//! What operators have said to a process and the one that takes over is to know, in a file of the node's directory:
//! a process of another version, which knows no such file, starts as it always has.

use anyhow::{Context, Result};
use freshet_admin::Words;
use freshet_base::private;
use rustix::process::getppid;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

const FILE: &str = "said.json";

#[derive(Deserialize, Serialize)]
struct Left {
    /// Whose words they are: its child is meant, and nobody who finds them later.
    process: u32,
    words: Words,
}

/// Leaves words for the process that this one is about to start.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn leave(directory: &Path, words: &Words) -> Result<()> {
    let left = Left { process: std::process::id(), words: words.clone() };
    let text = serde_json::to_vec(&left).context("what was said")?;
    let path = directory.join(FILE);
    private::replace(&path, &text).with_context(|| path.display().to_string())
}

/// What was said to the process that started this one, to take over from it; nothing where this one begins.
pub(crate) fn hear(directory: &Path) -> Words {
    let path = directory.join(FILE);
    let Ok(text) = fs::read(&path) else { return Words::default() };
    // Said once.
    let _ = fs::remove_file(&path);
    let parent = getppid().map(|parent| parent.as_raw_nonzero().get().unsigned_abs());
    match serde_json::from_slice::<Left>(&text) {
        Ok(left) if Some(left.process) == parent => left.words,
        Ok(_) => Words::default(),
        Err(error) => {
            tracing::warn!(%error, "what was said to the process before is not understood");
            Words::default()
        }
    }
}

//! The directories for files of a run, one for each node: made certificates, tokens, process ids.
//!
//! Below a directory of the user's, each node has one under its name: what `--name` says, else the
//! port of its admin interface, else that of its first listener. A service manager's directory is
//! for one node anyway.

use anyhow::{Context, Result, bail};
use freshet_config::Settings;
use freshet_net::address::Address;
use rustix::fs::{Access, access};
use rustix::process::geteuid;
use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where a node that a service manager started keeps its files.
const SERVICE_DIRECTORY: &str = "/run/freshet";
/// Tells the process of an upgrade which directory is the node's. Its own settings cannot: a
/// listener on port 0 has another port each time.
pub(crate) const HOME_VARIABLE: &str = "FRESHET_HOME";
/// The file with a token that a node has made.
pub(crate) const TOKEN_FILE: &str = "admin.token";

/// What to do about a directory that is of no use.
const ELSEWHERE: &str = "set XDG_RUNTIME_DIR to a directory that this user alone can write";

/// The directory for the files of the node that this process is to be, made if it is not there.
///
/// # Errors
/// When it cannot be made, or is somebody else's, or `name` is no name of a file.
pub(crate) fn directory(name: Option<&str>, settings: &Settings) -> Result<PathBuf> {
    if let Some(home) = env::var_os(HOME_VARIABLE) {
        return own(home.into());
    }
    if let Some(wrong) = name.filter(|name| !is_name(name)) {
        bail!("--name takes letters, digits, `-`, `_` and `.`, not `{wrong}`");
    }
    // systemd makes one for the service alone; that of a user is shared with other programs.
    if let (Some(directory), None) = (env::var_os("RUNTIME_DIRECTORY"), name) {
        return own(directory.into());
    }
    let name = name.map_or_else(|| default_name(settings), str::to_owned);
    own(own(shared())?.join(name))
}

/// The directory of a service that outlives its processes, where it has one.
pub(crate) fn state_directory() -> Option<PathBuf> {
    env::var_os("STATE_DIRECTORY").map(PathBuf::from)
}

/// Directories of nodes of this user, and of the service: those that may have one.
pub(crate) fn directories() -> Vec<PathBuf> {
    let mut parents = vec![shared(), SERVICE_DIRECTORY.into()];
    parents.dedup();
    let below = |parent: &PathBuf| {
        let entries = fs::read_dir(parent).into_iter().flatten().flatten();
        let mut found: Vec<_> = entries.map(|entry| entry.path()).collect();
        found.sort();
        found
    };
    let mut all = Vec::new();
    for parent in parents {
        let nodes = below(&parent);
        all.push(parent);
        all.extend(nodes.into_iter().filter(|path| path.is_dir()));
    }
    all
}

/// Places where the token of a node that does not run as this user, or was given no name, may be.
pub(crate) fn token_files(address: &Address) -> Vec<PathBuf> {
    let named = shared().join(name_of(address)).join(TOKEN_FILE);
    vec![named, Path::new(SERVICE_DIRECTORY).join(TOKEN_FILE)]
}

/// The directory that those of this user's nodes are in.
fn shared() -> PathBuf {
    if let Some(own) = env::var_os("RUNTIME_DIRECTORY") {
        return own.into();
    }
    match env::var_os("XDG_RUNTIME_DIR") {
        Some(shared) => PathBuf::from(shared).join("freshet"),
        None => env::temp_dir().join(format!("freshet-{}", geteuid().as_raw())),
    }
}

/// Makes sure that this is a directory that only this user can write.
fn own(directory: PathBuf) -> Result<PathBuf> {
    let shown = directory.display();
    match DirBuilder::new().mode(0o700).create(&directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            bail!("{shown} could not be made: {error}; {ELSEWHERE}");
        }
        _ => {}
    }
    let found = fs::symlink_metadata(&directory)
        .with_context(|| format!("{shown} could not be looked at"))?;
    if !found.is_dir() || found.uid() != geteuid().as_raw() || found.mode() & 0o022 != 0 {
        bail!(
            "{shown} is not a directory that only this user can write; remove it, or {ELSEWHERE}"
        );
    }
    if let Err(error) = access(&directory, Access::WRITE_OK) {
        bail!("{shown} cannot be written: {error}; {ELSEWHERE}");
    }
    Ok(directory)
}

/// The name of a node that was given none: of what it alone can have.
fn default_name(settings: &Settings) -> String {
    let fixed = |address: &&Address| address.port() != Some(0);
    let mut listeners = settings.listeners.iter().map(|listener| &listener.address);
    match (settings.admin_listen.as_ref().filter(fixed), listeners.find(fixed)) {
        (Some(admin), _) => name_of(admin),
        (None, Some(listener)) => format!("listen-{}", name_of(listener)),
        (None, None) => format!("process-{}", std::process::id()),
    }
}

fn name_of(address: &Address) -> String {
    match address {
        Address::Tcp(address) => address.port().to_string(),
        Address::Unix(path) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.chars().map(|c| if is_name_character(c) { c } else { '_' }).collect()
        }
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 64
        && !name.starts_with('.')
        && name.chars().all(is_name_character)
}

fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_named_after_what_they_alone_can_have() {
        let name = |text: &str| name_of(&text.parse().expect("it is an address"));
        assert_eq!(name("127.0.0.1:6080"), "6080");
        assert_eq!(name("unix:/run/freshet/admin.sock"), "admin.sock");
    }

    #[test]
    fn a_name_is_no_path() {
        assert!(is_name("edge-1.a_b"));
        for wrong in ["", ".", "..", ".hidden", "a/b", "a b", "ü", &"a".repeat(65)] {
            assert!(!is_name(wrong), "{wrong}");
        }
    }
}

//! The directory for files of a run: made certificates, tokens.

use anyhow::{Context, Result, bail};
use freshet_net::address::Address;
use rustix::process::geteuid;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where a node that a service manager started keeps its files.
const SERVICE_DIRECTORY: &str = "/run/freshet";

/// Where files of this run go, made if it is not there: the service manager's directory, the
/// user's, or one under `/tmp` that belongs to this user alone.
///
/// # Errors
/// When it cannot be made, or is somebody else's.
pub(crate) fn directory() -> Result<PathBuf> {
    let directory = path();
    let shown = directory.display();
    match DirBuilder::new().mode(0o700).create(&directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(error).with_context(|| format!("{shown} could not be made"));
        }
        _ => {}
    }
    let found = fs::symlink_metadata(&directory)
        .with_context(|| format!("{shown} could not be looked at"))?;
    if !found.is_dir() || found.uid() != geteuid().as_raw() || found.mode() & 0o022 != 0 {
        bail!(
            "{shown} is not a directory that only this user can write; remove it, or set \
             XDG_RUNTIME_DIR to one that is"
        );
    }
    Ok(directory)
}

/// Places where the token of a node that listens on `address` may be, likeliest first.
pub(crate) fn token_files(address: &Address) -> Vec<PathBuf> {
    let name = token_name(address);
    let mut files = vec![path().join(&name), Path::new(SERVICE_DIRECTORY).join(&name)];
    files.dedup();
    files
}

/// The file in `directory` that says which process serves.
pub(crate) fn pid_file(directory: &Path) -> PathBuf {
    directory.join("freshet.pid")
}

/// Places where that file may be, likeliest first.
pub(crate) fn pid_files() -> Vec<PathBuf> {
    let mut files = vec![pid_file(&path()), pid_file(Path::new(SERVICE_DIRECTORY))];
    files.dedup();
    files
}

/// The name of the token file of a node that listens on `address`.
pub(crate) fn token_name(address: &Address) -> String {
    match address {
        Address::Tcp(address) => format!("admin-{}.token", address.port()),
        Address::Unix(path) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            format!("admin-{name}.token")
        }
    }
}

fn path() -> PathBuf {
    // systemd makes one for the service alone; that of a user is shared with other programs.
    if let Some(own) = std::env::var_os("RUNTIME_DIRECTORY") {
        return own.into();
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(shared) => PathBuf::from(shared).join("freshet"),
        None => std::env::temp_dir().join(format!("freshet-{}", geteuid().as_raw())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_named_after_the_address() {
        let name = |text: &str| token_name(&text.parse().expect("it is an address"));
        assert_eq!(name("127.0.0.1:6080"), "admin-6080.token");
        assert_eq!(name("unix:/run/freshet/admin.sock"), "admin-admin.sock.token");
    }
}

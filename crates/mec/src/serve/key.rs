//! The key of tokens, in a file only its owner can read.

use freshet_apps::disk::said;
use freshet_base::{file, private};
use freshet_platform::Issuer;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Longest key.
const KEY_BYTES_MAX: u64 = 4096;

/// Where the key is.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join("token.key")
}

/// The key in a folder, which is made with a new one where there is none: whole or not at all.
///
/// # Errors
/// What this machine refused, or that others can read the key.
pub(super) fn read_or_create(folder: &Path) -> Result<Vec<u8>, String> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error: io::Error| said(&path, &error)
    };
    if !folder.is_dir() {
        private::make_folder(folder).map_err(at(folder))?;
    }
    let path = path(folder);
    match fs::metadata(&path) {
        Ok(found) if found.mode() & 0o077 != 0 => {
            return Err(format!("{}: others can read this key; do: chmod 600", path.display()));
        }
        Ok(_) => return file::read(&path, KEY_BYTES_MAX).map_err(at(&path)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(at(&path)(error)),
    }
    let key = Issuer::new_key();
    private::replace(&path, &key).map_err(at(&path))?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_made_once_and_kept_from_others() {
        let folder = tempfile::tempdir().unwrap();
        let within = folder.path().join("state");
        let key = read_or_create(&within).unwrap();
        assert_eq!(read_or_create(&within).unwrap(), key);
        assert!(Issuer::new(&key, "http://a", "b").is_some());
        assert_eq!(fs::metadata(path(&within)).unwrap().mode() & 0o777, 0o600);
        fs::set_permissions(path(&within), fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read_or_create(&within).unwrap_err().contains("chmod 600"));
    }
}

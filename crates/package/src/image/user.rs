//! Whom an image runs as: `user`, `user:group`, by names of the image's own files or by numbers.

use crate::PackageError;
use crate::limits::TEXT_BYTES_MAX;
use std::fs;
use std::path::Path;

/// Where names are, in an image.
const USERS: &str = "etc/passwd";
const GROUPS: &str = "etc/group";

/// The numbers of a user and a group.
pub(super) fn resolve(text: &str, rootfs: &Path) -> Result<[u32; 2], PackageError> {
    let (user, group) =
        text.split_once(':').map_or((text, None), |(user, group)| (user, Some(group)));
    let wrong = |what: String| PackageError::client("the image", what);
    let line = row(rootfs, USERS, user);
    let field = |line: &Option<String>, at: usize| -> Option<u32> {
        line.as_ref()?.split(':').nth(at)?.parse().ok()
    };
    let uid = user.parse().ok().or_else(|| field(&line, 2));
    let uid = uid.ok_or_else(|| wrong(format!("runs as `{user}`, whom its /etc/passwd lacks")))?;
    let gid = match group {
        None => field(&line, 3).unwrap_or(0),
        Some(group) => {
            group.parse().ok().or_else(|| field(&row(rootfs, GROUPS, group), 2)).ok_or_else(
                || wrong(format!("runs as group `{group}`, which its /etc/group lacks")),
            )?
        }
    };
    Ok([uid, gid])
}

/// The line of a name, or of a number, in a file of the image: a plain one, which is no link.
fn row(rootfs: &Path, file: &str, name: &str) -> Option<String> {
    let path = rootfs.join(file);
    let is_plain = |path: &Path| fs::symlink_metadata(path).ok().map(|at| (at.is_file(), at.len()));
    let is_folder = fs::symlink_metadata(path.parent()?).ok()?.is_dir();
    let (is_file, bytes) = is_plain(&path)?;
    if !is_folder || !is_file || bytes > TEXT_BYTES_MAX {
        return None;
    }
    let text = fs::read_to_string(&path).ok()?;
    let is_it = |line: &&str| {
        let mut fields = line.split(':');
        fields.next() == Some(name) || fields.nth(1) == Some(name)
    };
    text.lines().find(is_it).map(str::to_owned)
}

//! What a disk said, for whoever has to see to it.

use std::io::{Error, ErrorKind};
use std::path::Path;

/// What a disk said of a path; where that is that it is full, also what to do.
///
/// ```
/// use std::io::{Error, ErrorKind};
///
/// let full = Error::from(ErrorKind::StorageFull);
/// let said = freshet_apps::disk::said("state/journal".as_ref(), &full);
/// assert!(said.starts_with("state/journal: ") && said.contains("the disk is full"));
/// ```
pub fn said(path: &Path, error: &Error) -> String {
    let path = path.display();
    match error.kind() {
        ErrorKind::StorageFull => format!(
            "{path}: {error}: the disk is full; make room on it, and do this again: what was kept there is as it was"
        ),
        ErrorKind::QuotaExceeded => format!(
            "{path}: {error}: as much of the disk as this user may have is full; make room, or have more allowed, \
             and do this again: what was kept there is as it was"
        ),
        _ => format!("{path}: {error}"),
    }
}

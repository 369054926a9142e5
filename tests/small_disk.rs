//! A file system that a test may fill. Tests of any crate read this file by its path, beside `skip.rs`.
#![allow(clippy::unwrap_used, unreachable_pub, reason = "tests")]

use super::skip;
use std::path::PathBuf;
use std::process::Command;

/// Says where it is: the test has started itself in a name space where it is mounted.
const PLACE: &str = "FRESHET_TEST_SMALL_FILE_SYSTEM";

/// Where there is a file system of so many bytes for the test of this name. `None` where the test has run already:
/// it was started again where one can be mounted that nobody else sees, or skipped where none can.
///
/// # Panics
/// When the test has failed there.
pub fn of(name: &str, bytes: u64) -> Option<PathBuf> {
    let place = std::env::var_os(PLACE).map(PathBuf::from);
    if place.is_none() {
        start_again(name, bytes);
    }
    place
}

fn start_again(name: &str, bytes: u64) {
    let folder = tempfile::tempdir().unwrap();
    let mount =
        format!("mount -t tmpfs -o size={bytes} none \"${PLACE}\" || exit 77; exec \"$0\" \"$@\"");
    let started = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &mount])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(PLACE, folder.path())
        .output();
    let Ok(ended) = started else { return skip::missing("unshare") };
    let said = String::from_utf8_lossy(&ended.stdout) + String::from_utf8_lossy(&ended.stderr);
    match ended.status.code() {
        Some(0) => assert!(said.contains("1 passed"), "{said}"),
        // The kernel, or whoever started this, has no such name spaces.
        Some(1 | 77) if !said.contains("test result") => skip::skip(said.trim()),
        _ => panic!("{said}"),
    }
}

//! Scripts of `varnishtest`, run against the `varnishd` of this project: whoever has them keeps them as
//! they are, and the program that reads them is the one they were written for.

use anyhow::{Context, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program that reads scripts, and where packages have it and ours.
const READER: &str = "varnishtest";
const SERVER: &str = "varnishd";
const SERVER_FOLDER: &str = "/usr/lib/freshet";
/// How long one script may take.
const SECONDS_MAX: u32 = 60;
/// What `varnishtest` ends with where a machine lacks what a script needs.
const SKIPPED: i32 = 77;

/// Whether a file is such a script.
pub(super) fn is_script(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "vtc")
}

/// Runs a script; why it failed, where it did. One that this machine cannot run fails as well.
///
/// # Errors
/// A program is not there, or could not be run.
pub(super) fn run(script: &Path) -> Result<Option<String>> {
    let output = Command::new(READER)
        .arg(format!("-t{SECONDS_MAX}"))
        .arg(script)
        .env("PATH", path()?)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .with_context(|| {
            format!(
                "{READER} reads scripts, and is not there: Debian has it in the package varnish"
            )
        })?;
    if output.status.success() {
        return Ok(None);
    }
    if output.status.code() == Some(SKIPPED) {
        return Ok(Some("skipped: it needs what is not there".into()));
    }
    Ok(Some(reason(&String::from_utf8_lossy(&output.stdout))))
}

/// A `PATH` on which the `varnishd` of this project comes first: that beside this program, or the one
/// of a package.
fn path() -> Result<OsString> {
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(Path::to_owned);
    let folders = beside.into_iter().chain([PathBuf::from(SERVER_FOLDER)]);
    let folder =
        folders.into_iter().find(|folder| folder.join(SERVER).is_file()).with_context(|| {
            format!(
                "scripts are run with {SERVER} of the package freshet-varnish, which is not there"
            )
        })?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [folder].into_iter().chain(std::env::split_paths(&path));
    std::env::join_paths(folders).context("PATH cannot be made longer")
}

/// The line of a log that says what was not as expected, without its time.
fn reason(log: &str) -> String {
    let found = log.lines().find(|line| line.starts_with("----"));
    let words = found.unwrap_or("it ended without saying why").trim_start_matches('-');
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_told_by_their_names() {
        assert!(is_script(Path::new("a/b.vtc")));
        assert!(!is_script(Path::new("b.vtc.test")));
        assert!(!is_script(Path::new("vtc")));
    }

    #[test]
    fn the_line_that_fails_is_told() {
        let log = "**   c1    === expect resp.status == 404\n---- c1    EXPECT resp.status (200) == \"404\" failed\n*    top   RESETTING\n";
        assert_eq!(reason(log), "c1 EXPECT resp.status (200) == \"404\" failed");
        assert_eq!(reason(""), "it ended without saying why");
    }
}

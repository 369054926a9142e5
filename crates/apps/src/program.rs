//! Programs of this machine that are run to their end.

use std::io::{Error, Write};
use std::process::{Command, Stdio};

/// Runs a command, which has a program do what these words say, and gives what it wrote.
pub(crate) fn output(
    mut command: Command,
    program: &str,
    words: &[&str],
    input: Option<&str>,
) -> Result<String, String> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let failed = |error: Error| format!("{program}: {error}");
    let mut child = command.spawn().map_err(failed)?;
    if let (Some(mut pipe), Some(input)) = (child.stdin.take(), input) {
        // One that does not read to the end says why.
        let _ = pipe.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} {}: {}", words.join(" "), error.trim()))
}

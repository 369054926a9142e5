//! What Debian's Varnish says of a policy, without a C compiler: its own compiler ends where C
//! begins.

use std::path::Path;
use std::process::{Command, Stdio};

/// What a compiler says of a policy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    Taken,
    /// The line, and what is wrong. No line is 0; in the text behind the policy's it is [`BEHIND`].
    Refused(usize, String),
}

/// The line of what is found only behind the end of a policy.
pub(crate) const BEHIND: usize = usize::MAX;

/// Asks `varnishd`; `None` where there is none.
pub(crate) fn verdict(text: &str, folder: &Path) -> Option<Verdict> {
    let file = folder.join("policy.vcl");
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new("varnishd");
    command.arg("-C").arg("-f").arg(&file).arg("-n").arg(folder.join("work"));
    // What is compiled is never run.
    command.args(["-p", "cc_command=true", "-s", "s0=malloc,1m"]);
    if let Ok(path) = std::env::var("VMOD_PATH") {
        command.arg("-p").arg(format!("vmod_path={path}"));
    }
    let done = command.stdin(Stdio::null()).stdout(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&done.stderr);
    Some(parse(&said))
}

fn parse(said: &str) -> Verdict {
    let Some((_, message)) = said.split_once("Message from VCC-compiler:\n") else {
        assert!(said.contains("dlopen"), "varnishd says: {said}");
        return Verdict::Taken;
    };
    if !message.contains("Running VCC-compiler failed") {
        return Verdict::Taken;
    }
    let mut rows = message.lines();
    let mut text: Vec<&str> = Vec::new();
    let mut line = 0;
    for row in rows.by_ref() {
        if let Some((_, rest)) = row.split_once("' Line ") {
            line = rest.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0);
            if row.contains("<builtin>") {
                line = BEHIND;
            }
            break;
        }
        text.extend(Some(row).filter(|row| !row.is_empty()));
    }
    if text.is_empty() {
        // Some of its messages come behind the place, the line and the marks below it.
        let is_message = |row: &&str| row.contains("subroutine '") || row.starts_with("Variable");
        text.extend(rows.find(is_message));
    }
    Verdict::Refused(line, text.join("\n"))
}

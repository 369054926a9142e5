//! What Debian's Varnish says of a policy, without a C compiler: its own compiler ends where C
//! begins.

use crate::support::{self, Varnishd};
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

/// A `varnishd` of Debian that is asked of one policy after another, and serves none.
pub(crate) struct Compiler {
    varnishd: Varnishd,
    asked: u64,
}

impl Compiler {
    /// One more; `None` where there is no `varnishd`.
    pub(crate) fn start() -> Option<Self> {
        let program = support::program("varnishd")?;
        let modules = std::env::var("VMOD_PATH").map(|path| format!("vmod_path={path}"));
        // What is compiled is never run, so nothing is made of its C.
        let mut options = vec!["-j", "none", "-a", "127.0.0.1:0", "-p", "cc_command=true"];
        options.extend(["-s", "s0=malloc,1m"]);
        if let Ok(modules) = &modules {
            options.extend(["-p", modules]);
        }
        let mut command = Command::new(program);
        // It misses a file that only a compiler of C would have made, each time.
        command.stderr(Stdio::null());
        Some(Self { varnishd: Varnishd::start_command(&mut command, &options), asked: 0 })
    }

    pub(crate) fn verdict(&mut self, text: &str) -> Verdict {
        let file = self.varnishd.directory.path().join("policy.vcl");
        std::fs::write(&file, text).unwrap();
        self.asked += 1;
        let load = format!("vcl.load p{} {}", self.asked, file.display());
        parse(&self.varnishd.command(&load).1)
    }
}

fn parse(said: &str) -> Verdict {
    let Some((_, message)) = said.split_once("Message from VCC-compiler:\n") else {
        assert!(said.contains("dlopen"), "varnishd says: {said}");
        return Verdict::Taken;
    };
    if !message.contains("Running VCC-compiler failed") {
        return Verdict::Taken;
    }
    // What is a warning alone comes before what is wrong.
    let message = message.rsplit("(That was just a warning)\n").next().unwrap_or(message);
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

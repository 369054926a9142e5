//! Man pages and shell completions, made from the arguments themselves, so that they cannot differ.

#[cfg(test)]
mod page;

use crate::text::print;
use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::roff::{Inline, Roff, bold, roman};
use freshet_config::keys::KEYS;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// `freshet completions`
#[derive(Args)]
#[command(after_help = "Example:\n  freshet completions bash > \
                        ~/.local/share/bash-completion/completions/freshet")]
pub(crate) struct CompletionsArguments {
    /// The shell they are for.
    shell: Shell,
}

/// Prints what a shell needs to complete arguments of `command`.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn completions(arguments: &CompletionsArguments, command: Command) -> Result<ExitCode> {
    let (mut command, name) = named(command);
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, name, &mut text);
    print(&String::from_utf8(text)?)?;
    Ok(ExitCode::SUCCESS)
}

/// `freshet man`
#[derive(Args)]
#[command(after_help = "Example:\n  freshet man /usr/local/share/man/man1")]
pub(crate) struct ManArguments {
    /// Folder for the pages: freshet.1, one for each command as freshet-serve.1, and freshet.toml.5.
    folder: PathBuf,
}

/// Writes man pages.
///
/// # Errors
/// When they cannot be written.
pub(crate) fn man(arguments: &ManArguments, command: Command) -> Result<ExitCode> {
    let (command, _) = named(command);
    let folder = &arguments.folder;
    let failed = || format!("{} cannot be written", folder.display());
    fs::create_dir_all(folder).with_context(failed)?;
    clap_mangen::generate_to(command, folder).with_context(failed)?;
    fs::write(folder.join("freshet.toml.5"), configuration()).with_context(failed)?;
    Ok(ExitCode::SUCCESS)
}

/// The command under the name the program has: packages give one with more in it another name.
fn named(command: Command) -> (Command, &'static str) {
    let called = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&called).file_name().and_then(|name| name.to_str());
    // The table of arguments wants names that stay; the program ends after this.
    let name: &'static str = name.unwrap_or("freshet").to_owned().leak();
    (command.name(name), name)
}

/// The page about the configuration, from the table of keys.
fn configuration() -> String {
    let mut page = Roff::new();
    page.control("TH", ["freshet.toml", "5", "", concat!("freshet ", env!("CARGO_PKG_VERSION"))]);
    page.control("SH", ["NAME"]);
    page.text([roman("freshet.toml - the configuration of a Freshet node")]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([roman(
        "Every key with its default. A key that is left out has its default; an unknown or wrong \
         one is an error that names its line. Sizes are written 256MB or 4GiB, times 250ms, 10s, \
         7d. A key of `[[x]]` is written x[].key here: such a table may be given several times.",
    )]);
    page.control("SH", ["KEYS"]);
    for key in KEYS {
        page.control("TP", []);
        let default = if key.default.is_empty() { "none" } else { key.default };
        page.text([bold(key.path), roman(format!(" (default {default})"))]);
        let site = if key.is_per_site { " May be given for a site." } else { "" };
        page.text(spans(&format!("{}{site}", key.whole_help())));
    }
    page.control("SH", ["SEE ALSO"]);
    page.text([
        bold("freshet"),
        roman("(1), "),
        bold("freshet-check"),
        roman("(1), "),
        bold("freshet-serve"),
        roman("(1)"),
    ]);
    page.to_roff()
}

/// A text with what is between back-ticks in bold.
fn spans(text: &str) -> Vec<Inline> {
    let part = |(index, part): (usize, &str)| if index % 2 == 1 { bold(part) } else { roman(part) };
    text.split('`').enumerate().map(part).collect()
}

//! `freshet fleet key`: who an operator is to the nodes.

use anyhow::{Context, Result};
use clap::Args;
use freshet_base::file::read_text;
use freshet_fleet::signature::SigningKey;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Bytes of a file with a key or a secret: more than it has.
const FILE_BYTES_MAX: u64 = 1024;

#[derive(Args)]
#[command(after_help = "Example:\n  freshet fleet key anna.key\n\n\
                        What it prints goes to `fleet.signers` of each node, and the file with --key to \
                        `freshet fleet purge`, `config` and `upgrade`.")]
pub(super) struct Arguments {
    /// File with the private key, which nobody else is to read; made where it is not there.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// The file cannot be written or read, or has something else.
pub(super) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let path = &arguments.file;
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let key = match made {
        Ok(mut file) => {
            let key = SigningKey::random()?;
            let written = writeln!(file, "{}", key.text()).and_then(|()| file.sync_all());
            written.with_context(|| path.display().to_string())?;
            key
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => read(path)?,
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    say!("{}", key.signer())?;
    Ok(ExitCode::SUCCESS)
}

/// The key in a file.
///
/// # Errors
/// It cannot be read, or is none.
pub(super) fn read(path: &Path) -> Result<SigningKey> {
    parsed(path, SigningKey::parse)
}

/// What a file with one key or secret says.
///
/// # Errors
/// It cannot be read, or says something else.
pub(super) fn parsed<T, E: std::error::Error + Send + Sync + 'static>(
    path: &Path,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<T> {
    let shown = || path.display().to_string();
    parse(&read_text(path, FILE_BYTES_MAX).with_context(shown)?).with_context(shown)
}

//! `freshet router` in a program that was built without it: it says so, and how to get it.

use anyhow::{Result, bail};
use clap::Args;
use std::process::ExitCode;

/// Break out a mobile network's traffic at its edge. This program was built without it.
#[derive(Args)]
pub(crate) struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    rest: Vec<String>,
}

/// Says what is missing.
///
/// # Errors
/// Always.
pub(crate) fn run(_: Arguments) -> Result<ExitCode> {
    bail!(
        "this program was built without the edge router, whose programs for the kernel need clang; \
         build it with `cargo build --release -p freshet-cli --features router`"
    );
}

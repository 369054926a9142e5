//! The form in which commands print facts.

use crate::client::Answer;
use crate::text::print;
use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::Value;
use std::process::ExitCode;

/// The flags for it, the same at each command that prints facts.
#[derive(Args, Clone, Copy)]
pub(crate) struct FormArguments {
    /// How to say it.
    #[arg(long, value_enum, default_value_t = Form::Text, value_name = "FORMAT")]
    format: Form,
    /// The same as --format json.
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

/// Forms there are. JSON is one document on standard output, or one a line where things come one after
/// another.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Form {
    Text,
    Json,
}

impl FormArguments {
    /// As where nothing is said.
    #[cfg(feature = "router")]
    pub(crate) const TEXT: Self = Self { format: Form::Text, json: false };

    /// Whether it is JSON that is asked for.
    pub(crate) fn is_json(self) -> bool {
        self.json || self.format == Form::Json
    }

    /// Prints what a node answered: as it is, or as `shown` makes of it for people.
    pub(crate) fn print(
        self,
        answer: &Answer,
        shown: impl FnOnce(&Value) -> String,
    ) -> Result<ExitCode> {
        let text =
            if self.is_json() { format!("{}\n", answer.body) } else { shown(&answer.json()?) };
        print(&text).map(|()| ExitCode::SUCCESS)
    }
}

//! The project's own style, written as tests.
//!
//! Nothing depends on this crate and it depends on no other room. Its tests (`tests/tidy/`) read the
//! workspace as text: who uses whom, what has a reason written down, which words may not appear.
//! A failing test prints each offending place as `path:line` and one sentence on what to do.
//!
//! What is here is what those tests share: finding the files of the project and looking at their
//! lines. The clippy and rustfmt settings do the rest; a rule belongs here only when they cannot
//! express it.
//!
//! Run them alone with `cargo test -p freshet-tidy`.

#![forbid(unsafe_code)]

mod rust;
mod tree;

pub use rust::{code_of, product, product_lines};
pub use tree::{SourceFile, crates, files, root};

/// Fails with the list of offending places, or does nothing when there are none.
///
/// `rule` says what is wrong, `advice` what to do about it; each place is one line of the message.
///
/// # Panics
///
/// When `places` is not empty: that is how a tidy test fails.
pub fn expect_none(places: &[String], rule: &str, advice: &str) {
    assert!(places.is_empty(), "{rule}:\n  {}\n\n{advice}\n", places.join("\n  "));
}

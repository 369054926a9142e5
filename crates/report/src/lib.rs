//! Reports: one tree of headings, paragraphs, key figures, tables and plots, written as a page or
//! as text.
//!
//! What it owns:
//! - [`document`]: the tree, [`table`] and [`plot`] its larger leaves;
//! - [`html`]: the tree as one self-contained page: styles inline, plots as inline SVG, no script,
//!   light and dark, readable on a telephone and on paper;
//! - [`text`]: the same tree for a terminal of 80 columns, without the plots;
//! - [`csv`]: a table for a spreadsheet;
//! - [`number`]: numbers as people read them.
//!
//! What it must never know: where a figure comes from, files, clocks. Whoever makes the tree has
//! the figures, whoever asked for the page writes it to a file. Everything that is text is escaped
//! here and nowhere else; a value that is not finite leaves a gap, so every function is total.
//!
//! ```
//! use freshet_report::{Axis, Document, KeyFigure, Plot, Section, Series, Verdict};
//!
//! let throughput = Plot::lines("Throughput", Axis::new("channels"), Axis::new("rate").unit("Gbit/s"))
//!     .series(Series::new("memory", vec![(100.0, 33.0), (175.0, 42.5), (250.0, 42.4)]))
//!     .limit("wanted", 40.0);
//! let document = Document::new("A run").with(
//!     Section::new("Result")
//!         .with(KeyFigure::new("peak", "42.5 Gbit/s").limit("40 Gbit/s").verdict(Verdict::Pass))
//!         .with(throughput),
//! );
//! let page = freshet_report::html::page(&document);
//! assert!(page.starts_with("<!DOCTYPE html>"));
//! let text = freshet_report::text::render(&document);
//! assert!(text.lines().all(|line| line.chars().count() <= freshet_report::text::COLUMNS));
//! ```
#![forbid(unsafe_code)]

pub mod csv;
pub mod document;
mod escape;
pub mod html;
pub mod number;
pub mod plot;
mod scale;
mod svg;
pub mod table;
pub mod text;

pub use document::{Block, Document, KeyFigure, Section, Verdict};
pub use plot::{Axis, Plot, Scale, Series};
pub use table::{Align, Cell, Column, Table};

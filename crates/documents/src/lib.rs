//! What the interfaces of ETSI GS MEC have in common (ETSI GS MEC 009): documents in one tree, the tables that say what
//! they are and who may ask for them how, and queries.
//!
//! What it owns:
//! - [`table`]: interfaces as tables of paths, methods, types and scopes, from which routes and OpenAPI documents
//!   follow;
//! - [`shape`]: what a document has to be, and all that is wrong with one;
//! - [`tree`]: documents by their paths, with versions and owners;
//! - [`query`]: which documents of a collection, which of their members, which page;
//! - [`problem`], [`time`]: what a client is told when something is wrong, and times as the standard writes them.
//!
//! What it must never know: sockets, files, clocks, and what an interface does beyond its table.
//!
//! ```
//! use freshet_documents::{table, tree::{Change, Tree}};
//! use serde_json::json;
//!
//! let text = "api notes v1 Notes\n/notes/{id}\n  get read Note\ntype Note\n  text string";
//! let table = table::read(&[("notes", text)]).unwrap();
//! let route = table.route("/notes/v1/notes/one").unwrap();
//! let mut tree = Tree::default();
//! tree.apply(Change::put(route.path(), json!({ "text": "first" }), None));
//! assert_eq!(tree.get("/notes/v1/notes/one").unwrap().version, 1);
//! ```
#![forbid(unsafe_code)]

pub mod limits;
pub mod problem;
pub mod query;
pub mod shape;
pub mod table;
pub mod time;
pub mod tree;

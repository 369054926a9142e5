//! What the operator decides: `freshet.toml` and the flags that stand for some of its keys.

pub mod document;
pub mod keys;
pub mod lower;
pub mod reference;
pub mod settings;

pub use document::Document;
pub use settings::Settings;

//! What the operator decides: `freshet.toml` and the flags that stand for some of its keys.

pub mod cache;
pub mod document;
pub mod fleet;
mod key;
pub mod keys;
pub mod limits;
pub mod listeners;
pub mod lower;
pub mod media;
pub mod mistake;
mod nearest;
pub mod origins;
pub mod parents;
pub mod reference;
pub mod rules;
pub mod settings;
pub mod site;
pub mod stores;
pub(crate) mod values;

pub use document::Document;
pub use mistake::Mistake;
pub use settings::Settings;
pub use site::SiteSettings;

//! What editors ask about policies: what can be written at a place, and what a word there means.

mod completion;
mod meanings;
mod scan;

pub use completion::{Item, completed};
pub use meanings::meaning;
pub use scan::is_word;

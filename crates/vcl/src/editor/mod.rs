//! What editors ask about policies: what can be written at a place, and what a word there means.

mod completion;
mod documents;
mod meanings;
mod scan;

pub use completion::{Item, completed};
pub use documents::Documents;
pub use meanings::meaning;
pub use scan::is_word;

//! Where a response may be kept, as rules and policies say it.

use std::sync::Arc;

/// Where a response may be kept.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Storage {
    /// As the configuration says: by path, length and lifetime.
    #[default]
    Configured,
    /// In memory only, in whatever classes of memory there are.
    Memory,
    /// Besides in memory on the stores of this class (`store.class`), as far as these take it.
    Class(Arc<str>),
}

impl Storage {
    /// The storage a policy or a rule names: `ram`, `s0` and `Transient` are memory, anything else
    /// is a class of stores.
    pub fn named(name: &str) -> Self {
        match name {
            "ram" | "s0" | "Transient" => Self::Memory,
            class => Self::Class(class.into()),
        }
    }

    /// The class of stores it names, if it does.
    pub fn class(&self) -> Option<&str> {
        if let Self::Class(class) = self { Some(class) } else { None }
    }
}

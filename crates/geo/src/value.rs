//! A value of a database, as text.

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// A single value; `None` is a map, a list or bytes, which have no text.
pub(crate) struct Scalar(pub(crate) Option<String>);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

/// Any of these as its text.
macro_rules! as_text {
    ($($visit:ident: $kind:ty),*) => {
        $(fn $visit<E>(self, value: $kind) -> Result<Scalar, E> {
            Ok(Scalar(Some(value.to_string())))
        })*
    };
}

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    as_text!(visit_str: &str, visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_u128: u128);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    /// With six places, as the module for Varnish shows it.
    fn visit_f64<E>(self, value: f64) -> Result<Scalar, E> {
        Ok(Scalar(Some(format!("{value:.6}"))))
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Scalar, E> {
        Ok(Scalar(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Scalar, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar(None))
    }
}

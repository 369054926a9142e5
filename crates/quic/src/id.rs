//! Connection ids (RFC 9000 §5.1).

/// The most bytes an id has in version 1.
pub const ID_BYTES_MAX: usize = 20;

/// A name under which packets of a connection come.
#[derive(Clone, Copy, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Id {
    len: u8,
    bytes: [u8; ID_BYTES_MAX],
}

impl Id {
    /// The id with these bytes; `None` where they are too many.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut id = Self { len: u8::try_from(bytes.len()).ok()?, ..Self::default() };
        id.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(id)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&[])
    }
}

impl std::fmt::Debug for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

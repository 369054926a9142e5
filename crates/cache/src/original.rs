//! What a copy was made of, and whether it is still so.

use crate::object::{Object, StoredHead};
use std::sync::Arc;

/// What a copy was made of.
pub(crate) struct Original {
    pub(crate) object: Arc<Object>,
    /// The head at that time.
    pub(crate) head: Arc<StoredHead>,
}

impl Original {
    pub(crate) fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// Whether a copy of it answers as it would. Reads its memory and does not write to it.
    pub(crate) fn is_current(&self) -> bool {
        self.object.is_indexed()
            && self.object.soft_purged_at().is_none()
            && self.object.has_head(&self.head)
    }
}

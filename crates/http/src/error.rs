//! What can be wrong with the text this crate reads or is asked to write.

use thiserror::Error;

/// The errors of this crate. Variants name who is to blame.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum HttpError {
    /// A `Host` field or the authority of a target is not one (RFC 9110 §7.2).
    #[error("the host is not valid: {0}")]
    ClientAuthority(&'static str),
    /// A request target is not one (RFC 9112 §3.2).
    #[error("the request target is not valid: {0}")]
    ClientTarget(&'static str),
    /// A structured field does not parse (RFC 9651 §4.2); who sent it depends on the field.
    #[error("structured field: expected {expected} at byte {at}")]
    PeerStructuredField {
        /// Offset into the combined field value.
        at: usize,
        /// What should have been there.
        expected: &'static str,
    },
    /// A value that has no form as a structured field (RFC 9651 §4.1).
    #[error("a structured field cannot carry {0}")]
    LocalStructuredField(&'static str),
}

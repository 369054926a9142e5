//! `Cache-Status` (RFC 9211).

/// Why a request went to the origin (RFC 9211 §2.2).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Forward {
    /// The cache was not to handle the request.
    Bypass,
    /// The method asks for the origin.
    Method,
    /// Nothing was stored for the target.
    UriMiss,
    /// What was stored did not fit the request.
    VaryMiss,
    /// What was stored was not enough, where it is not known which of the two.
    Miss,
    /// What was stored was good, and the client asked for the origin.
    Request,
    /// What was stored was stale.
    Stale,
    /// Only parts of the response were stored.
    Partial,
}

//! Why a manifest is not read.

use crate::limits::{
    LINES_MAX, MADE_BYTES_MAX, MANIFEST_BYTES_MAX, REFERENCE_BYTES_MAX, REPRESENTATIONS_MAX,
    RUNS_MAX, XML_DEPTH_MAX,
};
use thiserror::Error;

/// Why a response that says it is a manifest is not read. It is the origin's doing each time, and the
/// response is served all the same.
#[derive(Clone, Copy, Debug, Eq, Error, Hash, PartialEq)]
#[non_exhaustive]
pub enum Unreadable {
    /// Not a manifest at all.
    #[error(
        "it does not begin with #EXTM3U, has no tag of HLS behind that, or its root is not MPD"
    )]
    OriginNoManifest,
    /// Longer than [`MANIFEST_BYTES_MAX`]; or what references are put together of is longer than
    /// [`REFERENCE_BYTES_MAX`], or all of these are than [`MADE_BYTES_MAX`].
    #[error(
        "it has more than {MANIFEST_BYTES_MAX} bytes, {REFERENCE_BYTES_MAX} in a part of a reference, \
         or {MADE_BYTES_MAX} in all references"
    )]
    OriginTooLong,
    /// More than [`LINES_MAX`] lines, or elements, or what else is counted.
    #[error(
        "it has more than {LINES_MAX} lines, {RUNS_MAX} runs or {REPRESENTATIONS_MAX} \
         representations"
    )]
    OriginTooMany,
    /// Elements inside each other, more than [`XML_DEPTH_MAX`].
    #[error("its elements are more than {XML_DEPTH_MAX} deep")]
    OriginTooDeep,
    /// Bytes that are no UTF-8 (RFC 8216 §4).
    #[error("it is not UTF-8")]
    OriginNoText,
    /// A document type or an entity of its own: how small documents become large ones.
    #[error("it declares a document type or uses an entity that XML does not predefine")]
    OriginEntities,
    /// No XML.
    #[error("it is not well-formed XML")]
    OriginNoXml,
}

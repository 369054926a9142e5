//! Edge side includes (W3C Note of 4 August 2001): pages whose parts are responses of their own.
//!
//! A page is parsed once, while it comes from its origin (`parse`), and kept as a row of parts
//! (`parts`): text, markup that is not for clients, and includes. A delivery walks along the
//! parts and asks for each include as for any request (`assemble`): from the cache, by a fetch
//! that others share, passed, or made up. Parts are packed one by one where the page is kept under
//! gzip, so that they can be put together without packing anything again.
//!
//! What is understood: `<esi:include src onerror/>`, `<esi:remove>`, `<esi:comment/>`,
//! `<!--esi … -->`. Comments, CDATA sections and all other text go through as they are.

pub mod parse;
pub mod parts;
pub mod split;

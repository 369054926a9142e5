//! What edge side includes may do.

use std::time::Duration;

/// What is allowed and what is overlooked.
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of the configuration")]
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct EsiSettings {
    /// Includes within includes; what is deeper is left out and breaks the response off, unless
    /// `onerror="continue"` says otherwise.
    pub depth_max: u32,
    /// Includes of one page and all within it; what is more is left out as what is too deep.
    pub includes_max: u32,
    /// Bytes of a page and all within it as they are given to its client; what is longer breaks off.
    pub bytes_max: u64,
    /// How long a page may have nothing for its client, in all; it breaks off then.
    pub timeout: Duration,
    /// Whether a page has to begin with `<` to be looked at: it hardly is one otherwise, and
    /// bytes of a picture may look like a tag.
    pub check_markup: bool,
    /// Whether `https://` in `src` is asked for as `http://`, which TLS at the origins' side
    /// makes of it again; otherwise such includes are left out.
    pub https_as_http: bool,
    /// Whether a byte order mark in front is taken off.
    pub remove_bom: bool,
    /// Whether tags of other languages are text, also where an include is within one.
    pub ignore_other_elements: bool,
    /// Whether an include that fails breaks the response off unless it says
    /// `onerror="continue"`; otherwise the failure's page is what is included.
    pub obey_onerror: bool,
}

/// More than any page has that people made, and as little work as a thousand hits.
const INCLUDES_MAX: u32 = 1000;
/// The same for its length.
const BYTES_MAX: u64 = 64 << 20;
/// Two includes that an origin takes the longest time for which it is waited.
const TIMEOUT: Duration = Duration::from_secs(120);

impl Default for EsiSettings {
    fn default() -> Self {
        Self {
            // Varnish's: a page, its frames, and what is in those.
            depth_max: 5,
            includes_max: INCLUDES_MAX,
            bytes_max: BYTES_MAX,
            timeout: TIMEOUT,
            check_markup: true,
            https_as_http: false,
            remove_bom: false,
            ignore_other_elements: false,
            obey_onerror: false,
        }
    }
}

//! What an authority may cost.

use std::time::Duration;

/// Bytes of one answer. A chain has some 5 KiB, a directory one.
pub(crate) const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Time for one answer, from the name's look-up to its last byte.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// Time in which an operator's service says whether a name is to have a certificate.
pub(crate) const ASK_WITHIN: Duration = Duration::from_secs(5);
/// What happens with every client is in the log once in so long.
pub(crate) const LOG_EVERY: Duration = Duration::from_secs(60);
/// How long its no is remembered, and that there are as many names as there may be.
pub(crate) const NO_FOR: Duration = Duration::from_secs(60);
/// How long nobody is asked for a name about which nothing could be learnt.
pub(crate) const UNKNOWN_FOR: Duration = Duration::from_secs(5);
/// How long a name keeps its certificate, where that is to be renewed and nothing could be learnt.
pub(crate) const ASK_AGAIN_AFTER: Duration = Duration::from_secs(600);
/// Names whose clients wait at a time; the service is asked about as many.
pub(crate) const AWAITED_MAX: usize = 64;
/// Names that are known not to have a certificate for now; with more, the one for which that is over first is asked about again.
pub(crate) const REFUSED_MAX: usize = 4096;
/// Time for one order, from the first question to the certificate. It goes on at the next attempt.
pub(crate) const ORDER_WITHIN: Duration = Duration::from_secs(180);
/// How often one request is sent again because the authority did not like its nonce (RFC 8555 §6.5).
pub(crate) const NONCE_RETRIES_MAX: usize = 5;
/// Nonces that are kept for later requests.
pub(crate) const NONCES_MAX: usize = 4;
/// Hosts that an authority's URLs may name.
pub(crate) const HOSTS_MAX: usize = 8;
/// Bytes of a URL or a nonce of the authority.
pub(crate) const TEXT_BYTES_MAX: usize = 2048;
/// Authorizations of an order and challenges of one: an order here is for one name.
pub(crate) const LIST_MAX: usize = 16;
/// Certificates in a chain.
pub(crate) const CHAIN_MAX: usize = 10;
/// Characters of an authority's words that are shown.
pub(crate) const SHOWN_CHARS_MAX: usize = 300;
/// Bytes of a file of the state directory.
pub(crate) const FILE_BYTES_MAX: u64 = 256 << 10;
/// Longest time that an authority's `Retry-After` is believed.
pub(crate) const RETRY_AFTER_MAX: Duration = Duration::from_secs(7 * 86_400);

//! Who has how much of what all share.
//!
//! | what | counted by | words | over it |
//! |---|---|---|---|
//! | memory that responses keep while their clients are waited for | [`network`] | a response *holds* ([`readers`]) | it goes on from copies, or ends |
//! | memory that requests under way cost | connection | a request is *charged* ([`requests`]) | it is refused |
//! | connections to an origin | [`network`] | a *party* ([`freshet_origin::Party`]) | it waits, then 503 |
//! | memory of bodies that are being filled | all together | a fill *claims* ([`freshet_store::Arena::set_fill_limit`]) | it passes through a window |
//!
//! What was handed to the kernel is in none of these: a socket's buffer is bounded by the kernel, and
//! pieces that were lent to it stay held by the response that lent them until the socket took all.

pub mod network;
pub mod readers;
pub mod requests;

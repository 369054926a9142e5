//! Where a cache by RFC 9111 and a policy language part: what the machine decides itself, and what it
//! leaves to the policy.
//!
//! Each decision has a name and is looked at where it matters, so that a site with another mixture
//! is another value of [`Semantics`] and nothing else. [`Manners`] is the same for sessions.

use freshet_net::proxy;
use freshet_wire::h2::{Conduct, conduct};

/// What the machine does beside the policy. Two mixtures exist: [`RFC_9111`] and [`VCL`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Semantics {
    /// A byte range that makes no sense is refused with 416 (as Varnish does), and a range is not
    /// answered with 304 by a weak validator; otherwise such a range means nothing (RFC 9110 §14.2).
    pub is_strict_with_ranges: bool,
    /// Conditions of a GET that was passed are looked at here as well: the origin may not have.
    pub judges_passed_conditions: bool,
    /// A 304 and a 416 have the fields the policy left; otherwise none that describes content that
    /// is not there (RFC 9110 §15.4.5).
    pub keeps_fields_without_content: bool,
    /// The content of a request that is looked up goes to the origin; otherwise it means nothing
    /// (RFC 9110 §9.3.1).
    pub sends_content_of_lookups: bool,
    /// A fetch somebody waited for and that failed is a page of the policy's.
    pub pages_failures: bool,
    /// A tunnel is made for any protocol; otherwise for those of `origins.upgrades`.
    pub tunnels_any_protocol: bool,
    /// Origins get what the policy left of the request, and clients what it left of an answer; otherwise what no
    /// key knows stays here, the request says whom it came through, and what forbids a change has none.
    pub forwards_as_it_is: bool,
    /// What an answer is for, and whether it may be kept, is judged by the client's request; otherwise by the one
    /// that its origin got.
    pub judges_by_client: bool,
    /// The policy makes requests and keys of its own of what comes, so that it has to be asked what another request
    /// would be; otherwise authority and target say so.
    pub makes_own_keys: bool,
    /// Answers that contradict themselves are refused before the policy sees them.
    pub refuses_bogus_answers: bool,
    /// The policy sees what an answer says of its connection, and may say it to the client.
    pub speaks_of_connections: bool,
    /// A 304 renews what is stored whichever validator it names.
    pub trusts_any_304: bool,
    /// What is stale is served in place of an error before the policy is asked (RFC 5861 §4).
    pub serves_stale_on_error: bool,
    /// Any answer that is not kept ends what is stored in its place; otherwise one that is for nobody else, and no error
    /// that passes.
    pub ends_stored_by_all_not_kept: bool,
    /// Unsafe methods invalidate, and answers to POST may be kept (RFC 9111 §4.4, RFC 9110 §9.3.3).
    pub follows_methods: bool,
    /// Parts of a file are asked for as such, and again without a range where that is refused; otherwise all of it
    /// is fetched.
    pub asks_for_parts: bool,
    /// An answer that arrives stale does not take the place of what is fresh.
    pub keeps_fresh_over_stale: bool,
    /// Bodies under gzip are unpacked for who does not take it, where nothing else is said.
    pub codes_gzip: bool,
    /// A response has a date, whatever the policy made of it (RFC 9110 §6.6.1).
    pub dates_responses: bool,
    /// Bodies are kept in the codings that the configuration names.
    pub keeps_codings: bool,
    /// A client takes gzip where its request has the name, whatever weight it has (as Varnish does).
    pub finds_gzip_by_name: bool,
    /// The policy sees the head of what is unpacked for a client as it will be, and heads of that count as
    /// bodies do.
    pub shows_unpacked: bool,
    /// Responses with cookies are kept where the policy says so; otherwise `cache.set_cookie` does.
    pub keeps_cookies: bool,
}

/// A shared cache (RFC 9111) that trusts neither side.
pub const RFC_9111: Semantics = Semantics {
    is_strict_with_ranges: false,
    judges_passed_conditions: false,
    keeps_fields_without_content: false,
    sends_content_of_lookups: false,
    pages_failures: false,
    tunnels_any_protocol: false,
    forwards_as_it_is: false,
    judges_by_client: false,
    makes_own_keys: false,
    refuses_bogus_answers: false,
    speaks_of_connections: false,
    trusts_any_304: false,
    serves_stale_on_error: true,
    ends_stored_by_all_not_kept: false,
    follows_methods: true,
    asks_for_parts: true,
    keeps_fresh_over_stale: false,
    codes_gzip: false,
    dates_responses: true,
    keeps_codings: true,
    finds_gzip_by_name: false,
    shows_unpacked: false,
    keeps_cookies: false,
};

/// What a VCL program expects: it decides, and sees what Varnish shows it.
pub const VCL: Semantics = Semantics {
    is_strict_with_ranges: true,
    judges_passed_conditions: true,
    keeps_fields_without_content: true,
    sends_content_of_lookups: true,
    pages_failures: true,
    tunnels_any_protocol: true,
    forwards_as_it_is: true,
    judges_by_client: true,
    makes_own_keys: true,
    refuses_bogus_answers: true,
    speaks_of_connections: true,
    trusts_any_304: true,
    serves_stale_on_error: false,
    ends_stored_by_all_not_kept: true,
    follows_methods: false,
    asks_for_parts: false,
    keeps_fresh_over_stale: true,
    codes_gzip: true,
    dates_responses: false,
    keeps_codings: false,
    finds_gzip_by_name: true,
    shows_unpacked: true,
    keeps_cookies: true,
};

/// How sessions speak where servers differ. It holds for a node: whose policy a request is for is
/// known when its head was read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Manners {
    /// Whether HTTP/2 is spoken with who begins with it in the clear; otherwise the connection is closed.
    pub takes_http2: bool,
    /// Whether one that begins with HTTP/1.1 may go on in HTTP/2, by `Upgrade: h2c` (RFC 7540 §3.2), where
    /// that is spoken in the clear.
    pub upgrades_to_http2: bool,
    /// Of connections in HTTP/2.
    pub http2: Conduct,
    /// Of what stands in front of connections through proxies.
    pub proxied: proxy::Conduct,
    /// A client that closes its side while it waits is noticed, and nobody works for it any more.
    pub notices_leaving: bool,
    /// What is no request gets a page that says why; otherwise an empty one, and none where the head
    /// was too large.
    pub explains_refusals: bool,
    /// A body that nobody takes is read before its request is answered, in HTTP/2.
    pub reads_unwanted_bodies: bool,
    /// A request whose body breaks off by a mistake of the client's goes on to where the body ends, in
    /// HTTP/2; otherwise it is over at once.
    pub shows_broken_bodies: bool,
    /// A policy that asks for a body which cannot be kept ends its connection without an answer; otherwise
    /// it hears of it and goes on.
    pub hangs_up_without_body: bool,
    /// Responses may have no more fields than requests, as policies leave them.
    pub limits_response_fields: bool,
    /// The `Server` of what a policy makes itself.
    pub server: Option<&'static str>,
}

/// As the protocols ask, and helpful where they leave it open.
pub const PLAIN: Manners = Manners {
    takes_http2: true,
    upgrades_to_http2: false,
    http2: conduct::RFC_9113,
    proxied: proxy::SPECIFIED,
    notices_leaving: true,
    explains_refusals: true,
    reads_unwanted_bodies: false,
    shows_broken_bodies: false,
    hangs_up_without_body: false,
    limits_response_fields: false,
    server: None,
};

/// As Varnish does.
pub const VARNISH: Manners = Manners {
    takes_http2: true,
    upgrades_to_http2: true,
    http2: conduct::VARNISH,
    proxied: proxy::VARNISH,
    notices_leaving: false,
    explains_refusals: false,
    reads_unwanted_bodies: true,
    shows_broken_bodies: true,
    hangs_up_without_body: true,
    limits_response_fields: true,
    server: Some("Varnish"),
};

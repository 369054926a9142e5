//! The bounds of this room, with their reasons.

/// Longest token, and longest signed text. The longest head a node takes is 32 KiB; tokens that
/// anybody makes are below 2.
pub const TOKEN_BYTES_MAX: usize = 8 << 10;
/// Tokens that a verifier remembers as good.
pub const SEEN_MAX: usize = 16_384;
/// Tokens for one use that are remembered as used, and those refused by chance: some 5 MiB. Where all are
/// good for longer, further ones for one use are refused.
pub const USED_MAX: usize = 1 << 17;
/// Seconds for which a token is refused that was refused by chance, where nothing says how long.
pub const REFUSED_S: u64 = 24 * 3600;
/// What a regular expression of a token may take when it is compiled.
pub const EXPRESSION_BYTES_MAX: usize = 64 << 10;
/// Keys of a verifier: while they rotate there are two or three.
pub const KEYS_MAX: usize = 64;
/// Shortest RSA modulus. Shorter ones have been factored.
pub const RSA_BITS_MIN: usize = 2048;
/// Shortest secret of an HMAC in a JSON Web Key (RFC 7518 §3.2). Secrets in plain files may be
/// shorter, as those of others are.
pub const HS256_BYTES_MIN: usize = 32;
/// Cookies of one name that are looked at: a site's own, a renewal, and those of other paths. Each may cost a signature.
pub const COOKIES_MAX: usize = 4;
/// Patterns of one EdgeAuth token.
pub const PATTERNS_MAX: usize = 64;
/// How deep the claims of a token may be nested.
pub const DEPTH_MAX: usize = 8;
/// Claims of a token, and entries of a list or a map among them.
pub const ENTRIES_MAX: usize = 256;

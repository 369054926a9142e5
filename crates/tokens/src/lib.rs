//! Whether a request has a token that lets it in.
//!
//! A [`Verifier`] is made of a [`Scheme`] and of [`Keys`], and is asked about each request:
//!
//! - [`Scheme::SecureLink`]: URLs as nginx's `secure_link` signs them, with MD5, or with HMAC-SHA256;
//! - [`Scheme::EdgeAuth`]: Akamai's EdgeAuth token 2.0;
//! - [`Scheme::CloudFront`]: URLs and cookies signed for CloudFront, by a canned or a custom policy;
//! - [`Scheme::Jwt`]: JSON Web Tokens (RFC 7519) under HS256, ES256, RS256 or EdDSA;
//! - [`Scheme::Cat`]: Common Access Tokens (CTA-5007): CWTs (RFC 8392) in COSE (RFC 9052).
//!
//! What a signature may be made with follows from the key, never from the token: a key of one kind has
//! one algorithm, so nobody can have a public key taken for a secret, and there is no `none`. Secrets
//! and MACs are compared in constant time. A claim that is not understood lets nobody in.
//!
//! [`passwords`] checks names and passwords against files of hashes.
//!
//! It does no I/O and reads no clock: keys are bytes, time is a part of the [`Question`].
//!
//! ```
//! use freshet_tokens::{Denied, Keys, Question, Scheme, SecureLink, Verifier};
//!
//! let keys = Keys::read([("link", b"secret".as_slice())]).unwrap();
//! let link = SecureLink::md5("$secure_link_expires$uri$remote_addr $secret").unwrap();
//! let verifier = Verifier::new(Scheme::SecureLink(link), keys, [7; 16]);
//! let mut question = Question::get("http", "example.test", "", 1_700_000_000);
//! question.client = Some([127, 0, 0, 1].into());
//! question.target = "/s/link?md5=_e4Nc3iduzkWRm01TBBNYw&expires=2147483647";
//! assert!(verifier.verify(&question).is_ok());
//! question.target = "/s/other?md5=_e4Nc3iduzkWRm01TBBNYw&expires=2147483647";
//! assert_eq!(verifier.verify(&question).unwrap_err(), Denied::Signature);
//! ```

#![forbid(unsafe_code)]

mod cat;
mod cloudfront;
mod denied;
mod edge_auth;
mod jwt;
mod key_files;
mod keys;
pub mod limits;
pub mod memory;
mod network;
pub mod passwords;
mod question;
mod revoked;
mod secure_link;
mod seen;
mod text;
mod times;
mod used;
mod verifier;

pub use cat::Cat;
pub use cloudfront::CloudFront;
pub use denied::Denied;
pub use edge_auth::EdgeAuth;
pub use jwt::Jwt;
pub use keys::{KeyError, Keys};
pub use question::{Parts, Place, Places, Question, Source, referer_without, without_token};
pub use revoked::Revoked;
pub use secure_link::{ExpressionError, SecureLink};
pub use used::Used;
pub use verifier::{Claims, Grant, Granted, Scheme, Verifier};

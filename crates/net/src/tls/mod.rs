//! TLS 1.2 and 1.3: handshakes by rustls with the AWS-LC provider, records by rustls or our own.
//!
//! rustls does the handshake and the key schedule on both sides. Towards clients the module
//! `handoff` takes the keys over when the handshake is done, and `records` seals and opens from
//! there on; towards origins rustls does its own records, in `session`. [`server`] and [`client`]
//! make configurations and run handshakes, [`certificate`] keeps what a server proves its names
//! with, [`on_demand`] gets what is missing, [`challenge`] proves names to an authority, [`client_auth`]
//! checks what clients prove theirs with, [`ticket`] lets clients come back without a full handshake,
//! [`ticket_files`] and [`ticket_clock`] at other nodes too, and `continued` says whom. [`HandshakeContext`] is what
//! they know of one handshake.

pub mod certificate;
pub mod challenge;
pub mod client;
pub mod client_auth;
mod continued;
pub mod early;
mod handoff;
mod handshake;
mod handshake_context;
mod mask;
mod ocsp;
pub mod on_demand;
mod pem;
pub(crate) mod records;
pub mod server;
pub(crate) mod session;
pub mod ticket;
pub mod ticket_clock;
pub mod ticket_files;
pub mod validity;

pub use handshake_context::HandshakeContext;

use client_auth::ClientCertificate;
use freshet_quic::cipher::with_ciphers;
use freshet_wire::tls::{Cipher, TrafficKey};
use rustls::crypto::CryptoProvider;
use rustls::{
    CipherSuite, CommonState, ConnectionTrafficSecrets, HandshakeKind, NamedGroup, ProtocolVersion,
};
use std::sync::{Arc, LazyLock};

/// The protocol name of HTTP/1.1 in ALPN (RFC 7301 §6).
pub const ALPN_HTTP_1_1: &[u8] = b"http/1.1";

/// The protocol name of HTTP/3 in ALPN (RFC 9114 §3.1).
pub const ALPN_HTTP_3: &[u8] = freshet_wire::h3::ALPN;

/// The protocol name of HTTP/2 over TLS in ALPN (RFC 9113 §3.1).
pub const ALPN_HTTP_2: &[u8] = b"h2";

/// The protocol name under which a handshake proves a name to an authority (RFC 8737 §4).
pub const ALPN_ACME_TLS: &[u8] = b"acme-tls/1";

/// What a handshake agreed on.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TlsInfo {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// The cipher suite's registered name.
    pub suite: &'static str,
    /// The name the client asked for, lower case. Known on the server side only.
    pub sni: Option<Box<str>>,
    /// The protocol agreed on.
    pub alpn: Option<Box<[u8]>>,
    /// Whether the session continues an earlier one.
    pub resumed: bool,
    /// The certificate the client showed and has the key of. Whose it is was verified where the
    /// listener has authorities, and not where its sites have. Known on the server side only.
    pub client: Option<Arc<ClientCertificate>>,
    /// Whether the client was asked for a certificate, in this handshake or in the one whose session it continues.
    /// Known on the server side only.
    pub was_asked: bool,
}

impl TlsInfo {
    /// What `state` agreed on as a server, with what else is known of the handshake.
    fn of_server(state: &CommonState, context: &HandshakeContext) -> Self {
        Self {
            client: state.peer_certificates().and_then(ClientCertificate::read).map(Arc::new),
            was_asked: context.was_asked(),
            ..Self::of(state, context.name().map(Into::into))
        }
    }

    /// What a handshake over QUIC agreed on.
    pub fn of_quic(
        connection: &rustls::quic::ServerConnection,
        context: &HandshakeContext,
    ) -> Self {
        Self::of_server(connection, context)
    }

    /// What `state` agreed on, with the name the client asked for.
    fn of(state: &CommonState, sni: Option<Box<str>>) -> Self {
        Self {
            version: match state.protocol_version() {
                Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
                Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
                _ => "",
            },
            suite: state
                .negotiated_cipher_suite()
                .and_then(|suite| suite.suite().as_str())
                .unwrap_or_default(),
            sni,
            alpn: state.alpn_protocol().map(Into::into),
            resumed: state.handshake_kind() == Some(HandshakeKind::Resumed),
            client: None,
            was_asked: false,
        }
    }
}

/// A key of rustls as one for our records.
fn traffic_key(secrets: &ConnectionTrafficSecrets) -> Result<TrafficKey, rustls::Error> {
    let (cipher, key, iv) = match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (Cipher::Aes128Gcm, key, iv),
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (Cipher::Aes256Gcm, key, iv),
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
            (Cipher::Chacha20Poly1305, key, iv)
        }
        _ => return Err(rustls::Error::General("a cipher our records do not know".into())),
    };
    let unusable = || rustls::Error::General("a key that does not fit its cipher".into());
    let iv = iv.as_ref().try_into().map_err(|_| unusable())?;
    TrafficKey::new(cipher, key.as_ref(), iv).map_err(|_| unusable())
}

/// The cryptography everything here uses, made once. Suites with AES-128 come first: they are the
/// cheapest to seal with, and their key schedule uses SHA-256, which processors compute themselves;
/// SHA-384 was a quarter of a full handshake. Of groups the hybrid one comes first, so that servers are
/// offered it with a share; as servers we take what the client prefers.
fn provider() -> &'static Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        provider.cipher_suites.sort_by_key(|suite| !is_aes_128(suite.suite()));
        provider.kx_groups.sort_by_key(|group| group.name() != NamedGroup::X25519MLKEM768);
        Arc::new(mask::with_unmasking(with_ciphers(provider)))
    });
    &PROVIDER
}

fn is_aes_128(suite: CipherSuite) -> bool {
    matches!(
        suite,
        CipherSuite::TLS13_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
    )
}

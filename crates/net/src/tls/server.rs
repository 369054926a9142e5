//! TLS towards clients.

use crate::error::NetError;
use crate::socket::Socket;
use crate::stream::Stream;
use crate::tls::certificate::CertificateStore;
use crate::tls::client_auth::{AsksClients, BySite, ClientAuth};
use crate::tls::continued::{Continued, Tickets};
use crate::tls::handoff::Handoff;
use crate::tls::handshake::Failure;
use crate::tls::session::Session;
use crate::tls::ticket::TicketKeys;
use crate::tls::{ALPN_HTTP_1_1, HandshakeContext, handshake, provider};
use rustls::server::NoServerSessionStorage;
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The oldest version of TLS a listener speaks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum MinVersion {
    /// TLS 1.2 (RFC 5246) with forward secrecy and AEAD only, and TLS 1.3.
    #[default]
    Tls12,
    /// TLS 1.3 (RFC 8446) alone.
    Tls13,
}

/// How a listener speaks TLS.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Protocols accepted, best first; the server's order decides. A client that offers only
    /// others is refused (RFC 7301 §3.2), one that offers none is not.
    pub alpn: Vec<Vec<u8>>,
    /// Keys of session tickets, shared by all workers. `None` means a full handshake every time.
    pub tickets: Option<Arc<TicketKeys>>,
    /// Oldest version accepted.
    pub min_version: MinVersion,
    /// Whose certificates clients are asked for; `None` asks for none. Where they are, sessions are
    /// not continued whatever `tickets` says: a certificate that has expired, or that another
    /// listener asked for, would be good for as long as the ticket.
    pub client_auth: Option<ClientAuth>,
    /// Who says of which names clients are asked for a certificate, where `client_auth` is `None`. What
    /// they show is not looked at here but for that they have its key. It says which sessions are continued, too.
    pub asks: Option<Arc<dyn AsksClients>>,
    /// Whether clients may continue sessions with early data, over QUIC alone, where sessions are
    /// continued. [`EarlySessions`](crate::tls::early::EarlySessions) then take the place of `tickets`.
    pub takes_early_data: bool,
}

impl Default for ServerOptions {
    /// `http/1.1`, TLS 1.2 and 1.3, no tickets, no certificates of clients.
    fn default() -> Self {
        Self {
            alpn: vec![ALPN_HTTP_1_1.into()],
            tickets: None,
            min_version: MinVersion::default(),
            client_auth: None,
            asks: None,
            takes_early_data: false,
        }
    }
}

/// Makes a configuration for listeners. It follows the store: certificates loaded later are used
/// by the next handshake.
///
/// # Errors
/// [`NetError::ConfigTls`], and [`NetError::ConfigFile`] for the authorities of clients.
pub fn server_config(
    certificates: Arc<CertificateStore>,
    options: &ServerOptions,
) -> Result<Arc<ServerConfig>, NetError> {
    let versions: &[&SupportedProtocolVersion] = match options.min_version {
        MinVersion::Tls12 => &[&rustls::version::TLS13, &rustls::version::TLS12],
        MinVersion::Tls13 => &[&rustls::version::TLS13],
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(provider()))
        .with_protocol_versions(versions)
        .map_err(|error| NetError::ConfigTls { why: error.to_string() })?;
    let builder = match (&options.client_auth, &options.asks) {
        (Some(auth), _) => builder.with_client_cert_verifier(auth.verifier()?),
        (None, Some(asks)) => {
            builder.with_client_cert_verifier(Arc::new(BySite::new(Arc::clone(asks))))
        }
        (None, None) => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(certificates);
    config.alpn_protocols.clone_from(&options.alpn);
    // OpenSSL's clients ask for AES-256 first, which nobody needs and everybody pays for. A client
    // without AES in hardware would rather have ChaCha20, which costs us four times as much.
    config.ignore_client_order = true;
    // Where our own records are switched on. Keys leave rustls in `records` and nowhere else.
    config.enable_secret_extraction = true;
    // Tickets hold the session's state; a store here would be memory per client and per process.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    match &options.tickets {
        _ if options.client_auth.is_some() => config.send_tls13_tickets = 0,
        // All of it, or none (RFC 9001 §4.6.1).
        _ if options.takes_early_data => config.max_early_data_size = u32::MAX,
        Some(keys) => {
            let keys = Arc::clone(keys);
            config.ticketer = match options.asks.clone().map(Continued::by) {
                Some(continued) => Arc::new(Tickets { keys, continued }),
                None => keys,
            };
        }
        None => config.send_tls13_tickets = 0,
    }
    Ok(Arc::new(config))
}

/// As [`accept_waiting`] with nobody who gets certificates meanwhile.
///
/// # Errors
/// [`NetError::ClientHandshake`] and [`NetError::ClientHandshakeTimeout`].
pub async fn accept(
    socket: Socket,
    config: &Arc<ServerConfig>,
    limit: Duration,
) -> Result<Stream, NetError> {
    accept_waiting(socket, config, None, limit).await
}

/// Runs the server's side of a handshake within `limit`, in which a client that asks for a name without
/// a certificate waits for one, where `certificates` has somebody who gets it. From there on records are
/// our own; with a configuration that does not allow to extract secrets they stay with rustls.
///
/// # Errors
/// [`NetError::ClientHandshake`] and [`NetError::ClientHandshakeTimeout`].
pub async fn accept_waiting(
    socket: Socket,
    config: &Arc<ServerConfig>,
    certificates: Option<&Arc<CertificateStore>>,
    limit: Duration,
) -> Result<Stream, NetError> {
    // Without anybody who gets them, hellos are not looked into.
    let certificates = certificates.filter(|store| store.is_provided()).map(Arc::clone);
    let config = Arc::clone(config);
    // On the heap: a handshake's state would otherwise be part of the connection's task for all its
    // life.
    let handshake: Pin<Box<dyn Future<Output = Result<Stream, Failure>> + Send>> =
        if config.enable_secret_extraction {
            Box::pin(accept_records(socket, config, certificates))
        } else {
            Box::pin(accept_session(socket, config))
        };
    match timeout(limit, handshake).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(failure)) => Err(NetError::ClientHandshake { why: failure.why() }),
        Err(_) => Err(NetError::ClientHandshakeTimeout),
    }
}

async fn accept_records(
    socket: Socket,
    config: Arc<ServerConfig>,
    certificates: Option<Arc<CertificateStore>>,
) -> Result<Stream, Failure> {
    let mut handoff = Handoff::new(config, socket, certificates).map_err(Failure::Tls)?;
    handshake::run(&mut handoff).await?;
    Ok(handoff.into_records().map_err(Failure::Tls)?.into())
}

async fn accept_session(socket: Socket, config: Arc<ServerConfig>) -> Result<Stream, Failure> {
    let mut context = HandshakeContext::default();
    let connection = context.during(|| ServerConnection::new(config)).map_err(Failure::Tls)?;
    let mut session = Box::new(Session::new(connection.into(), socket, context));
    handshake::run(&mut *session).await?;
    Ok(session.into())
}

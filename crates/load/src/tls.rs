//! TLS for the load: rustls without buffers of its own, over large reads.

use super::{Fault, Protocol};
use crate::error::LabError;
use freshet_net::tls::client::AcceptAny;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{
    ClientConnectionData, Resumption, UnbufferedClientConnection, WebPkiServerVerifier,
};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus,
};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Room for what a record adds to its content: head, tag, padding, explicit nonce.
const RECORD_OVERHEAD_BYTES: usize = 64;

/// Versions of TLS that may be offered.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Version {
    /// Whichever the server prefers.
    #[default]
    Any,
    /// 1.2 only, as in the study of 500 Gbps nodes.
    Tls12,
    /// 1.3 only.
    Tls13,
}

/// How a load speaks TLS.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TlsOptions {
    /// PEM file with the authority of the server's certificate. Without it any certificate is taken:
    /// the lab measures a server that its user named, it hands over nothing worth protecting.
    pub ca: Option<PathBuf>,
    /// The versions that are offered.
    pub version: Version,
    /// Whether later connections resume sessions of earlier ones, as a returning viewer's would.
    pub resume: bool,
}

/// Makes the configuration of all connections of a load, which ask for `protocol` and nothing else.
///
/// # Errors
/// [`LabError::ConfigFile`] when the authority cannot be read, [`LabError::LocalTls`] otherwise.
pub(crate) fn client_config(
    options: &TlsOptions,
    protocol: Protocol,
) -> Result<Arc<ClientConfig>, LabError> {
    let local = |error: &dyn std::fmt::Display| LabError::LocalTls(error.to_string());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions: &[_] = match options.version {
        Version::Any => rustls::ALL_VERSIONS,
        Version::Tls12 => &[&rustls::version::TLS12],
        Version::Tls13 => &[&rustls::version::TLS13],
    };
    let verifier: Arc<dyn ServerCertVerifier> = match &options.ca {
        None => Arc::new(AcceptAny::new(&provider)),
        Some(path) => WebPkiServerVerifier::builder_with_provider(
            Arc::new(authorities(path)?),
            Arc::clone(&provider),
        )
        .build()
        .map_err(|error| local(&error))?,
    };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .map_err(|error| local(&error))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    let name: &[u8] = match protocol {
        Protocol::Http1 => b"http/1.1",
        Protocol::Http2 => b"h2",
        Protocol::Http3 => b"h3",
    };
    config.alpn_protocols = vec![name.to_vec()];
    if !options.resume {
        config.resumption = Resumption::disabled();
    }
    Ok(Arc::new(config))
}

fn authorities(path: &Path) -> Result<RootCertStore, LabError> {
    let refuse = |why: String| LabError::ConfigFile { path: path.to_owned(), why };
    let pem = std::fs::read(path).map_err(|error| refuse(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    let found: Vec<_> = CertificateDer::pem_slice_iter(&pem).flatten().collect();
    if roots.add_parsable_certificates(found).0 == 0 {
        return Err(refuse("there is no usable certificate in it".to_owned()));
    }
    Ok(roots)
}

/// One connection's TLS.
pub(super) struct Tls {
    connection: UnbufferedClientConnection,
    /// The beginning of a record whose end has not come.
    pub(super) pending: Vec<u8>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("pending", &self.pending.len()).finish_non_exhaustive()
    }
}

/// What came of processing some input.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Progress {
    /// Bytes of the input that are done with.
    pub(super) used: usize,
    /// The handshake is over.
    pub(super) is_open: bool,
    /// The peer said that it sends no more.
    pub(super) is_closed: bool,
}

impl Tls {
    pub(super) fn new(
        config: &Arc<ClientConfig>,
        name: &ServerName<'static>,
    ) -> Result<Self, Fault> {
        let connection = UnbufferedClientConnection::new(Arc::clone(config), name.clone())
            .map_err(|_| Fault::Tls)?;
        Ok(Self { connection, pending: Vec::new() })
    }

    /// The protocol that was agreed on.
    pub(super) fn is_http2(&self) -> bool {
        self.connection.alpn_protocol() == Some(b"h2")
    }

    /// Works through `input`, which is decrypted in place. Content goes to `content`, records to send
    /// are appended to `out`.
    pub(super) fn process(
        &mut self,
        input: &mut [u8],
        out: &mut Vec<u8>,
        mut content: impl FnMut(&[u8]) -> Result<(), Fault>,
    ) -> Result<Progress, Fault> {
        let mut progress = Progress::default();
        loop {
            let left = input.get_mut(progress.used..).unwrap_or_default();
            let UnbufferedStatus { mut discard, state, .. } =
                self.connection.process_tls_records(left);
            let mut is_over = false;
            match state {
                Err(error) => {
                    tracing::debug!(%error, "a load's TLS failed");
                    return Err(Fault::Tls);
                }
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(|_| Fault::Tls)?;
                        discard += record.discard;
                        content(record.payload)?;
                    }
                }
                Ok(ConnectionState::EncodeTlsData(data)) => encode(data, out)?,
                // It leaves with all else in `out`, in order.
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::WriteTraffic(_)) => (progress.is_open, is_over) = (true, true),
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    (progress.is_closed, is_over) = (true, true);
                }
                Ok(_) => is_over = true,
            }
            progress.used += discard;
            if is_over {
                return Ok(progress);
            }
        }
    }

    /// Appends `content` to `out` as records.
    pub(super) fn seal(&mut self, content: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        loop {
            let UnbufferedStatus { state, .. } = self.connection.process_tls_records(&mut []);
            match state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    return append(out, content.len(), |space| {
                        match traffic.encrypt(content, space) {
                            Ok(written) => Ok(written),
                            Err(EncryptError::InsufficientSize(needed)) => {
                                Err(needed.required_size)
                            }
                            Err(EncryptError::EncryptExhausted) => Err(usize::MAX),
                        }
                    });
                }
                Ok(ConnectionState::EncodeTlsData(data)) => encode(data, out)?,
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                _ => return Err(Fault::Tls),
            }
        }
    }
}

/// Appends what rustls has to say to `out`.
fn encode(
    mut data: EncodeTlsData<'_, ClientConnectionData>,
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    append(out, 0, |space| match data.encode(space) {
        Ok(written) => Ok(written),
        Err(EncodeError::InsufficientSize(needed)) => Err(needed.required_size),
        Err(EncodeError::AlreadyEncoded) => Ok(0),
    })
}

/// Lets `write` write behind what is in `out`, with room for about `bytes` at first, and with as much
/// as it asks for when that was too little.
fn append(
    out: &mut Vec<u8>,
    bytes: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, usize>,
) -> Result<(), Fault> {
    let start = out.len();
    out.resize(start + bytes + RECORD_OVERHEAD_BYTES, 0);
    let written = match write(&mut out[start..]) {
        Err(needed) if needed < usize::MAX / 2 => {
            out.resize(start + needed, 0);
            write(&mut out[start..])
        }
        other => other,
    };
    out.truncate(start + written.unwrap_or(0));
    written.map(|_| ()).map_err(|_| Fault::Tls)
}

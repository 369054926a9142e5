//! A client that does what it is told: it seals any content as any record, after a handshake by
//! rustls.

use crate::common::*;
use freshet_net::stream::Stream;
use freshet_net::tls::server;
use freshet_wire::tls::{
    Cipher, ContentType, Event, OVERHEAD_BYTES_MAX, Opener, Sealer, TrafficKey, Version, Violation,
};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::{
    ClientConfig, ConnectionTrafficSecrets, ProtocolVersion, ServerConfig, SupportedProtocolVersion,
};
use std::sync::Arc;

/// What the server said.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Said {
    Data(Vec<u8>),
    KeyUpdate {
        answer: bool,
    },
    CloseNotify,
    /// An alert that is no `close_notify`.
    Alert(u8),
    /// FIN.
    End,
}

/// Client's keys and socket.
pub(crate) struct Puppet {
    pub(crate) wire: Stream,
    pub(crate) sealer: Sealer,
    opener: Opener,
    kernel: KernelConnection<ClientConnectionData>,
    received: Vec<u8>,
    /// The hello that opened the connection, without record header.
    pub(crate) hello: Vec<u8>,
}

/// A client's side of a handshake in memory.
pub(crate) struct Greeting {
    connection: UnbufferedClientConnection,
    input: Vec<u8>,
}

impl Greeting {
    pub(crate) fn new(config: &Arc<ClientConfig>) -> Self {
        let name = "localhost".try_into().unwrap();
        let connection = UnbufferedClientConnection::new(Arc::clone(config), name).unwrap();
        Self { connection, input: Vec::new() }
    }

    /// Takes bytes of the server; returns those for it, and whether the handshake is done.
    pub(crate) fn step(&mut self, bytes: &[u8]) -> (Vec<u8>, bool) {
        self.input.extend_from_slice(bytes);
        let mut output = Vec::new();
        loop {
            let UnbufferedStatus { discard, state, .. } =
                self.connection.process_tls_records(&mut self.input);
            let done = match state.unwrap() {
                ConnectionState::EncodeTlsData(mut data) => {
                    let mut room = vec![0; 20_000];
                    let count = data.encode(&mut room).unwrap();
                    output.extend_from_slice(&room[..count]);
                    None
                }
                ConnectionState::TransmitTlsData(data) => {
                    data.done();
                    None
                }
                ConnectionState::BlockedHandshake => Some(false),
                ConnectionState::WriteTraffic(_) => Some(true),
                other => panic!("{other:?}"),
            };
            self.input.drain(..discard);
            if let Some(done) = done {
                return (output, done);
            }
        }
    }

    pub(crate) fn into_puppet(self, wire: Stream, hello: Vec<u8>) -> Puppet {
        let (secrets, kernel) = self.connection.dangerous_into_kernel_connection().unwrap();
        let version = match kernel.protocol_version() {
            ProtocolVersion::TLSv1_3 => Version::Tls13,
            _ => Version::Tls12,
        };
        let (tx, rx) = (key(&secrets.tx.1), key(&secrets.rx.1));
        Puppet {
            wire,
            sealer: Sealer::new(version, &tx, secrets.tx.0, u64::MAX).unwrap(),
            opener: Opener::new(version, &rx, secrets.rx.0).unwrap(),
            kernel,
            received: self.input,
            hello,
        }
    }
}

impl Puppet {
    /// A puppet and the server's stream, after their handshake.
    pub(crate) async fn pair(
        client: &Arc<ClientConfig>,
        server: &Arc<ServerConfig>,
    ) -> (Self, Stream) {
        let (connecting, accepted) = sockets().await;
        let (puppet, accepted) = tokio::join!(
            Self::connect(connecting.into(), client),
            server::accept(accepted, server, LIMIT)
        );
        (puppet, accepted.unwrap())
    }

    async fn connect(mut wire: Stream, config: &Arc<ClientConfig>) -> Self {
        let mut greeting = Greeting::new(config);
        let (hello, _) = greeting.step(&[]);
        let mut output = hello.clone();
        loop {
            wire.write(&output).await.unwrap();
            let mut buffer = [0; 4096];
            let count = wire.read(&mut buffer).await.unwrap();
            assert!(count > 0, "the server left during the handshake");
            let done;
            (output, done) = greeting.step(&buffer[..count]);
            if done {
                wire.write(&output).await.unwrap();
                return greeting.into_puppet(wire, hello[5..].to_vec());
            }
        }
    }

    pub(crate) fn seal(&mut self, content: ContentType, plain: &[u8]) -> Vec<u8> {
        let mut record = vec![0; plain.len() + OVERHEAD_BYTES_MAX];
        let bytes = self.sealer.seal(content, plain, &mut record).unwrap();
        record.truncate(bytes);
        record
    }

    pub(crate) async fn send(&mut self, content: ContentType, plain: &[u8]) {
        let record = self.seal(content, plain);
        self.wire.write(&record).await.unwrap();
    }

    /// The record that announces our next key, which is in use from then on.
    pub(crate) fn seal_key_update(&mut self, message: &[u8]) -> Vec<u8> {
        let record = self.seal(ContentType::Handshake, message);
        let (_, next) = self.kernel.update_tx_secret().unwrap();
        self.sealer.change_key(&key(&next), u64::MAX).unwrap();
        record
    }

    /// The next thing the server says, taking on its key updates.
    pub(crate) async fn hear(&mut self) -> Said {
        loop {
            let opened = match self.opener.open(&mut self.received) {
                Ok(opened) => opened,
                Err(Violation::PeerAlert(description)) => return Said::Alert(description),
                Err(violation) => panic!("the server broke the protocol: {violation}"),
            };
            let Some(opened) = opened else {
                let mut buffer = vec![0; 1 << 16];
                match self.wire.read(&mut buffer).await.unwrap() {
                    0 => {
                        assert!(self.received.is_empty(), "the server stopped within a record");
                        return Said::End;
                    }
                    count => self.received.extend_from_slice(&buffer[..count]),
                }
                continue;
            };
            let said = match opened.event {
                Event::Data(place) => Said::Data(self.received[place].to_vec()),
                Event::KeyUpdate { answer } => {
                    let (_, next) = self.kernel.update_rx_secret().unwrap();
                    self.opener.change_key(&key(&next)).unwrap();
                    Said::KeyUpdate { answer }
                }
                Event::CloseNotify => Said::CloseNotify,
                // A warning: which one does not come through.
                Event::Nothing | Event::Renegotiation => {
                    self.received.drain(..opened.record_bytes);
                    continue;
                }
            };
            self.received.drain(..opened.record_bytes);
            return said;
        }
    }

    /// Everything the server says until it is silent for good.
    pub(crate) async fn hear_all(&mut self) -> Vec<Said> {
        let mut all = Vec::new();
        loop {
            let said = self.hear().await;
            let is_last = matches!(said, Said::End | Said::Alert(_));
            all.push(said);
            if is_last {
                return all;
            }
        }
    }

    /// Data until there are `bytes` of it, and how many key updates came between.
    pub(crate) async fn hear_data(&mut self, bytes: usize) -> (Vec<u8>, usize) {
        let (mut data, mut updates) = (Vec::new(), 0);
        while data.len() < bytes {
            match self.hear().await {
                Said::Data(more) => data.extend(more),
                Said::KeyUpdate { .. } => updates += 1,
                other => panic!("{other:?} after {} bytes", data.len()),
            }
        }
        (data, updates)
    }
}

/// A client's configuration whose keys can be taken.
pub(crate) fn open_client(
    authority: &Authority,
    version: &'static SupportedProtocolVersion,
) -> Arc<ClientConfig> {
    let mut config = ClientConfig::clone(&authority.client_of(version));
    config.enable_secret_extraction = true;
    Arc::new(config)
}

fn key(secrets: &ConnectionTrafficSecrets) -> TrafficKey {
    let (cipher, key, iv) = match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (Cipher::Aes128Gcm, key, iv),
        ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (Cipher::Aes256Gcm, key, iv),
        ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => {
            (Cipher::Chacha20Poly1305, key, iv)
        }
        _ => panic!("unknown cipher"),
    };
    TrafficKey::new(cipher, key.as_ref(), iv.as_ref().try_into().unwrap()).unwrap()
}

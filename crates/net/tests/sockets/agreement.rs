//! What keys are agreed on with: what a computer of quanta cannot undo, wherever the peer has it too.

use crate::common::*;
use freshet_net::tls::certificate::CertificateStore;
use freshet_net::tls::client::{ClientOptions, client_config};
use freshet_net::tls::server::{ServerOptions, server_config};
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{
    ClientConfig, ClientConnection, NamedGroup, RootCertStore, ServerConfig, ServerConnection,
};
use std::sync::Arc;

fn provider(groups: &[&'static dyn SupportedKxGroup]) -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider { kx_groups: groups.to_vec(), ..default_provider() })
}

/// A client as others have it, which offers these groups in this order.
fn foreign_client(
    authority: &Authority,
    groups: &[&'static dyn SupportedKxGroup],
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.ca()).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(provider(groups));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}

/// A server as others have it, which takes these groups.
fn foreign_server(
    authority: &Authority,
    groups: &[&'static dyn SupportedKxGroup],
) -> Arc<ServerConfig> {
    let source = authority.issue("foreign", &["localhost"]);
    let certificate = CertificateDer::from_pem_file(&source.certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(&source.key).unwrap();
    let builder = ServerConfig::builder_with_provider(provider(groups));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    Arc::new(builder.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap())
}

/// The group that both agree on, and how often the client spoke until then.
fn agreed(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) -> (NamedGroup, usize) {
    let name = "localhost".try_into().unwrap();
    let mut client = ClientConnection::new(Arc::clone(client), name).unwrap();
    let mut server = ServerConnection::new(Arc::clone(server)).unwrap();
    let mut flights = 0;
    while client.is_handshaking() || server.is_handshaking() {
        let mut sent = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut sent).unwrap();
        }
        flights += usize::from(!sent.is_empty());
        let mut left = &sent[..];
        while !left.is_empty() {
            server.read_tls(&mut left).unwrap();
            server.process_new_packets().unwrap();
        }
        let mut answered = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut answered).unwrap();
        }
        let mut left = &answered[..];
        while !left.is_empty() {
            client.read_tls(&mut left).unwrap();
            client.process_new_packets().unwrap();
        }
    }
    let group = client.negotiated_key_exchange_group().unwrap().name();
    assert_eq!(server.negotiated_key_exchange_group().unwrap().name(), group);
    (group, flights)
}

#[test]
fn clients_that_offer_a_hybrid_group_first_get_it_without_a_second_hello() {
    let authority = Authority::new();
    let source = authority.issue("own", &["localhost"]);
    let store = CertificateStore::load(vec![source]).unwrap();
    let server = server_config(store, &ServerOptions::default()).unwrap();
    let browser = foreign_client(&authority, &[kx_group::X25519MLKEM768, kx_group::X25519]);
    assert_eq!(agreed(&browser, &server), (NamedGroup::X25519MLKEM768, 2));
    let older = foreign_client(&authority, &[kx_group::X25519]);
    assert_eq!(agreed(&older, &server), (NamedGroup::X25519, 2));
}

#[test]
fn origins_are_offered_a_hybrid_group_and_the_classical_one_beside_it() {
    let authority = Authority::new();
    let options = ClientOptions { ca: Some(authority.ca()), ..ClientOptions::default() };
    let client = client_config(&options).unwrap();
    let modern = foreign_server(&authority, &[kx_group::X25519, kx_group::X25519MLKEM768]);
    assert_eq!(agreed(&client, &modern), (NamedGroup::X25519MLKEM768, 2));
    // Its share was there already.
    let older = foreign_server(&authority, &[kx_group::X25519]);
    assert_eq!(agreed(&client, &older), (NamedGroup::X25519, 2));
    let oldest = foreign_server(&authority, &[kx_group::SECP256R1]);
    assert_eq!(agreed(&client, &oldest), (NamedGroup::secp256r1, 3));
}

//! What needs a second process: this program starts itself again as the other one.
#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

use freshet_net::address::Address;
use freshet_net::handover::{Inherited, LISTEN_FDS_VARIABLE, pass_on};
use freshet_net::listener::{ListenOptions, Listener};
use freshet_net::socket::Socket;
use freshet_net::stream::Stream;
use freshet_net::tls::certificate::{CertificateSource, CertificateStore};
use freshet_net::tls::server::{ServerOptions, server_config};
use freshet_net::tls::ticket::{ROTATION, TicketKeys};
use freshet_net::tls::{client, server};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::ClientConfig;
use rustls::version::{TLS12, TLS13};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Says to a child what it is for, and to a test that it is not run as a child.
const ROLE: &str = "FRESHET_TEST_ROLE";

fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(Default::default())
        .unwrap();
    runtime.block_on(async { tokio::time::timeout(LIMIT, test).await.expect("test hangs") })
}

/// This program, running one of the tests below that play the other process.
fn other(test: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).env(ROLE, role).env("RUST_BACKTRACE", "0");
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    command
}

fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Ends a child by closing its standard input and checks that it was content.
fn finish(mut child: Child) {
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_listener_lives_on_in_the_next_process_and_loses_no_waiting_connection() {
    if role().is_some() {
        return;
    }
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let unix = Address::Unix(directory.path().join("x,y%.sock"));
        let tcp: Address = "127.0.0.1:0".parse().unwrap();
        let listeners =
            [&tcp, &unix].map(|at| Listener::bind(at, &ListenOptions::default()).unwrap());
        let bound = listeners[0].local_address().clone();

        // These wait in the queues before anybody accepts.
        let mut waiting = Vec::new();
        for address in [&bound, &unix] {
            waiting.push(Stream::from(Socket::connect(address, LIMIT).await.unwrap()));
        }
        let mut command = other("play_the_next_process", &format!("{bound} {unix}"));
        pass_on(&mut command, &[(&tcp, &listeners[0]), (&unix, &listeners[1])]);
        let child = command.spawn().unwrap();
        drop(listeners);
        for address in [&bound, &unix] {
            waiting.push(Stream::from(Socket::connect(address, LIMIT).await.unwrap()));
        }
        for stream in &mut waiting {
            let mut text = [0; 16];
            let count = stream.read(&mut text).await.unwrap();
            assert_eq!(&text[..count], b"next");
        }
        finish(child);
    });
}

#[test]
fn play_the_next_process() {
    let Some(role) = role() else { return };
    run(async {
        let (bound, unix) = role.split_once(' ').unwrap();
        let mut inherited = Inherited::from_environment().unwrap();
        assert_eq!(inherited.addresses().count(), 2, "{:?}", std::env::var(LISTEN_FDS_VARIABLE));
        // One is configured by the address it was bound with, one by what the socket says.
        let tcp = inherited.take(&"127.0.0.1:0".parse().unwrap()).unwrap();
        assert_eq!(tcp.local_address(), &bound.parse().unwrap());
        let unix = inherited.take(&unix.parse().unwrap()).unwrap();
        assert!(inherited.take(unix.local_address()).is_none());
        // Nobody passes them on by accident.
        for listener in [&tcp, &unix] {
            let flags = rustix::io::fcntl_getfd(listener.as_fd()).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        }
        assert_eq!(Inherited::from_environment().unwrap().addresses().count(), 0, "only once");
        let mut served = Vec::new();
        for listener in [&tcp, &unix, &tcp, &unix] {
            let mut stream = Stream::from(listener.accept().await.unwrap().0);
            stream.write(b"next").await.unwrap();
            served.push(stream);
        }
    });
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn accepting_goes_on_after_descriptors_ran_out() {
    if role().is_some() {
        return;
    }
    finish(other("play_a_process_out_of_descriptors", "starved").spawn().unwrap());
}

#[test]
fn play_a_process_out_of_descriptors() {
    if role().is_none() {
        return;
    }
    run(async {
        let address = "127.0.0.1:0".parse().unwrap();
        let listener = Listener::bind(&address, &ListenOptions::default()).unwrap();
        let _client = Socket::connect(listener.local_address(), LIMIT).await.unwrap();
        let full = getrlimit(Resource::Nofile);
        // The next number would be at the limit: whatever is open stays open.
        let next = std::fs::File::open("/dev/null").unwrap();
        let limit = std::os::fd::AsRawFd::as_raw_fd(&next) as u64;
        drop(next);
        setrlimit(Resource::Nofile, Rlimit { current: Some(limit), ..full }).unwrap();
        let accept = listener.accept();
        tokio::pin!(accept);
        let paused = std::future::poll_fn(|cx| {
            if accept.as_mut().poll(cx).is_ready() {
                panic!("accepted without descriptors");
            }
            if listener.pauses() > 0 {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        });
        paused.await;
        setrlimit(Resource::Nofile, full).unwrap();
        accept.await.unwrap();
    });
}

/// Connections of the measurement, after as many to warm up.
const CONNECTIONS: usize = 1000;

/// Bytes of user memory one idle TLS connection may take in this crate. A whole node aims at 25 KB.
const IDLE_BYTES_MAX: usize = 16 * 1024;

const MEASURED: &str = "bytes per idle connection";

#[test]
fn an_idle_tls_connection_takes_little_memory() {
    if role().is_some() {
        return;
    }
    // Each in a process of its own: memory that one freed would hide what the next takes.
    for version in ["1.2", "1.3"] {
        let mut server = other("play_a_server_with_idle_connections", version);
        let output = server.stdout(Stdio::piped()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}");
        println!("{}", text.lines().find(|line| line.contains(MEASURED)).unwrap());
    }
}

#[test]
fn play_a_server_with_idle_connections() {
    let Some(version) = role() else { return };
    let bytes = run(idle_bytes(&version));
    println!("TLS {version}: {bytes} {MEASURED}");
    assert!(bytes <= IDLE_BYTES_MAX, "TLS {version}: {bytes} {MEASURED}");
}

/// Resident bytes per connection of a server whose clients live in another process.
async fn idle_bytes(version: &str) -> usize {
    raise_descriptor_limit();
    let directory = tempfile::tempdir().unwrap();
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let source = CertificateSource {
        certificate: directory.path().join("localhost.pem"),
        key: directory.path().join("localhost.key"),
        ..CertificateSource::default()
    };
    std::fs::write(&source.certificate, key.cert.pem()).unwrap();
    std::fs::write(&source.key, key.signing_key.serialize_pem()).unwrap();
    let certificate = source.certificate.display().to_string();
    let store = CertificateStore::load(vec![source]).unwrap();
    let tickets = Some(TicketKeys::random(ROTATION));
    let config = server_config(store, &ServerOptions { tickets, ..Default::default() }).unwrap();

    let listener =
        Listener::bind(&"127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap();
    let role = format!("{} {version} {certificate}", listener.local_address());
    let mut child = other("play_a_thousand_clients", &role).spawn().unwrap();
    let mut held = Vec::with_capacity(2 * CONNECTIONS);
    let mut before = 0;
    while held.len() < 2 * CONNECTIONS {
        if held.len() == CONNECTIONS {
            before = resident_bytes();
        }
        let (socket, _) = listener.accept().await.unwrap();
        let mut stream = server::accept(socket, &config, LIMIT).await.unwrap();
        // One exchange with a body of several records, then idle as between requests.
        let mut request = vec![0; 20_000];
        let mut bytes = 0;
        while bytes < 20_000 {
            bytes += stream.read(&mut request).await.unwrap();
        }
        stream.write(&request).await.unwrap();
        let idle = std::future::poll_fn(|cx| {
            std::task::Poll::Ready(stream.poll_read(cx, &mut [0]).is_pending())
        });
        assert!(idle.await);
        held.push(stream);
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }
    let after = resident_bytes();
    finish(child);
    drop(held);
    (after - before) / CONNECTIONS
}

#[test]
fn play_a_thousand_clients() {
    let Some(role) = role() else { return };
    let mut words = role.splitn(3, ' ');
    let address = words.next().unwrap().parse().unwrap();
    let config = client_of(words.next().unwrap(), words.next().unwrap());
    raise_descriptor_limit();
    let mut turn = std::io::stdin();
    run(async {
        let mut held = Vec::new();
        for _ in 0..2 * CONNECTIONS {
            let socket = Socket::connect(&address, LIMIT).await.unwrap();
            let mut stream = client::connect(socket, &config, "localhost", LIMIT).await.unwrap();
            stream.write(&[7; 20_000]).await.unwrap();
            held.push(stream);
            // The server says when it is idle.
            turn.read_exact(&mut [0]).unwrap();
        }
        // Until the server has measured.
        turn.read_to_end(&mut Vec::new()).unwrap();
    });
}

/// A client of one version that trusts the certificate in this file.
fn client_of(version: &str, certificate: &str) -> Arc<ClientConfig> {
    let versions = if version == "1.2" { [&TLS12] } else { [&TLS13] };
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificate).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size()
}

fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
}

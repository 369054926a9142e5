//! Listeners of every kind.

use crate::common::*;
use freshet_net::address::{Address, PeerAddress};
use freshet_net::error::NetError;
use freshet_net::listener::{ListenOptions, Listener};
use freshet_net::quic::port::UdpPort;
use freshet_net::socket::Socket;
use freshet_net::stream::Stream;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

async fn exchange(listener: &Listener, address: &Address) -> PeerAddress {
    let mut client = Stream::from(connect(address).await);
    let (socket, peer) = listener.accept().await.unwrap();
    let mut server = Stream::from(socket);
    client.write(b"ping").await.unwrap();
    assert_eq!(read_exactly(&mut server, 4, 4).await, b"ping");
    peer
}

fn tcp(ip: &str, port: u16) -> Address {
    Address::Tcp((ip.parse::<std::net::IpAddr>().unwrap(), port).into())
}

#[test]
fn a_unix_listener_serves_sets_its_mode_and_replaces_a_stale_socket() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.sock");
        let address = Address::Unix(path.clone());
        let options = ListenOptions { mode: Some(0o640), ..ListenOptions::default() };
        let listener = Listener::bind(&address, &options).unwrap();
        assert_eq!(exchange(&listener, &address).await, PeerAddress::Unix);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        // In use while somebody listens, free afterwards.
        assert!(matches!(
            Listener::bind(&address, &options),
            Err(NetError::LocalBind { kind: std::io::ErrorKind::AddrInUse, .. })
        ));
        drop(listener);
        let again = Listener::bind(&address, &options).unwrap();
        assert_eq!(exchange(&again, &address).await, PeerAddress::Unix);
    });
}

#[test]
fn a_file_that_is_no_socket_is_never_replaced() {
    run(async {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("precious");
        std::fs::write(&path, "data").unwrap();
        assert!(Listener::bind(&Address::Unix(path.clone()), &ListenOptions::default()).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"data");
    });
}

#[test]
fn a_dual_stack_listener_serves_both_families_and_shows_ipv4_peers_as_ipv4() {
    run(async {
        let Ok(listener) = Listener::bind(&":0".parse().unwrap(), &ListenOptions::default()) else {
            panic!("`:0` must always be possible");
        };
        let port = listener.local_address().port().unwrap();
        let peer = exchange(&listener, &tcp("127.0.0.1", port)).await;
        assert_eq!(peer.ip(), Some("127.0.0.1".parse().unwrap()));
        if std::net::TcpListener::bind("[::1]:0").is_ok() {
            let peer = exchange(&listener, &tcp("::1", port)).await;
            assert_eq!(peer.ip(), Some("::1".parse().unwrap()));
        }
    });
}

/// Has the kernel answer this thread as that of a machine without IPv6 does (`ipv6.disable=1`).
fn take_ipv6_away() -> std::io::Result<()> {
    let does =
        |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let compare = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    // Of `struct seccomp_data`: the call's number is first, the low half of its first argument 16 bytes later.
    let mut filter = [
        does(load, 0, 0, 0),
        does(compare, libc::SYS_socket as u32, 0, 3),
        does(load, 16, 0, 0),
        does(compare, libc::AF_INET6 as u32, 0, 1),
        does(answer, libc::SECCOMP_RET_ERRNO | libc::EAFNOSUPPORT as u32, 0, 0),
        does(answer, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: both calls are of this thread alone, and the kernel copies the program before it returns.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

#[test]
fn every_address_is_that_of_ipv4_on_a_machine_without_ipv6() {
    let without = std::thread::spawn(|| {
        if let Err(error) = take_ipv6_away() {
            return crate::skip::skip(format!("no filter of calls: {error}"));
        }
        let socket = socket2::Socket::new(socket2::Domain::IPV6, socket2::Type::STREAM, None);
        assert_eq!(socket.unwrap_err().raw_os_error(), Some(libc::EAFNOSUPPORT));
        run(async {
            let options = ListenOptions::default();
            let listener = Listener::bind(&"[::]:0".parse().unwrap(), &options).unwrap();
            let port = listener.local_address().port().unwrap();
            assert_eq!(listener.local_address(), &tcp("0.0.0.0", port));
            // What a start and a check ask before says the same.
            let wanted = tcp("::", port);
            assert!(matches!(
                Listener::examine(&wanted),
                Err(NetError::LocalBind { kind: std::io::ErrorKind::AddrInUse, .. })
            ));
            drop(listener);
            Listener::examine(&wanted).unwrap();
            // One address of IPv6 is nothing that IPv4 could stand for.
            assert!(Listener::examine(&tcp("::1", port)).is_err());
            let quic = UdpPort::bind(([0_u16; 8], 0).into()).unwrap();
            assert!(quic.local_address().is_ipv4());
        });
    });
    without.join().unwrap();
}

#[test]
fn an_ipv6_only_listener_refuses_ipv4() {
    run(async {
        let options = ListenOptions { v6_only: true, ..ListenOptions::default() };
        let listener = Listener::bind(&"[::]:0".parse().unwrap(), &options).unwrap();
        let Address::Tcp(bound) = listener.local_address() else { panic!("not TCP") };
        if bound.is_ipv4() {
            return crate::skip::skip("there is no IPv6 here");
        }
        let refused = Socket::connect(&tcp("127.0.0.1", bound.port()), LIMIT).await;
        assert!(matches!(
            refused,
            Err(NetError::OriginConnect { kind: std::io::ErrorKind::ConnectionRefused, .. })
        ));
        exchange(&listener, &tcp("::1", bound.port())).await;
    });
}

#[test]
fn listeners_that_reuse_a_port_share_its_connections() {
    run(async {
        let options = ListenOptions { reuse_port: true, ..ListenOptions::default() };
        let one = Listener::bind(&"127.0.0.1:0".parse().unwrap(), &options).unwrap();
        let address = one.local_address().clone();
        let other = Listener::bind(&address, &options).unwrap();
        let alone = Listener::bind(&address, &ListenOptions::default());
        assert!(matches!(alone, Err(NetError::LocalBind { .. })));
        let mut counts = [0; 2];
        let mut held = Vec::new();
        // The kernel spreads by a hash of the ports: both get some of 64, but for one chance in
        // 2^63.
        for _ in 0..64 {
            held.push(connect(&address).await);
            let at = tokio::select! {
                accepted = one.accept() => { held.push(accepted.unwrap().0); 0 }
                accepted = other.accept() => { held.push(accepted.unwrap().0); 1 }
            };
            counts[at] += 1;
        }
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    });
}

#[test]
fn clones_accept_from_one_queue() {
    run(async {
        let one = loopback();
        let other = one.try_clone().unwrap();
        let address = one.local_address().clone();
        assert_eq!(other.local_address(), &address);
        exchange(&one, &address).await;
        exchange(&other, &address).await;
    });
}

#[test]
fn accepted_sockets_send_without_delay() {
    run(async {
        let (client, server) = sockets().await;
        for socket in [&client, &server] {
            assert!(socket2::SockRef::from(socket).tcp_nodelay().unwrap());
        }
        assert_eq!(client.local_address(), server.peer_address().unwrap().socket_address());
        assert_eq!(server.local_address(), client.peer_address().unwrap().socket_address());
    });
}

#[test]
fn an_address_in_use_is_named() {
    run(async {
        let listener = loopback();
        let error =
            Listener::bind(listener.local_address(), &ListenOptions::default()).unwrap_err();
        assert!(error.to_string().contains(&listener.local_address().to_string()), "{error}");
    });
}

#[test]
fn a_descriptor_becomes_a_listener_only_if_it_listens() {
    run(async {
        let listener = loopback();
        let address = listener.local_address().clone();
        let taken = Listener::from_fd(listener.as_fd().try_clone_to_owned().unwrap()).unwrap();
        drop(listener);
        assert_eq!(taken.local_address(), &address);
        exchange(&taken, &address).await;
        let (client, _server) = sockets().await;
        let not_listening = client.as_fd().try_clone_to_owned().unwrap();
        assert!(matches!(Listener::from_fd(not_listening), Err(NetError::LocalHandover { .. })));
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(matches!(Listener::from_fd(file.into()), Err(NetError::LocalHandover { .. })));
    });
}

#[test]
fn connecting_to_nobody_says_so() {
    run(async {
        let listener = loopback();
        let address = listener.local_address().clone();
        drop(listener);
        assert!(matches!(
            Socket::connect(&address, LIMIT).await,
            Err(NetError::OriginConnect { kind: std::io::ErrorKind::ConnectionRefused, .. })
        ));
    });
}

#[test]
fn connecting_gives_up_in_time() {
    run(async {
        // A queue of one that nobody empties: further connections hang.
        let options = ListenOptions { backlog: 0, ..ListenOptions::default() };
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), &options).unwrap();
        let address = listener.local_address();
        let mut held = Vec::new();
        let error = loop {
            match Socket::connect(address, Duration::from_millis(50)).await {
                Ok(socket) => held.push(socket),
                Err(error) => break error,
            }
            assert!(held.len() < 10, "the queue never fills");
        };
        assert_eq!(error, NetError::OriginConnectTimeout { address: address.clone() });
    });
}

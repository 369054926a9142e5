//! Certificates for names that clients ask for.

use crate::support::{Bench, NAME, until};
use freshet_acme::{OnDemand, Plan, Running};
use freshet_net::listener::{ListenOptions, Listener};
use freshet_net::socket::Socket;
use freshet_net::tls::certificate::CertificateStore;
use freshet_net::tls::client::{self, ClientOptions, client_config};
use freshet_net::tls::server::{self, ServerOptions, server_config};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// For what has to come.
const LIMIT: Duration = Duration::from_secs(120);

/// An operator's service, with what it says of which name and how often it was asked.
#[derive(Clone)]
struct Service {
    url: String,
    says: Arc<Mutex<HashMap<String, u16>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Service {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/may?key=1", listener.local_addr().unwrap());
        let service = Self { url, says: Arc::default(), asked: Arc::default() };
        let serving = service.clone();
        std::thread::spawn(move || {
            for mut socket in listener.incoming().map_while(Result::ok) {
                let (mut head, mut byte) = (Vec::new(), [0]);
                while !head.ends_with(b"\r\n\r\n") && socket.read(&mut byte).unwrap_or(0) > 0 {
                    head.push(byte[0]);
                }
                let head = String::from_utf8(head).unwrap();
                let name = head.strip_prefix("GET /may?key=1&domain=").unwrap();
                let name = name.split(' ').next().unwrap().to_owned();
                let status = serving.says.lock().unwrap().get(&name).copied().unwrap_or(404);
                serving.asked.lock().unwrap().push(name);
                let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
                let _ = socket.write_all(answer.as_bytes());
            }
        });
        service
    }

    fn say(&self, name: &str, status: u16) {
        self.says.lock().unwrap().insert(name.to_owned(), status);
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

fn plan(bench: &Bench, service: &Service, names_max: usize) -> Plan {
    let on_demand = Some(OnDemand { service: service.url.clone(), names_max });
    Plan { names: Vec::new(), on_demand, ..bench.plan() }
}

fn start(bench: &Bench, service: &Service, names_max: usize) -> Running {
    bench.start_with(plan(bench, service, names_max))
}

/// Whether a client that asks for this name, and waits, is shown a certificate for it.
fn is_shown(store: &Arc<CertificateStore>, name: &str) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let config = server_config(Arc::clone(store), &ServerOptions::default()).unwrap();
        let listener =
            Listener::bind(&"127.0.0.1:0".parse().unwrap(), &ListenOptions::default()).unwrap();
        let connecting = Socket::connect(listener.local_address(), LIMIT).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        let options = ClientOptions { verify: false, ..ClientOptions::default() };
        let trusting = client_config(&options).unwrap();
        let (shown, _) = tokio::join!(
            server::accept_waiting(accepted, &config, Some(store), LIMIT),
            client::connect(connecting, &trusting, name, LIMIT)
        );
        shown.is_ok()
    })
}

#[test]
fn a_client_that_asks_waits_for_its_certificate() {
    let (bench, service) = (Bench::new(), Service::start());
    service.say("a.demand.example", 200);
    let running = start(&bench, &service, 10);
    assert!(!is_shown(&bench.store, "no.demand.example"));
    assert!(!is_shown(&bench.store, "no.demand.example"));
    assert_eq!(service.asked(), 1, "a no is remembered");
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let store = Arc::clone(&bench.store);
            std::thread::spawn(move || is_shown(&store, "A.demand.example"))
        })
        .collect();
    assert!(clients.into_iter().all(|client| client.join().unwrap()));
    assert_eq!((service.asked(), bench.authority.state().orders.len()), (2, 1));
    assert_eq!(running.status().asked(), [("yes", 1), ("no", 1), ("none", 0)]);
    drop(running);
    // The next process has it, and is asked before the certificate is renewed.
    let next = Bench::beside(&bench);
    service.say("a.demand.example", 403);
    let running = start(&next, &service, 10);
    assert!(next.store.has("a.demand.example"));
    assert_eq!(running.renew(&[]), 1);
    until(|| !next.store.has("a.demand.example") && running.status().names().is_empty());
    assert_eq!(bench.authority.state().orders.len(), 1);
}

#[test]
fn there_are_no_more_names_than_may_be() {
    let (bench, service) = (Bench::new(), Service::start());
    for name in ["a", "b", "c"] {
        service.say(&format!("{name}.demand.example"), 204);
    }
    let _running = start(&bench, &service, 2);
    for (name, has_one) in [("a", true), ("b", true), ("c", false), ("a", true)] {
        let shown = is_shown(&bench.store, &format!("{name}.demand.example"));
        // The first certificate of all is what clients of others are shown.
        assert_eq!((shown, bench.store.has(&format!("{name}.demand.example"))), (true, has_one));
    }
    assert_eq!(bench.authority.state().orders.len(), 2);
}

#[test]
fn nobody_waits_for_what_does_not_come() {
    let (bench, service) = (Bench::new(), Service::start());
    service.say("a.demand.example", 500);
    let running = start(&bench, &service, 10);
    assert!(!is_shown(&bench.store, "a.demand.example"));
    assert_eq!(running.status().asked(), [("yes", 0), ("no", 0), ("none", 1)]);
    // An order that fails lets those go who wait for it, and the name.
    service.say("b.demand.example", 200);
    bench.refuse_all();
    assert!(!is_shown(&bench.store, "b.demand.example"));
    until(|| running.status().names().is_empty());
    // Without the service nothing is asked.
    running.follow(Plan { on_demand: None, ..plan(&bench, &service, 1) }).unwrap();
    until(|| !is_shown(&bench.store, "c.demand.example"));
    let asked = service.asked();
    assert!(!is_shown(&bench.store, "d.demand.example"));
    assert_eq!(service.asked(), asked);
}

#[test]
fn a_name_that_is_listed_is_waited_for_and_nobody_is_asked() {
    let (bench, service) = (Bench::new(), Service::start());
    let on_demand = plan(&bench, &service, 1).on_demand;
    let _running = bench.start_with(Plan { on_demand, ..bench.plan() });
    assert!(is_shown(&bench.store, NAME));
    assert!(bench.has_certificate());
    assert_eq!(service.asked(), 0);
}

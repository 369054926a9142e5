//! Viewers against the origin, over loopback.
#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

use freshet_base::clock::UnixMillis;
use freshet_lab::demo::Sampler;
use freshet_lab::origin::{self, Origin};
use freshet_lab::programme::Kind;
use freshet_lab::viewers::{Figures, Format, Pace, Settings, Target, Tls, Viewers, Viewing};
use freshet_net::address::Address;
use freshet_net::listener::{ListenOptions, Listener};
use freshet_net::tls::certificate::{CertificateSource, CertificateStore};
use freshet_net::tls::client::{ClientOptions, client_config};
use freshet_net::tls::server::{self, ServerOptions, server_config};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long a test waits for something before it says that it never came.
const PATIENCE: Duration = Duration::from_secs(60);

fn short_segments() -> origin::Settings {
    origin::Settings {
        channels: 2,
        titles: 2,
        segment: Duration::from_millis(400),
        window: Duration::from_secs(4),
        title: Duration::from_secs(2),
        ..origin::Settings::default()
    }
}

/// The figures once they are as `wanted`.
fn eventually(viewers: &Viewers, wanted: impl Fn(&Figures) -> bool) -> Figures {
    let started = Instant::now();
    loop {
        let figures = viewers.figures();
        if wanted(&figures) {
            return figures;
        }
        assert!(started.elapsed() < PATIENCE, "still {figures:?}");
        // Who looks again at once holds the lock that viewers count under.
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn watch(origin: &Origin, kind: Kind, format: Format, pace: Pace) -> Viewers {
    let mut audience = Viewing::all(&short_segments(), Some(kind));
    audience.retain(|viewing| viewing.format == format);
    let mut settings = Settings::new(Target::clear(origin.address()), audience, 3);
    settings.pace = pace;
    Viewers::start(settings).unwrap()
}

#[test]
fn viewers_play_channels_and_titles_in_both_formats_without_errors() {
    let origin = Origin::start(short_segments()).unwrap();
    for kind in [Kind::Live, Kind::OnDemand] {
        for format in [Format::Hls, Format::Dash] {
            let before = origin.totals();
            let viewers = watch(&origin, kind, format, Pace::Unbounded);
            // Two tracks for three viewers: more than what is there when they come.
            let figures = eventually(&viewers, |figures| figures.segments >= 3 * 2 * 6);
            viewers.stop();
            assert_eq!(figures.errors.total(), 0, "{kind:?} {format:?}: {figures:?}");
            assert!(figures.first_byte.p50_us > 0);
            assert!(figures.body_bytes > 36 * 72 * 1024);
            assert_eq!(origin.totals().refused, before.refused);
        }
    }
}

#[test]
fn viewers_in_real_time_ask_no_more_than_they_play() {
    let origin = Origin::start(short_segments()).unwrap();
    let started = Instant::now();
    let viewers = watch(&origin, Kind::Live, Format::Hls, Pace::RealTime);
    let figures = eventually(&viewers, |figures| figures.segments >= 3 * 2 * 8);
    // Eight segments: three are there at once, the others come one by one.
    assert!(started.elapsed() >= Duration::from_millis(4 * 400), "{:?}", started.elapsed());
    assert_eq!(figures.watching, 3);
    assert_eq!(figures.connections, 3, "one connection each");
    let mut sampler = Sampler::new(2, 2);
    let interval = viewers.take_interval().latency();
    let second = sampler.sample(viewers.stop(), interval, origin.totals(), started.elapsed());
    assert!(second.bits_per_second > 0.0 && second.errors == 0, "{second}");
    let totals = origin.stop();
    assert_eq!(totals.connections, 3);
}

#[test]
fn viewers_of_low_latency_play_parts_as_they_come() {
    let settings = origin::Settings {
        part: Some(Duration::from_millis(200)),
        window: Duration::from_secs(60),
        ..short_segments()
    };
    let origin = Origin::start(settings).unwrap();
    let audience = vec![Viewing { path: "/channel-1/master.m3u8".into(), format: Format::Hls }];
    let settings = Settings::new(Target::clear(origin.address()), audience, 3);
    let viewers = Viewers::start(settings).unwrap();
    let figures = eventually(&viewers, |figures| figures.delivery.count >= 3 * 6);
    viewers.stop();
    assert_eq!(figures.errors.total(), 0, "{figures:?}");
    assert!(figures.behind_live.count >= figures.delivery.count, "{figures:?}");
    // The part before the one that was waited for is that much older.
    assert!(figures.behind_live.p50_us >= 200_000, "{figures:?}");
    let totals = origin.stop();
    assert_eq!(totals.refused, 0, "{totals:?}");
    assert!(totals.news > totals.news_again, "{totals:?}");
}

#[test]
fn viewers_that_stay_for_a_while_take_one_programme_after_the_other() {
    let window = Duration::from_secs(60);
    let origin = Origin::start(origin::Settings { window, ..short_segments() }).unwrap();
    let audience = Viewing::all(&short_segments(), Some(Kind::Live));
    let mut settings = Settings::new(Target::clear(origin.address()), audience, 3);
    (settings.stay, settings.says) = (Some(Duration::from_millis(10)), true);
    let viewers = Viewers::start(settings).unwrap();
    let figures = eventually(&viewers, |figures| figures.start_up.count >= 3 * 4);
    viewers.stop();
    assert_eq!(figures.errors.total(), 0, "{figures:?}");
    assert_eq!((figures.connections, origin.totals().refused), (3, 0), "{figures:?}");
}

/// The body of a response, which ends with its connection.
fn body(origin: &Origin, path: &str) -> Vec<u8> {
    use std::io::{Read, Write};
    let mut client = std::net::TcpStream::connect(origin.address()).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    client.write_all(request.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).unwrap();
    assert!(bytes.starts_with(b"HTTP/1.0 200") || bytes.starts_with(b"HTTP/1.1 200"), "{path}");
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    bytes.split_off(end + 4)
}

#[test]
fn a_segment_that_is_being_made_is_the_one_that_was() {
    let part = Some(Duration::from_millis(200));
    let settings = origin::Settings { part, window: Duration::from_secs(60), ..short_segments() };
    let schedule = settings.schedule().unwrap();
    let origin = Origin::start(settings).unwrap();
    let edge = schedule.edge(UnixMillis::now()).unwrap();
    let number = edge.sequence();
    let path = |file: &str| format!("/channel-1/variant01/dshmv/443KB/{file}.m4s");
    let growing = body(&origin, &path(&number.to_string()));
    assert_eq!(growing.len(), 524_288);
    assert!(growing == body(&origin, &path(&number.to_string())));
    // A part that is not there yet is waited for.
    let parts: Vec<u8> =
        (0..2).flat_map(|part| body(&origin, &path(&format!("{number}.{part}")))).collect();
    assert!(growing == parts);
    let next = schedule.edge(UnixMillis::now()).unwrap();
    let (number, part) = (next.sequence(), next.parts % next.parts_of_segment);
    assert!(!body(&origin, &path(&format!("{number}.{part}"))).is_empty());
}

#[test]
fn viewers_without_an_origin_count_errors() {
    let gone = Origin::start(short_segments()).unwrap();
    let address: SocketAddr = gone.address();
    gone.stop();
    let audience = Viewing::all(&short_segments(), None);
    let viewers = Viewers::start(Settings::new(Target::clear(address), audience, 2)).unwrap();
    let figures = eventually(&viewers, |figures| figures.errors.connect >= 2);
    assert_eq!((figures.responses, figures.watching), (0, 0));
}

#[test]
fn a_path_that_is_not_there_is_an_error_of_status() {
    let origin = Origin::start(short_segments()).unwrap();
    let audience = vec![Viewing { path: "/channel-9/master.m3u8".into(), format: Format::Hls }];
    let target = Target::clear(origin.address());
    let viewers = Viewers::start(Settings::new(target, audience, 1)).unwrap();
    let figures = eventually(&viewers, |figures| figures.errors.status >= 1);
    assert_eq!(figures.segments, 0);
    assert_eq!(figures.connections, 1);
}

/// Something on a port of its own that speaks TLS as `localhost` and passes on what is in it to
/// `origin`; and the certificate to trust.
fn terminator(origin: SocketAddr, folder: &std::path::Path) -> (SocketAddr, ClientOptions) {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, certified.cert.pem()).unwrap();
    std::fs::write(&key, certified.signing_key.serialize_pem()).unwrap();
    let client = ClientOptions { ca: Some(certificate.clone()), ..ClientOptions::default() };
    let source = CertificateSource { certificate, key, ..CertificateSource::default() };
    let store = CertificateStore::load(vec![source]).unwrap();
    let config = server_config(store, &ServerOptions::default()).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    // It lives as long as the test's process.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build_local(Default::default());
        runtime.unwrap().block_on(async {
            let any_port = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
            let listener = Listener::bind(&any_port, &ListenOptions::default()).unwrap();
            let Address::Tcp(address) = listener.local_address() else { unreachable!() };
            tell.send(*address).unwrap();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let config = config.clone();
                tokio::task::spawn_local(async move {
                    // One client does not like the certificate.
                    let Ok(mut inside) = server::accept(socket, &config, PATIENCE).await else {
                        return;
                    };
                    let mut outside = tokio::net::TcpStream::connect(origin).await.unwrap();
                    drop(tokio::io::copy_bidirectional(&mut inside, &mut outside).await);
                });
            }
        });
    });
    (told.recv().unwrap(), client)
}

#[test]
fn viewers_watch_through_tls() {
    let origin = Origin::start(short_segments()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (address, options) = terminator(origin.address(), folder.path());
    let config = client_config(&options).unwrap();
    let target = Target {
        authority: "localhost".into(),
        tls: Some(Tls { config, server_name: "localhost".into() }),
        ..Target::clear(address)
    };
    let audience = Viewing::all(&short_segments(), Some(Kind::OnDemand));
    let mut settings = Settings::new(target.clone(), audience.clone(), 2);
    settings.pace = Pace::Unbounded;
    let viewers = Viewers::start(settings).unwrap();
    let figures = eventually(&viewers, |figures| figures.segments >= 10);
    assert_eq!(figures.errors.total(), 0, "{figures:?}");

    let stranger = Target {
        tls: target.tls.map(|tls| Tls { server_name: "elsewhere.example".into(), ..tls }),
        ..Target::clear(address)
    };
    let viewers = Viewers::start(Settings::new(stranger, audience, 1)).unwrap();
    let figures = eventually(&viewers, |figures| figures.errors.connect >= 1);
    assert_eq!(figures.responses, 0);
}

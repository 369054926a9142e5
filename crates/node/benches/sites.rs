//! What ten thousand sites cost: `cargo bench -p freshet-node --bench sites`.
//!
//! Prints the time from the text of a configuration to a snapshot, with a certificate for each site and without, the
//! resident memory that a site takes (its origin, its hosts and what was read of it included) and that of its
//! certificate, and the time of a look-up by host and by the name that a TLS client asks for.

#![allow(clippy::print_stdout, reason = "its figures are what it is for")]

use freshet_base::splitmix::mixed;
use freshet_config::Settings;
use freshet_config::document::Document;
use freshet_net::tls::certificate::CertificateStore;
use freshet_node::preflight::{InForce, Prepared};
use freshet_node::snapshot::Snapshot;
use rcgen::{CertificateParams, KeyPair};
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// That of the program.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const SITES: usize = 10_000;
/// To read a text takes more than what becomes of it, and leaves room that comes to use later: what sites take
/// is what each further configuration adds, when some were read.
const LOADS_BEFORE: usize = 3;
const LOADS: usize = 12;
const LOOKUPS: usize = 2_000_000;
const ROUNDS: usize = 5;

fn main() {
    let folder = tempfile::tempdir().expect("there is room for certificates");
    issue(folder.path());
    let (plain, certified) = (text(None), text(Some(folder.path())));
    let (snapshot, _) = say_load("load", &plain);
    let (_, store) = say_load("load with certificates", &certified);
    let (bytes, _plain) = bytes_of_each(&plain);
    println!("memory: {bytes} bytes for each site");
    println!("memory: {} bytes with its certificate", bytes_of_each(&certified).0);
    let begun = Instant::now();
    let in_force = InForce { snapshot: &snapshot, certificates: None };
    let again = Prepared::new((*snapshot.settings).clone(), Some(&in_force));
    assert!(again.is_ok(), "a reload works");
    println!("reload without the text: {:.2} s", begun.elapsed().as_secs_f64());
    for (what, host) in [
        ("by name", "www.site-7777.example"),
        ("by its end", "deep.img.cdn-77.example"),
        ("of no site", "www.nobody.example"),
    ] {
        say_lookup(what, &[host.to_owned()], |host| snapshot.sites.of(host).is_some());
    }
    // Not in the order of anything, so that what one look-up needs is not what the last one did.
    let mut hosts: Vec<_> = (0..SITES).collect();
    hosts.sort_by_key(|number| mixed(*number as u64));
    let hosts: Vec<_> = hosts.iter().map(|number| format!("www.site-{number}.example")).collect();
    say_lookup("of all by name", &hosts, |host| snapshot.sites.of(host).is_some());
    let store = store.expect("a listener has TLS");
    say_lookup("of all certificates", &hosts, |host| store.has(host));
}

/// Writes a certificate for each site.
fn issue(folder: &Path) {
    for number in 0..SITES {
        let key = KeyPair::generate().expect("there is randomness");
        let host = format!("www.site-{number}.example");
        let params = CertificateParams::new([host]).expect("the name is one");
        let certificate = params.self_signed(&key).expect("it can be signed");
        let write = |ending: &str, text: String| {
            fs::write(folder.join(format!("{number}.{ending}")), text).expect("there is room");
        };
        write("pem", certificate.pem());
        write("key", key.serialize_pem());
    }
}

/// The configuration of all sites, with certificates in this folder.
fn text(certificates: Option<&Path>) -> String {
    let mut text = String::from("[cache]\ngrace = \"10s\"\n");
    if certificates.is_some() {
        text.push_str("[[listen]]\naddress = \"127.0.0.1:0\"\ntls = true\n");
    }
    for number in 0..SITES {
        let _ = write!(
            text,
            "[[site]]\nhosts = [\"www.site-{number}.example\", \"*.cdn-{number}.example\"]\n\
             [[site.origin]]\nurl = \"http://10.{}.{}.{}:8080\"\n[site.cache]\nnegative = \"{}s\"\n",
            number >> 16,
            (number >> 8) & 255,
            number & 255,
            number % 60,
        );
        if let Some(folder) = certificates {
            let at = folder.join(number.to_string());
            let _ = write!(
                text,
                "[[site.certificate]]\ncert = \"{0}.pem\"\nkey = \"{0}.key\"\n",
                at.display()
            );
        }
    }
    text
}

type Loaded = (Snapshot, Option<Arc<CertificateStore>>);

/// A snapshot of a text, the time of whose words is added to `reading`.
fn load(text: &str, reading: &mut Duration) -> Loaded {
    let begun = Instant::now();
    let document = Document::parse(text).expect("the text is well-formed");
    *reading += begun.elapsed();
    let settings = Settings::from_document(&document).expect("the settings are sound");
    let Ok(prepared) = Prepared::new(settings, None) else { panic!("the sites can be made") };
    (prepared.draft.on([].into(), None), prepared.certificates)
}

fn say_load(what: &str, text: &str) -> Loaded {
    let (begun, mut reading) = (Instant::now(), Duration::ZERO);
    let loaded = load(text, &mut reading);
    let (all, reading) = (begun.elapsed().as_secs_f64(), reading.as_secs_f64());
    let processors = thread::available_parallelism().map_or(1, usize::from);
    println!("{what}: {all:.2} s, {reading:.2} s of it the text ({processors} processors)");
    loaded
}

/// What each site takes, and what was loaded to know it: what goes would leave room for what is loaded next.
fn bytes_of_each(text: &str) -> (u64, Vec<Loaded>) {
    let again = || load(text, &mut Duration::default());
    let mut all: Vec<_> = (0..LOADS_BEFORE).map(|_| again()).collect();
    let before = resident_bytes();
    all.extend((0..LOADS).map(|_| again()));
    (resident_bytes().saturating_sub(before) / (LOADS * SITES) as u64, all)
}

fn say_lookup(what: &str, hosts: &[String], find: impl Fn(&str) -> bool) {
    let best = (0..ROUNDS).map(|_| {
        let begun = Instant::now();
        for host in hosts.iter().cycle().take(LOOKUPS) {
            black_box(find(black_box(host)));
        }
        begun.elapsed().as_nanos() as f64 / LOOKUPS as f64
    });
    println!("look-up {what}: {:.0} ns", best.fold(f64::MAX, f64::min));
}

/// Bytes of this process in memory.
fn resident_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("the second number is pages") * 4096
}

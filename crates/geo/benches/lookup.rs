//! What a look-up costs a request that a rule, a log field or a policy has one for.
//!
//! `cargo bench -p freshet-geo --features writer`: the bound is 1 µs among 400,000 networks, as many as free databases
//! of countries have.

use criterion::{Criterion, criterion_group, criterion_main};
use freshet_geo::writer::{Writer, country};
use freshet_geo::{File, Geo};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};

const NETWORKS: u32 = 400_000;

/// Addresses all over the table, so that it is not in the nearest cache.
fn addresses() -> impl Iterator<Item = IpAddr> {
    (0_u32..).map(|at| Ipv4Addr::from(at.wrapping_mul(2_654_435_761)).into())
}

fn lookup(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let path = folder.path().join("countries.mmdb");
    let records: Vec<_> = ["AT", "DE", "FR", "NO", "US"].map(|code| country("EU", code)).into();
    let mut writer = Writer::new("GeoLite2-Country");
    for network in 0..NETWORKS {
        let first = Ipv4Addr::from(network << 13);
        writer = writer.with(&format!("{first}/19"), &records[network as usize % records.len()]);
    }
    std::fs::write(&path, writer.bytes()).expect("there is room for a file");
    let geo = Geo { country: Some(File::open(&path).expect("it is a database")), ..Geo::default() };
    let mut addresses = addresses();
    criterion.bench_function("the country of an address", |bencher| {
        bencher
            .iter(|| black_box(geo.country(black_box(addresses.next().expect("they do not end")))));
    });
}

criterion_group!(benches, lookup);
criterion_main!(benches);

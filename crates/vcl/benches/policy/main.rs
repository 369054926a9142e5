//! What a policy costs: the built-in text over a hit, a policy of 300 lines with 20 patterns, an
//! access list of 100,000 networks, and compiling 5,000 lines and 500 KB.

mod hit;

use criterion::{Criterion, criterion_group, criterion_main};
use freshet_vcl::Task;
use hit::{HEAD, hit, load, long_policy, request, response, session};
use std::fmt::Write as _;
use std::hint::black_box;

/// 2,000 subroutines and an access list of 10,000 networks, some 500 KB.
fn large_policy() -> String {
    let mut text = String::from(HEAD);
    for number in 0..2000 {
        let _ = writeln!(
            text,
            "sub s{number} {{\n  if (req.http.X-Kind == \"kind-{number}\") {{\n    set req.http.X-Of = \
             \"group \" + req.url + \" of {number}\";\n    unset req.http.X-Kind;\n    set req.ttl = \
             {number}s;\n  }}\n}}"
        );
    }
    text.push_str("sub vcl_recv {\n");
    (0..2000).for_each(|number| _ = writeln!(text, "  call s{number};"));
    text.push_str("}\n");
    text.push_str(&networks(10_000));
    text
}

/// An access list of `count` networks of 256 addresses.
fn networks(count: u32) -> String {
    let mut text = String::from("acl large {\n");
    for number in 0..count {
        let [_, a, b, c] = number.to_be_bytes();
        let _ = writeln!(text, "  \"{}.{b}.{c}.0\"/24;", 10 + a);
    }
    text.push_str("}\n");
    text
}

fn bench(criterion: &mut Criterion) {
    let (session, req, resp) = (session(), request(), response());
    criterion.bench_function("heads alone", |bench| {
        bench.iter(|| black_box((req.clone(), resp.clone(), Task::new())));
    });
    let builtin = load(HEAD.into());
    criterion.bench_function("hit, built-in text", |bench| {
        bench.iter(|| hit(&builtin, &session, &req, &resp));
    });
    let long = load(long_policy());
    criterion.bench_function("hit, 300 lines and 20 patterns", |bench| {
        bench.iter(|| hit(&long, &session, &req, &resp));
    });
    let mut text = String::from(HEAD);
    for number in 0..1000 {
        let _ = writeln!(
            text,
            "sub s{number} {{\n  if (req.url ~ \"^/a{number}/\") {{\n    set req.http.X-{number} = \
             \"v\" + req.method;\n  }}\n}}"
        );
    }
    let listed = load(format!("{HEAD}{}", networks(100_000)));
    let acl = &listed.program().acls[0];
    let mut number = 0_u32;
    criterion.bench_function("access list of 100,000", |bench| {
        bench.iter(|| {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let [_, a, b, c] = number.to_be_bytes();
            black_box(acl.contains(std::net::Ipv4Addr::new(10 + a % 2, b, c, 7).into()))
        });
    });
    let mut group = criterion.benchmark_group("compile");
    group.sample_size(10);
    group.bench_function("5,000 lines, 1,000 patterns", |bench| {
        bench.iter(|| black_box(load(text.clone())));
    });
    let text = large_policy();
    group.bench_function(format!("{} KB, 2,000 subroutines", text.len() / 1000), |bench| {
        bench.iter(|| black_box(load(text.clone())));
    });
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);

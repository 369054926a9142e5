//! What a policy costs: the built-in text over a hit, a policy of 300 lines with 20 patterns, an
//! access list of 100,000 networks, and compiling 5,000 lines and 500 KB.

use criterion::{Criterion, criterion_group, criterion_main};
use freshet_http::message::{RequestHead, ResponseHead};
use freshet_vcl::{
    ClientKnobs, Delivery, Host, NoFiles, ObjectView, Policy, Session, Settings, Source, State,
    Task, View,
};
use std::fmt::Write as _;
use std::hint::black_box;

struct Node;

impl Host for Node {
    fn backend_health(&self, _: u32) -> (bool, f64) {
        (true, 0.0)
    }

    fn random(&mut self) -> u64 {
        4
    }
}

fn load(text: String) -> Policy {
    let settings = Settings { unused_is_error: false, ..Settings::default() };
    let (program, report) =
        freshet_vcl::compile(Source { name: "bench".into(), text }, &NoFiles, &settings);
    let program = program.unwrap_or_else(|| panic!("{}", report.render(false)));
    Policy::load("bench", program, Default::default(), 0.0, &mut Node)
        .unwrap_or_else(|failure| panic!("{failure}"))
}

const HEAD: &str = "vcl 4.1;\nbackend b { .host = \"127.0.0.1\"; }\n";

/// About 300 lines, 20 patterns, of which a request for a page meets all.
fn long_policy() -> String {
    let mut text = format!("{HEAD}import std;\nsub vcl_recv {{\n");
    for number in 0..20 {
        let _ = writeln!(
            text,
            "  if (req.url ~ \"^/section{number}/([a-z]+)/[0-9]+\") {{\n    set req.http.X-Section = \
             \"{number}\";\n    set req.url = regsub(req.url, \"^/section{number}\", \
             \"/s\");\n  }}"
        );
    }
    for number in 0..60 {
        let _ = writeln!(
            text,
            "  if (req.http.X-Flag{number}) {{\n    unset req.http.X-Flag{number};\n  }}"
        );
    }
    text.push_str("  set req.http.X-Normal = std.tolower(req.http.host);\n}\n");
    text.push_str(
        "sub vcl_deliver {\n  set resp.http.X-Hits = obj.hits;\n  unset resp.http.Server;\n}\n",
    );
    text
}

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

/// The states of a hit: recv, hash, hit, deliver.
fn hit(policy: &Policy, session: &Session, req: &RequestHead, resp: &ResponseHead) {
    let mut task = Task::new();
    let mut client = ClientKnobs::default();
    let (mut req, mut head) = (req.clone(), resp.clone());
    let mut delivery = Delivery::default();
    let object = ObjectView {
        fields: &resp.fields,
        status: 200,
        reason: "OK",
        age: 1.0,
        ttl: 9.0,
        grace: 1.0,
        keep: 0.0,
        time: 0.0,
        hits: 3,
        uncacheable: false,
        can_esi: false,
        storage: None,
    };
    for state in [State::Recv, State::Hash, State::Hit, State::Deliver] {
        let mut view = View {
            client: Some(&mut client),
            req: Some(&mut req),
            object: Some(object),
            ..View::new(1.0, session)
        };
        if state == State::Deliver {
            view.resp = Some(&mut head);
            view.delivery = Some(&mut delivery);
        }
        black_box(policy.run(state, view, &mut task, &mut Node));
    }
}

fn bench(criterion: &mut Criterion) {
    let session = Session { client: "192.0.2.1:1".parse().ok(), ..Session::default() };
    let fields = [("User-Agent", "Mozilla/5.0 (X11; Linux x86_64)"), ("Accept", "*/*")];
    let req = RequestHead {
        authority: "www.example.com".into(),
        target: "/section19/news/2026?page=4".into(),
        fields: fields.into_iter().collect(),
        ..RequestHead::default()
    };
    let mut resp = ResponseHead::new(200);
    resp.fields.append("Content-Type", "text/html");
    resp.fields.append("Server", "origin");
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

//! A hit as a policy sees it: its states over the head of a request and that of what is stored.

use freshet_http::message::{RequestHead, ResponseHead};
use freshet_vcl::{
    ClientKnobs, Delivery, Host, NoFiles, ObjectView, Policy, Session, Settings, Source, State,
    Task, View,
};
use std::fmt::Write as _;
use std::hint::black_box;

/// A node whose backends are all well.
pub(crate) struct Node;

impl Host for Node {
    fn backend_health(&self, _: u32) -> (bool, f64) {
        (true, 0.0)
    }

    fn random(&mut self) -> u64 {
        4
    }
}

pub(crate) fn load(text: String) -> Policy {
    let settings = Settings { unused_is_error: false, ..Settings::default() };
    let (program, report) =
        freshet_vcl::compile(Source { name: "bench".into(), text }, &NoFiles, &settings);
    let program = program.unwrap_or_else(|| panic!("{}", report.render(false)));
    Policy::load("bench", program, Default::default(), None, 0.0, &mut Node)
        .unwrap_or_else(|failure| panic!("{failure}"))
}

/// What a policy begins with.
pub(crate) const HEAD: &str = "vcl 4.1;\nbackend b { .host = \"127.0.0.1\"; }\n";

/// About 300 lines, 20 patterns, of which a request for a page meets all.
pub(crate) fn long_policy() -> String {
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

/// The head of a request of a browser.
pub(crate) fn request() -> RequestHead {
    let fields = [("User-Agent", "Mozilla/5.0 (X11; Linux x86_64)"), ("Accept", "*/*")];
    RequestHead {
        authority: "www.example.com".into(),
        target: "/section19/news/2026?page=4".into(),
        fields: fields.into_iter().collect(),
        ..RequestHead::default()
    }
}

/// The head of what is stored.
pub(crate) fn response() -> ResponseHead {
    let mut resp = ResponseHead::new(200);
    resp.fields.append("Content-Type", "text/html");
    resp.fields.append("Server", "origin");
    resp
}

/// Who asks.
pub(crate) fn session() -> Session {
    Session { client: "192.0.2.1:1".parse().ok(), ..Session::default() }
}

/// The states of a hit: recv, hash, hit, deliver.
pub(crate) fn hit(policy: &Policy, session: &Session, req: &RequestHead, resp: &ResponseHead) {
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

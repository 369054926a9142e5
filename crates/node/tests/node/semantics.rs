//! What each decision of [`Semantics`] is about: a cache by RFC 9111, and the same with that one decision turned over,
//! see the same requests and answers, and something else comes of them.

use crate::client::{Answer, Client};
use crate::harness::{Setup, TestNode, run};
use crate::origin::{Origin, Request, fresh, head, response};
use flate2::Compression;
use flate2::write::GzEncoder;
use freshet_cache::{KeyBuilder, Object};
use freshet_http::fields::Fields;
use freshet_http::message::{RequestHead, ResponseHead};
use freshet_node::policy::{
    self, BackendError, BackendFetch, BackendResponse, ClientTask, Deliver, FetchKind, FetchTask,
    Hit, Miss, Pass, Pipe, Policy, Purge, Recv, Served,
};
use freshet_node::semantics::{RFC_9111, Semantics};
use freshet_node::site::Site;
use freshet_policies::builtin::Builtin;
use freshet_site::synthetic::Synthetic;
use std::any::Any;
use std::io::Write as _;
use std::sync::Arc;

/// What happens, and what shows the decision in it.
struct Scenario {
    /// Of the site.
    config: &'static str,
    /// What an origin says once it has the head of a request.
    origin: fn(&Request) -> Vec<u8>,
    /// Requests one after the other: what stands before the fields, which end in an empty line, and a body.
    asks: &'static [&'static str],
    shows: fn(&[Answer], &[Request]) -> String,
    /// That, by RFC 9111 and where the decision is the other one.
    is: [&'static str; 2],
}

/// A test for each decision. One without a scenario does not compile, as its field is in no row.
macro_rules! decisions {
    ($($name:ident: $scenario:expr,)*) => {
        #[allow(dead_code, reason = "that it compiles is what it is for")]
        fn is_every_decision(of: Semantics) {
            let Semantics { $($name: _,)* } = of;
        }
        $(#[test]
        fn $name() {
            decides($scenario, |semantics| semantics.$name = !semantics.$name);
        })*
    };
}

decisions! {
    is_strict_with_ranges: Scenario {
        config: "",
        origin: |_| fresh("0123456789"),
        asks: &["GET /", "GET /\r\nRange: bytes=5-2"],
        shows: |answers, _| answers[1].head.status().to_string(),
        is: ["200", "416"],
    },
    judges_passed_conditions: Scenario {
        config: "[[cache_rule]]\nbypass = true",
        origin: |_| response("200 OK", &["ETag: \"a\""], "x"),
        asks: &["GET /\r\nIf-None-Match: \"a\""],
        shows: |answers, _| answers[0].head.status().to_string(),
        is: ["200", "304"],
    },
    keeps_fields_without_content: Scenario {
        config: "",
        origin: |_| text(),
        asks: &["GET /", "GET /\r\nIf-None-Match: \"a\""],
        shows: |answers, _| said(answers[1].field("content-type")),
        is: ["-", "text/html"],
    },
    sends_content_of_lookups: Scenario {
        config: "",
        origin: |_| fresh("x"),
        asks: &["GET /\r\nContent-Length: 3\r\n\r\nabc"],
        shows: |_, asked| said(asked[0].field("content-length")),
        is: ["-", "3"],
    },
    pages_failures: Scenario {
        config: "",
        origin: |_| b"nonsense\r\n\r\n".to_vec(),
        asks: &["GET /"],
        shows: |answers, _| answers[0].head.status().to_string(),
        is: ["502", "503"],
    },
    tunnels_any_protocol: Scenario {
        config: "[origins]\nupgrades = [\"websocket\"]",
        origin: |_| {
            let fields = ["Connection: Upgrade", "Upgrade: websocket"];
            head("101 Switching Protocols", &fields, None)
        },
        asks: &["GET /\r\nConnection: Upgrade\r\nUpgrade: websocket, other"],
        shows: |_, asked| said(asked[0].field("upgrade")),
        is: ["websocket", "websocket, other"],
    },
    forwards_as_it_is: Scenario {
        config: "",
        origin: |_| fresh("x"),
        asks: &["GET /"],
        shows: |_, asked| said(asked[0].field("x-forwarded-proto")),
        is: ["http", "-"],
    },
    judges_by_client: Scenario {
        config: "",
        origin: |_| response("200 OK", &["Cache-Control: max-age=60", "Vary: X-Host"], "x"),
        asks: &["GET /\r\nX-Host: a", "GET /\r\nX-Host: b"],
        shows: |_, asked| asked.len().to_string(),
        is: ["1", "2"],
    },
    makes_own_keys: Scenario {
        config: "",
        origin: |_| fresh("x"),
        asks: &["GET /", "PURGE http://a:9/", "GET /"],
        shows: |_, asked| asked.len().to_string(),
        is: ["2", "1"],
    },
    refuses_bogus_answers: Scenario {
        config: "",
        origin: |_| b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n".to_vec(),
        asks: &["GET /"],
        shows: |answers, _| answers[0].head.status().to_string(),
        is: ["204", "503"],
    },
    speaks_of_connections: Scenario {
        config: "",
        origin: |_| fresh("x"),
        asks: &["GET /"],
        shows: |answers, _| said(answers[0].field("connection")),
        is: ["-", "keep-alive"],
    },
    trusts_any_304: Scenario {
        config: "",
        origin: |asked| match asked.field("if-none-match") {
            Some(_) => response("304 Not Modified", &["Cache-Control: max-age=60", "ETag: \"b\""], ""),
            None => response("200 OK", &["Cache-Control: max-age=0", "ETag: \"a\""], "x"),
        },
        asks: &["GET /", "GET /"],
        shows: |_, asked| asked.len().to_string(),
        is: ["3", "2"],
    },
    serves_stale_on_error: Scenario {
        config: "",
        origin: |asked| match asked.field("if-none-match") {
            Some(_) => response("503 Service Unavailable", &[], "away"),
            None => {
                let lifetime = "Cache-Control: max-age=0, stale-if-error=600";
                response("200 OK", &[lifetime, "ETag: \"a\""], "x")
            }
        },
        asks: &["GET /", "GET /"],
        shows: |answers, _| answers[1].head.status().to_string(),
        is: ["200", "503"],
    },
    ends_stored_by_all_not_kept: Scenario {
        config: "",
        origin: |asked| match asked.field("if-none-match") {
            // A mistake that passes, of no kind that what is stale helps against.
            Some(_) => response("505 HTTP Version Not Supported", &["Cache-Control: no-store"], "no"),
            None => response("200 OK", &["Cache-Control: max-age=0", "ETag: \"a\""], "x"),
        },
        asks: &["GET /", "GET /", "GET /"],
        shows: |_, asked| said(asked[2].field("if-none-match")),
        is: ["\"a\"", "-"],
    },
    follows_methods: Scenario {
        config: "",
        origin: |_| fresh("x"),
        asks: &["GET /", "POST /\r\nContent-Length: 0", "GET /"],
        shows: |_, asked| asked.len().to_string(),
        is: ["3", "2"],
    },
    asks_for_parts: Scenario {
        config: "",
        origin: |asked| match asked.field("range") {
            Some(_) => response("404 Not Found", &["Cache-Control: max-age=60"], "no part"),
            None => fresh("0123456789"),
        },
        asks: &["GET /\r\nRange: bytes=2-3"],
        shows: |answers, _| answers[0].head.status().to_string(),
        is: ["206", "404"],
    },
    keeps_fresh_over_stale: Scenario {
        config: "",
        origin: |asked| {
            let lifetime = match asked.field("accept-language") {
                Some("b") => "Cache-Control: max-age=0",
                _ => "Cache-Control: max-age=60",
            };
            response("200 OK", &[lifetime, "ETag: \"a\"", "Vary: Accept-Language"], "x")
        },
        asks: &[
            "GET /\r\nAccept-Language: a",
            "GET /\r\nAccept-Language: b",
            "GET /\r\nAccept-Language: b",
        ],
        shows: |_, asked| said(asked.last().unwrap().field("if-none-match")),
        is: ["\"a\"", "-"],
    },
    codes_gzip: Scenario {
        config: "",
        origin: |_| fresh("x"),
        asks: &["GET /"],
        shows: |_, asked| said(asked[0].field("accept-encoding")),
        is: ["-", "gzip"],
    },
    dates_responses: Scenario {
        config: "",
        origin: |_| fresh("x"),
        asks: &["GET /"],
        shows: |answers, _| answers[0].field("date").is_some().to_string(),
        is: ["true", "false"],
    },
    keeps_codings: Scenario {
        config: "[cache]\ngzip = true\ncodings = [\"br\"]",
        origin: |_| text(),
        asks: &["GET /\r\nAccept-Encoding: br"],
        shows: |answers, _| said(answers[0].field("content-encoding")),
        is: ["br", "-"],
    },
    finds_gzip_by_name: Scenario {
        config: "[cache]\ngzip = true",
        origin: |_| packed(),
        asks: &["GET /\r\nAccept-Encoding: x-gzip;q=0"],
        shows: |answers, _| said(answers[0].field("content-encoding")),
        is: ["-", "gzip"],
    },
    shows_unpacked: Scenario {
        config: "[cache]\ngzip = true",
        origin: |_| packed(),
        asks: &["GET /"],
        shows: |answers, _| said(answers[0].field("etag")),
        is: ["W/\"a\"", "\"a\""],
    },
    keeps_cookies: Scenario {
        config: "",
        origin: |_| response("200 OK", &["Cache-Control: max-age=60", "Set-Cookie: a=b"], "x"),
        asks: &["GET /", "GET /"],
        shows: |_, asked| asked.len().to_string(),
        is: ["2", "1"],
    },
}

fn said(value: Option<&str>) -> String {
    value.unwrap_or("-").to_owned()
}

const FIELDS: [&str; 3] = ["Cache-Control: max-age=60", "Content-Type: text/html", "ETag: \"a\""];

/// What is worth packing.
fn text() -> Vec<u8> {
    response("200 OK", &FIELDS, "all work and no play ".repeat(500))
}

fn packed() -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(b"all work and no play").unwrap();
    let fields = [&FIELDS[..], &["Content-Encoding: gzip", "Vary: Accept-Encoding"]].concat();
    response("200 OK", &fields, encoder.finish().unwrap())
}

fn decides(scenario: Scenario, turn_over: fn(&mut Semantics)) {
    let mut other = RFC_9111;
    turn_over(&mut other);
    let found = [RFC_9111, other].map(|semantics| run(outcome(&scenario, semantics)));
    assert_eq!(found, scenario.is);
}

async fn outcome(scenario: &Scenario, semantics: Semantics) -> String {
    let mut origin = Origin::scripted();
    let node = start(&Setup::of(&origin).and(scenario.config), semantics);
    let mut answers = Vec::new();
    for ask in scenario.asks {
        let (first, rest) = ask.split_once("\r\n").unwrap_or((ask, ""));
        let (fields, body) = rest.split_once("\r\n\r\n").unwrap_or((rest, ""));
        let fields = if fields.is_empty() { String::new() } else { format!("{fields}\r\n") };
        let mut client = Client::to(&node).await;
        client.send(format!("{first} HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}")).await;
        let method = first.split(' ').next().unwrap();
        let answer = client.answer(method);
        tokio::pin!(answer);
        answers.push(loop {
            tokio::select! {
                answer = &mut answer => break answer,
                asked = origin.next() => asked.send((scenario.origin)(&asked.request)),
            }
        });
    }
    (scenario.shows)(&answers, &origin.requests())
}

/// A node whose site has this policy's word and these semantics.
fn start(setup: &Setup, semantics: Semantics) -> TestNode {
    setup.start_with(|plain| {
        let policy = Arc::new(Mixed { policy: Builtin, semantics });
        let site = Site::new(&plain.settings, policy, &Arc::default(), None).unwrap();
        vec![Arc::new(site)]
    })
}

/// The policy of RFC 9111 beside a machine that does something else.
struct Mixed {
    policy: Builtin,
    semantics: Semantics,
}

impl Policy for Mixed {
    fn recv(&self, task: &mut ClientTask) -> Recv {
        self.policy.recv(task)
    }
    fn hash<'a>(&self, task: &mut ClientTask, key: KeyBuilder<'a>) -> KeyBuilder<'a> {
        self.policy.hash(task, key)
    }
    fn hit(&self, task: &mut ClientTask, object: &Object) -> Hit {
        self.policy.hit(task, object)
    }
    fn miss(&self, task: &mut ClientTask) -> Miss {
        self.policy.miss(task)
    }
    fn pass(&self, task: &mut ClientTask) -> Pass {
        self.policy.pass(task)
    }
    fn pipe(&self, task: &mut ClientTask) -> Pipe {
        self.policy.pipe(task)
    }
    fn purge(&self, task: &mut ClientTask, objects: usize) -> Purge {
        self.policy.purge(task, objects)
    }
    fn deliver(
        &self,
        task: &mut ClientTask,
        head: &mut ResponseHead,
        served: Served<'_>,
    ) -> Deliver {
        self.policy.deliver(task, head, served)
    }
    fn synth(&self, task: &mut ClientTask, response: &mut Synthetic) -> Deliver {
        self.policy.synth(task, response)
    }
    fn begin_fetch(&self, task: &mut ClientTask, kind: FetchKind) -> Option<Box<dyn Any>> {
        self.policy.begin_fetch(task, kind)
    }
    fn sent_target<'a>(&self, task: &'a ClientTask) -> Option<&'a str> {
        self.policy.sent_target(task)
    }
    fn leads_elsewhere(&self, site: &Site, request: &RequestHead) -> bool {
        self.policy.leads_elsewhere(site, request)
    }
    fn writes(&self, site: &Site, name: &[u8]) -> bool {
        self.policy.writes(site, name)
    }
    fn write(&self, task: &ClientTask, fields: &mut Fields) {
        self.policy.write(task, fields);
    }
    fn semantics(&self) -> Semantics {
        self.semantics
    }
    fn backend_fetch(&self, task: &mut FetchTask) -> BackendFetch {
        self.policy.backend_fetch(task)
    }
    fn backend_response(
        &self,
        task: &mut FetchTask,
        answer: &mut policy::Answer,
    ) -> BackendResponse {
        self.policy.backend_response(task, answer)
    }
    fn backend_error(&self, task: &mut FetchTask, response: &mut Synthetic) -> BackendError {
        self.policy.backend_error(task, response)
    }
}

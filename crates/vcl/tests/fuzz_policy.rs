//! Random policies: mistakes are named, nothing panics, and what compiles runs.
#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

use bolero::check;
use freshet_http::message::{RequestHead, ResponseHead};
use freshet_vcl::{
    Answer, ClientKnobs, Delivery, FetchKnobs, Host, NoFiles, Policy, Session, Settings, Source,
    State, Task, View,
};
use std::time::Duration;

const TEST_TIME: Duration = Duration::from_millis(2500);
const ITERATIONS: usize = 100_000;
const INPUT_BYTES_MAX: usize = 400;

/// Pieces of policies, picked by the random bytes, so that more than the lexer is reached.
const PIECES: [&str; 96] = [
    "vcl 4.1;",
    "vcl 4.0;",
    "backend b { .host = \"127.0.0.1\"; }",
    "backend n none;",
    "sub ",
    "vcl_recv",
    "vcl_deliver",
    "vcl_backend_response",
    "vcl_init",
    "mine",
    " { ",
    " } ",
    ";",
    "(",
    ")",
    ",",
    "=",
    "+=",
    "==",
    "!=",
    "~",
    "!~",
    "<",
    ">=",
    "&&",
    "||",
    "!",
    "+",
    "-",
    "*",
    "/",
    "%",
    ".",
    "if ",
    "else ",
    "elseif ",
    "set ",
    "unset ",
    "call ",
    "return ",
    "new ",
    "x",
    "import std;",
    "import directors;",
    "import cookie;",
    "import blob;",
    "include \"x\";",
    "acl a { \"10.0.0.0\"/8; }",
    "probe p { .url = \"/\"; }",
    ".probe = p;",
    "req.url",
    "req.http.a",
    "req.http.\"b.c\"",
    "req",
    "beresp.ttl",
    "resp.status",
    "obj.hits",
    "client.ip",
    "now",
    "true",
    "1",
    "15",
    "1.5",
    "10s",
    "2KB",
    "\"text\"",
    "{\"long\"}",
    "\"\"\"longer\"\"\"",
    "\"(a+)+$\"",
    ":aGk=:",
    "std.tolower",
    "std.integer",
    "std.collect",
    "directors.round_robin",
    "directors.shard",
    "x.add_backend",
    "x.backend",
    "cookie.parse",
    "regsub",
    "hash_data",
    "synthetic",
    "ban",
    "pass",
    "hash",
    "deliver",
    "restart",
    "synth(404, \"x\")",
    "fail(\"x\")",
    "retry",
    "lookup",
    "req.backend_hint",
    "none",
    "storage.s0",
    "# a comment\n",
    "/* another */",
    "C{ inline }C",
];

struct Node;

impl Host for Node {
    fn backend_health(&self, backend: u32) -> (bool, f64) {
        (backend.is_multiple_of(2), 1.0)
    }

    fn random(&mut self) -> u64 {
        0x1234_5678
    }
}

fn compile_and_run(text: String) {
    let settings = Settings { unused_is_error: false, ..Settings::default() };
    let source = Source { name: "fuzz".into(), text };
    let (program, report) = freshet_vcl::compile(source, &NoFiles, &settings);
    let _ = (report.render(false), report.render_vcc());
    assert_eq!(program.is_some(), !report.has_errors());
    let Some(program) = program else { return };
    let _ = freshet_vcl::explain(&program);
    let Ok(policy) = Policy::load("fuzz", program, Default::default(), None, 1.0, &mut Node) else {
        return;
    };
    let session = Session::default();
    let (mut task, mut client) = (Task::with_budget(4096), ClientKnobs::default());
    let (mut fetch, mut answer) = (FetchKnobs::default(), Answer::default());
    let (mut req, mut delivery) = (RequestHead::default(), Delivery::default());
    let (mut resp, mut body) = (ResponseHead::new(200), Vec::new());
    for state in State::ALL {
        let mut view = View::new(1.0, &session);
        if state.is_client() {
            (view.client, view.req) = (Some(&mut client), Some(&mut req));
            (view.resp, view.delivery) = (Some(&mut resp), Some(&mut delivery));
        } else {
            (view.fetch, view.bereq) = (Some(&mut fetch), Some(&mut req));
            (view.beresp, view.answer) = (Some(&mut resp), Some(&mut answer));
        }
        view.body = Some(&mut body);
        policy.run(state, view, &mut task, &mut Node);
    }
}

#[test]
fn fuzz_pieces() {
    check!()
        .with_test_time(TEST_TIME)
        .with_iterations(ITERATIONS)
        .with_max_len(INPUT_BYTES_MAX)
        .for_each(|input: &[u8]| {
            let mut text = String::from("vcl 4.1; backend b { .host = \"127.0.0.1\"; } ");
            for byte in input {
                text.push_str(PIECES[usize::from(*byte) % PIECES.len()]);
                if byte & 0x80 != 0 {
                    text.push(' ');
                }
            }
            compile_and_run(text);
        });
}

#[test]
fn fuzz_text() {
    check!()
        .with_test_time(TEST_TIME)
        .with_iterations(ITERATIONS)
        .with_max_len(INPUT_BYTES_MAX)
        .for_each(|input: &[u8]| compile_and_run(String::from_utf8_lossy(input).into_owned()));
}

/// A policy with many constructs, of which the random bytes cut and double pieces.
const WHOLE: &str = include_str!("../../../docs/examples/vcl/cms.vcl");

#[test]
fn fuzz_edits() {
    check!().with_test_time(TEST_TIME).with_iterations(ITERATIONS).with_max_len(64).for_each(
        |input: &[u8]| {
            let mut text = WHOLE.as_bytes().to_vec();
            for edit in input.chunks_exact(4) {
                let at = usize::from(u16::from_be_bytes([edit[0], edit[1]])) % (text.len() + 1);
                let end = (at + usize::from(edit[2] % 40)).min(text.len());
                match edit[3] % 3 {
                    0 => drop(text.drain(at..end)),
                    1 => {
                        let piece = text[at..end].to_vec();
                        text.splice(at..at, piece);
                    }
                    _ => text.insert(at, edit[3]),
                }
            }
            compile_and_run(String::from_utf8_lossy(&text).into_owned());
        },
    );
}

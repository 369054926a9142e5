//! What a policy cannot do: take memory, time or another header field without end.

use crate::scene::{Scene, after, compile};
use freshet_vcl::{NoFiles, Outcome, Settings, Source, Sources, State, Task};

#[test]
fn a_workspace_ends() {
    let policy =
        compile("sub vcl_recv { set req.http.A = req.http.A + req.http.A + \"0123456789\"; }");
    let mut scene = Scene { task: Task::with_budget(4096), ..Scene::default() };
    let failed = (0..20).find_map(|_| {
        scene.run(&policy, State::Recv);
        scene.task.take_failure()
    });
    assert_eq!(failed.unwrap().message, "out of workspace");
    assert!(scene.req.fields.get("a").unwrap().len() < 4096);
}

#[test]
fn calls_that_double_end() {
    let mut text = String::from("sub vcl_recv { call s0; }\n");
    for at in 0..40 {
        text.push_str(&format!("sub s{at} {{ call s{0}; call s{0}; }}\n", at + 1));
    }
    text.push_str("sub s40 { set req.http.A = \"1\"; }");
    let policy = compile(&text);
    let mut scene = Scene::default();
    assert_eq!(scene.run(&policy, State::Recv), Outcome::Fail);
    let failure = scene.task.take_failure().unwrap();
    assert!(failure.message.contains("too much was done") || failure.message.contains("workspace"));
}

#[test]
fn matches_and_substitutions_that_double_end() {
    let doubling = |leaf: &str| {
        let mut text = String::from("sub vcl_recv { call s0; }\n");
        for at in 0..12 {
            text.push_str(&format!("sub s{at} {{ call s{0}; call s{0}; }}\n", at + 1));
        }
        compile(&format!("import std; {text} sub s12 {{ if ({leaf}) {{ return (pass); }} }}"))
    };
    let all = |one: &str| doubling(&vec![one; 100].join(" || "));
    for one in [
        "req.url ~ \"x\"",
        "req.url + \"a\" ~ \"x\"",
        "regsub(req.url, \"x\", \"y\") == \"z\"",
        "std.fnmatch(\"x*\", req.url)",
    ] {
        let mut scene = Scene::default();
        assert_eq!(scene.run(&all(one), State::Recv), Outcome::Fail, "{one}");
        let failure = scene.task.take_failure().unwrap();
        assert_eq!(failure.message, "too much was done in one state", "{one}");
    }
}

#[test]
fn matches_near_their_limit_end_in_time() {
    // Each takes thousands of steps and ends below the limit.
    let text = "a".repeat(10) + "b";
    let one = format!("\"{text}\" ~ \"^(a+)+$\"");
    let matches = vec![one; 50].join(" || ");
    let mut text = String::from("sub vcl_recv { call s0; }\n");
    for at in 0..10 {
        text.push_str(&format!("sub s{at} {{ call s{0}; call s{0}; }}\n", at + 1));
    }
    let policy = compile(&format!("{text} sub s10 {{ if ({matches}) {{ return (pass); }} }}"));
    let mut scene = Scene::default();
    assert_eq!(scene.run(&policy, State::Recv), Outcome::Fail);
    let failure = scene.task.take_failure().unwrap();
    assert_eq!(failure.message, "too much was done in one state");
}

#[test]
fn a_pattern_that_explodes_fails_the_request_with_its_line() {
    let (outcome, mut scene) = after(
        State::Recv,
        "",
        "set req.http.A = \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\"; if (req.http.A ~ \
         \"^(a+)+$\") { return (pass); }",
    );
    assert_eq!(outcome, Outcome::Fail);
    let failure = scene.task.take_failure().unwrap();
    assert_eq!(failure.message, "Regexp matching failed: match limit exceeded");
    assert_eq!((failure.file.as_str(), failure.line), ("test.vcl", 3));
}

#[test]
fn texts_cannot_become_other_fields() {
    for statement in [
        "set req.http.A = {\"x\r\nB: y\"};",
        "set req.url = {\"/a\tb\"};",
        "set req.url = \"\";",
        "set req.method = \"GET /\";",
        "set req.method = \"\";",
    ] {
        let (outcome, mut scene) = after(State::Recv, "", statement);
        assert_eq!(outcome, Outcome::Fail, "{statement}");
        assert!(scene.task.take_failure().is_some(), "{statement}");
    }
    let (outcome, _) = after(State::Synth, "", "set resp.reason = {\"a\nb\"};");
    assert_eq!(outcome, Outcome::Fail);
    let (outcome, _) = after(State::Synth, "", "set resp.status = 99;");
    assert_eq!(outcome, Outcome::Fail);
}

#[test]
fn fields_are_counted() {
    let mut text = String::new();
    for at in 0..300 {
        text.push_str(&format!("set req.http.H{at} = \"x\";"));
    }
    let (outcome, mut scene) = after(State::Recv, "", &text);
    assert_eq!(outcome, Outcome::Fail);
    assert!(scene.task.take_failure().unwrap().message.contains("too many header fields"));
}

#[test]
fn deep_nesting_is_refused_and_long_chains_are_not() {
    let settings = Settings { unused_is_error: false, ..Settings::default() };
    let check = |condition: String| {
        let text = format!(
            "vcl 4.1; backend b {{ .host = \"127.0.0.1\"; }} sub vcl_recv {{ if ({condition}) {{ }} }}"
        );
        let source = Source { name: "x".into(), text };
        freshet_vcl::compile(source, &NoFiles, &settings)
    };
    let deep = format!("{}true{}", "(".repeat(5000), ")".repeat(5000));
    let (program, report) = check(deep);
    assert!(program.is_none() && report.render(false).contains("nested too deeply"));
    let long = vec!["req.url ~ \"a\""; 5000].join(" || ");
    assert!(check(long).0.is_some());
    let sum = format!("req.http.A == \"\" + {}", vec!["req.url"; 5000].join(" + "));
    assert!(check(sum).0.is_some());
}

#[test]
fn a_chain_of_calls_without_end_is_refused() {
    let chain = |count: usize| {
        let subs = (0..count).map(|at| format!("sub s{at} {{ call s{}; }}\n", at + 1));
        let text = format!(
            "vcl 4.1; backend b none; {} sub s{count} {{ }} sub vcl_recv {{ call s0; }}",
            subs.collect::<String>()
        );
        freshet_vcl::compile(Source { name: "x".into(), text }, &NoFiles, &Settings::default())
    };
    assert!(chain(90).0.is_some());
    let (program, report) = chain(20_000);
    assert!(program.is_none() && report.render(false).contains("call one another too deeply"));
}

/// Files of which each brings in the next twice, and how often one was asked for.
struct Doubling(std::cell::Cell<u32>);

impl Sources for Doubling {
    fn include(&self, name: &str, _: &str, _: bool) -> Result<Vec<Source>, String> {
        self.0.set(self.0.get() + 1);
        let next: u32 = name.parse::<u32>().unwrap() + 1;
        let padding = "#".repeat(10_000);
        let text = format!("include \"{next}\";\ninclude \"{next}\";\n{padding}");
        Ok(vec![Source { name: name.into(), text: if next < 30 { text } else { padding } }])
    }

    fn resolve(&self, host: &str, port: u16) -> Result<Vec<std::net::SocketAddr>, String> {
        NoFiles.resolve(host, port)
    }
}

#[test]
fn includes_that_double_are_read_no_longer_than_a_policy_may_be() {
    let (files, text) = (Doubling(std::cell::Cell::default()), "vcl 4.1; include \"0\";");
    let source = Source { name: "x".into(), text: text.into() };
    let (program, report) = freshet_vcl::compile(source, &files, &Settings::default());
    assert!(program.is_none() && report.render(false).contains("The policy is too large"));
    assert!(files.0.get() < 2000, "{} files were read", files.0.get());
}

//! Directors, health and saints.

use crate::scene::{NOW, Scene, compile};
use freshet_vcl::{Backend, BackendRef, Outcome, Policy, State, View};
use std::collections::HashMap;

const BACKENDS: &str = "backend a { .host = \"127.0.0.1\"; .port = \"1\"; }
    backend b { .host = \"127.0.0.1\"; .port = \"2\"; }
    backend c { .host = \"127.0.0.1\"; .port = \"3\"; }
    import directors; import std; import blob; import saintmode;";

/// The backend a fetch would go to when `vcl_backend_fetch` has run.
fn chosen(policy: &Policy, scene: &mut Scene) -> String {
    scene.fetch.backend = policy.program().default_backend;
    let outcome = scene.run(policy, State::BackendFetch);
    assert_eq!(outcome, Outcome::Fetch, "{:?}", scene.task.take_failure());
    let backend = scene.fetch.backend;
    let view = View {
        fetch: Some(&mut scene.fetch),
        bereq: Some(&mut scene.bereq),
        ..View::new(scene.now, &scene.session)
    };
    let found = policy.resolve(backend, view, &mut scene.task, &mut scene.node);
    found.map_or_else(
        || "none".into(),
        |index| policy.program().backend_name(BackendRef::Backend(index)).to_owned(),
    )
}

fn policy(init: &str, choice: &str) -> Policy {
    compile(&format!(
        "{BACKENDS} sub vcl_init {{ {init} }} sub vcl_backend_fetch {{ set bereq.backend = \
         {choice}; return (fetch); }}"
    ))
}

fn tally(policy: &Policy, scene: &mut Scene, count: usize) -> HashMap<String, usize> {
    let mut seen = HashMap::new();
    for _ in 0..count {
        *seen.entry(chosen(policy, scene)).or_default() += 1;
    }
    seen
}

#[test]
fn round_robin_takes_turns_and_skips_the_sick() {
    let policy = policy(
        "new d = directors.round_robin(); d.add_backend(a); d.add_backend(b); d.add_backend(c);",
        "d.backend()",
    );
    let mut scene = Scene::default();
    let turns: Vec<_> = (0..4).map(|_| chosen(&policy, &mut scene)).collect();
    assert_eq!(turns, ["a", "b", "c", "a"]);
    scene.node.sick = vec![1];
    assert_eq!(tally(&policy, &mut scene, 4).get("b"), None);
    scene.node.sick = vec![0, 1, 2];
    assert_eq!(chosen(&policy, &mut scene), "none");
}

#[test]
fn fallback_keeps_its_order_and_may_stick() {
    let rows = [("", "a"), ("sticky = true", "b")];
    for (argument, back) in rows {
        let policy = policy(
            &format!("new d = directors.fallback({argument}); d.add_backend(a); d.add_backend(b);"),
            "d.backend()",
        );
        let mut scene = Scene::default();
        assert_eq!(chosen(&policy, &mut scene), "a");
        scene.node.sick = vec![0];
        assert_eq!(chosen(&policy, &mut scene), "b");
        scene.node.sick.clear();
        assert_eq!(chosen(&policy, &mut scene), back);
    }
}

#[test]
fn random_and_hash_go_by_weight_and_key() {
    let weighed = policy(
        "new d = directors.random(); d.add_backend(a, 3.0); d.add_backend(b, 1.0);",
        "d.backend()",
    );
    let seen = tally(&weighed, &mut Scene::default(), 400);
    assert!((250..=350).contains(&seen["a"]), "{seen:?}");
    let hashed = policy(
        "new d = directors.hash(); d.add_backend(a); d.add_backend(b); d.add_backend(c); \
         d.remove_backend(c);",
        "d.backend(bereq.url)",
    );
    let mut scene = Scene::default();
    let first = chosen(&hashed, &mut scene);
    assert_eq!(tally(&hashed, &mut scene, 5).get(&first), Some(&5));
    let mut seen = HashMap::new();
    for number in 0..100 {
        scene.bereq.target = format!("/{number}");
        *seen.entry(chosen(&hashed, &mut scene)).or_insert(0) += 1;
    }
    assert_eq!(seen.len(), 2, "{seen:?}");
}

#[test]
fn directors_within_directors_choose_and_loops_end() {
    let policy_of = |more: &str| {
        policy(
            &format!(
                "new inner = directors.round_robin(); inner.add_backend(b); new outer = \
                 directors.fallback(); outer.add_backend(inner.backend()); outer.add_backend(c); \
                 {more}"
            ),
            "outer.backend()",
        )
    };
    let nested = policy_of("");
    let mut scene = Scene::default();
    assert_eq!(chosen(&nested, &mut scene), "b");
    scene.node.sick = vec![1];
    assert_eq!(chosen(&nested, &mut scene), "c");
    let looped = policy_of("inner.remove_backend(b); inner.add_backend(outer.backend());");
    let _ = chosen(&looped, &mut Scene::default());
}

#[test]
fn shards_place_keys_and_move_few() {
    let init = "new s = directors.shard(); s.add_backend(a); s.add_backend(b); s.add_backend(c); \
                s.reconfigure();";
    let by_url = policy(init, "s.backend(by = URL)");
    let mut scene = Scene::default();
    let mut homes = HashMap::new();
    for number in 0..200 {
        scene.bereq.target = format!("/{number}");
        homes.insert(number, chosen(&by_url, &mut scene));
    }
    for name in ["a", "b", "c"] {
        assert!(homes.values().filter(|home| **home == name).count() > 20, "{name}");
    }
    scene.node.sick = vec![1];
    for number in 0..200 {
        scene.bereq.target = format!("/{number}");
        let home = chosen(&by_url, &mut scene);
        if homes[&number] != "b" {
            assert_eq!(home, homes[&number]);
        } else {
            assert_ne!(home, "b");
        }
    }
    scene.node.sick.clear();
    let alternative = policy(init, "s.backend(by = URL, alt = 1)");
    assert_ne!(chosen(&alternative, &mut scene), chosen(&by_url, &mut scene));
    let by_key = policy(init, "s.backend(by = KEY, key = s.key(bereq.url))");
    assert_eq!(chosen(&by_key, &mut scene), chosen(&by_url, &mut scene));
    let by_blob = policy(init, "s.backend(BLOB, key_blob = :AAAAAA==:)");
    let zero = policy(init, "s.backend(KEY, 0)");
    assert_eq!(chosen(&by_blob, &mut scene), chosen(&zero, &mut scene));
    let warm = policy(init, "s.backend(by = URL, warmup = 1.0)");
    assert_ne!(chosen(&warm, &mut scene), chosen(&by_url, &mut scene));
    let ignoring = policy(init, "s.backend(by = URL, healthy = IGNORE)");
    scene.node.sick = vec![0, 1, 2];
    assert_ne!(chosen(&ignoring, &mut scene), "none");
    assert_eq!(chosen(&by_url, &mut scene), "none");
}

#[test]
fn shard_parameters_are_shared() {
    let policy = policy(
        "new s = directors.shard(); s.add_backend(a, \"x\", 10s, 2.0); s.add_backend(b); \
         s.set_warmup(0.0); s.set_rampup(0s); s.reconfigure(10); new p = directors.shard_param(); \
         p.set(by = KEY, key = 7, alt = 1, warmup = 0.5, rampup = false, healthy = ALL); \
         s.associate(p.use());",
        "s.backend(resolve = LAZY)",
    );
    let text = format!(
        "{BACKENDS} sub vcl_init {{ new p = directors.shard_param(); p.set(by = KEY, key = 7, \
         alt = 1, warmup = 0.5, rampup = false, healthy = ALL); }} sub vcl_recv {{ set \
         req.http.P = p.get_by() + p.get_key() + p.get_alt() + p.get_warmup() + p.get_rampup() + \
         p.get_healthy(); p.clear(); set req.http.Q = p.get_by() + p.get_alt(); }}"
    );
    let _ = chosen(&policy, &mut Scene::default());
    let shown = compile(&text);
    let mut scene = Scene::default();
    scene.run(&shown, State::Recv);
    assert_eq!(scene.task.take_failure(), None);
    assert_eq!(scene.req.fields.get_str("p"), Some("KEY710.500falseALL"));
}

#[test]
fn saints_are_left_alone_for_what_they_failed() {
    let policy = compile(
        &format!(
            "{BACKENDS} sub vcl_init {{ new sa = saintmode.saintmode(a, 3); new d = \
         directors.fallback(); d.add_backend(sa.backend()); d.add_backend(b); }}
         sub vcl_backend_fetch {{ set bereq.backend = d.backend(); return (fetch); }}
         sub vcl_backend_response {{ saintmode.denylist(20s); set beresp.http.N = \
         sa.denylist_count() + saintmode.status() + sa.is_healthy(); return (retry); }}"
        )
        .replace("saintmode.status()", "\" \""),
    );
    let mut scene = Scene::default();
    scene.fetch.hash = [7; 32];
    assert_eq!(chosen(&policy, &mut scene), "a");
    scene.answer.backend = BackendRef::Backend(0);
    assert_eq!(scene.run(&policy, State::BackendResponse), Outcome::Retry);
    assert_eq!(scene.beresp.fields.get_str("n"), Some("1 false"));
    assert_eq!(chosen(&policy, &mut scene), "b");
    let said = "log saintmode: unhealthy: object denylisted for backend a";
    assert!(scene.node.events.iter().any(|event| event == said), "{:?}", scene.node.events);
    scene.fetch.hash = [8; 32];
    assert_eq!(chosen(&policy, &mut scene), "a");
    scene.fetch.hash = [7; 32];
    scene.now = NOW + 21.0;
    assert_eq!(chosen(&policy, &mut scene), "a");
}

#[test]
fn saints_name_what_they_stand_for() {
    let policy = compile(&format!(
        "{BACKENDS} sub vcl_init {{ new sa = saintmode.saintmode(a, 3); }} sub vcl_recv {{ set \
         req.http.S = regsuball(saintmode.status(), \"[\\n\\t]\", \"\"); set \
         req.backend_hint = sa.backend(); }}"
    ));
    let mut scene = Scene::default();
    scene.run(&policy, State::Recv);
    let said =
        r#"{"saintmode": [{ "name": "sa", "backend": "a", "count": "0", "threshold": "3" }]}"#;
    assert_eq!(scene.req.fields.get_str("s"), Some(said));
}

#[test]
fn a_default_probe_is_for_the_backends_below_it() {
    let policy = compile(
        "vcl 4.1; probe default { .url = \"/1\"; }\n\
         backend a { .host = \"127.0.0.1\"; .probe = default; }\n\
         probe default { .url = \"/2\"; }\n\
         backend b { .host = \"127.0.0.1\"; .probe = default; }\n\
         sub vcl_recv { set req.backend_hint = b; }",
    );
    let program = policy.program();
    let probe = |backend: &Backend| &program.probes[backend.probe.unwrap() as usize];
    let urls: Vec<_> = program.backends.iter().map(|backend| &*probe(backend).url).collect();
    assert_eq!(urls, ["/1", "/2"]);
}

#[test]
fn health_and_names_of_directors() {
    let policy = compile(&format!(
        "{BACKENDS} backend n none; sub vcl_init {{ new d = directors.round_robin(); \
         d.add_backend(a); new e = directors.random(); e.add_backend(directors.lookup(\"d\"), \
         1.0); }} sub vcl_recv {{ set req.backend_hint = d.backend(); set req.http.S = \
         std.healthy(d.backend()) + \" \" + std.healthy(b) + \" \" + std.healthy(n) + \" \" + \
         req.backend_hint + \" \" + req.backend_hint.resolve() + \" \" + std.healthy(e.backend()); }}"
    ));
    let mut scene = Scene::default();
    scene.node.sick = vec![1];
    scene.run(&policy, State::Recv);
    assert_eq!(scene.task.take_failure(), None);
    assert_eq!(scene.req.fields.get_str("s"), Some("true false false d a true"));
}

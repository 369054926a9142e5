//! The policies that are shown as examples: that they compile, and do what they say.

use crate::scene::Scene;
use freshet_http::fields::Fields;
use freshet_vcl::{NoFiles, Outcome, Policy, Settings, Source, State};
use std::path::Path;

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/vcl")
}

fn load(name: &str) -> Policy {
    let text = std::fs::read_to_string(folder().join(name)).unwrap();
    let settings = Settings {
        storages: vec!["Transient".into(), "ram".into(), "disk".into()],
        ..Settings::default()
    };
    let source = Source { name: name.into(), text };
    let (program, report) = freshet_vcl::compile(source, &NoFiles, &settings);
    let program = program.unwrap_or_else(|| panic!("{}", report.render(false)));
    Policy::load(name, program, Default::default(), None, 0.0, &mut crate::scene::Node::default())
        .unwrap()
}

fn asked(target: &str, fields: &[(&str, &str)]) -> Scene {
    let mut scene = Scene::default();
    scene.req.target = target.into();
    scene.req.fields = fields.iter().copied().collect::<Fields>();
    scene.bereq = scene.req.clone();
    scene
}

#[test]
fn every_example_compiles_and_is_explained() {
    let mut count = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".vcl") {
            let policy = load(&name);
            let shown = freshet_vcl::explain(policy.program());
            assert!(shown.contains("vcl_recv"), "{name}: {shown}");
            assert!(shown.lines().all(|line| line.chars().count() < 80), "{name}: {shown}");
            count += 1;
        }
    }
    assert!(count >= 7, "{count}");
}

/// The storage an answer is kept in, and its time to live.
fn kept(policy: &Policy, target: &str) -> (String, f64) {
    let mut scene = asked(target, &[]);
    scene.answer.do_stream = true;
    assert_eq!(scene.run(policy, State::BackendResponse), Outcome::Deliver);
    let storage = scene.answer.storage.map(|at| policy.program().storages[at as usize].clone());
    (storage.unwrap_or_default(), scene.answer.ttl)
}

#[test]
fn live_stays_in_memory_and_video_on_demand_goes_to_both() {
    let policy = load("live-and-vod.vcl");
    assert_eq!(kept(&policy, "/live/tv1/index.m3u8"), ("ram".into(), 1.0));
    assert_eq!(kept(&policy, "/live/tv1/seg-17.ts"), ("ram".into(), 60.0));
    assert_eq!(kept(&policy, "/vod/film/seg-17.m4s"), ("disk".into(), 86_400.0));
    assert_eq!(kept(&policy, "/vod/film/index.mpd").0, "disk");
}

#[test]
fn playlists_live_shorter_than_segments() {
    let policy = load("hls-dash.vcl");
    let ttl = |target: &str| kept(&policy, target).1;
    assert!(ttl("/a/index.m3u8") < ttl("/a/seg.ts"));
    assert!(ttl("/a/index.mpd") < ttl("/a/seg.m4s"));
    let mut scene = asked("/a/seg.ts?session=7", &[("Cookie", "a=b")]);
    assert_eq!(scene.run(&policy, State::Recv), Outcome::Hash);
    assert_eq!(scene.req.target, "/a/seg.ts");
}

#[test]
fn a_cms_keeps_pages_for_all_and_not_for_some() {
    let policy = load("cms.vcl");
    let mut scene = asked("/news?utm_source=x&id=4", &[("Cookie", "_ga=1; theme=dark")]);
    assert_eq!(scene.run(&policy, State::Recv), Outcome::Hash);
    assert_eq!(scene.req.target, "/news?id=4");
    assert_eq!(scene.req.fields.get("cookie"), None);
    let mut scene = asked("/news", &[("Cookie", "session=1; _ga=2")]);
    assert_eq!(scene.run(&policy, State::Recv), Outcome::Pass(None));
    let mut scene = asked("/admin/x", &[]);
    assert_eq!(scene.run(&policy, State::Recv), Outcome::Pass(None));
}

#[test]
fn an_api_is_throttled_and_varies_by_key() {
    let policy = load("api.vcl");
    let mut scene = asked("/v1/things", &[("X-API-Key", "k")]);
    let outcomes: Vec<_> = (0..101).map(|_| scene.run(&policy, State::Recv)).collect();
    assert_eq!(outcomes[0], Outcome::Hash);
    assert!(matches!(outcomes[100], Outcome::Synth(429, _)), "{:?}", outcomes[100]);
}

#[test]
fn tags_are_purged_from_inside_only() {
    let policy = load("purge-by-tag.vcl");
    let mut scene = asked("/", &[("xkey-purge", "news sport")]);
    scene.req.method = freshet_http::message::Method::Purge;
    assert!(matches!(scene.run(&policy, State::Recv), Outcome::Synth(405, _)));
    scene.session.client = Some("127.0.0.1:9".parse().unwrap());
    assert!(matches!(scene.run(&policy, State::Recv), Outcome::Synth(200, _)));
    assert_eq!(scene.node.tags.len(), 2);
}

#[test]
fn visitors_stay_in_their_group() {
    let policy = load("ab-test.vcl");
    let mut groups = std::collections::HashSet::new();
    for _ in 0..50 {
        let mut scene = asked("/", &[]);
        scene.node.draws = rand_like(groups.len() as u64);
        scene.run(&policy, State::Recv);
        groups.insert(scene.req.fields.get_str("x-group").unwrap().to_owned());
    }
    let mut scene = asked("/", &[("Cookie", "group=b")]);
    scene.run(&policy, State::Recv);
    assert_eq!(scene.req.fields.get_str("x-group"), Some("b"));
}

fn rand_like(seed: u64) -> u64 {
    seed.wrapping_mul(0x1234_5678_9abc_def1)
}

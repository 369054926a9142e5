//! Apps that come and go while a router runs.

use crate::router::{BACK_WITHIN, back_at_the_core, load, to_edge};
use crate::world::{CLIENT, N3, ORIGIN, World, missing};
use serde_json::{Value, json};
use std::process::{Command, Stdio};

fn world() -> Option<World> {
    if let Some(why) = missing() {
        crate::skip::skip(why);
        return None;
    }
    Some(World::new(N3))
}

/// The app of a world, as it is described to a router that runs.
fn description(world: &World) -> Value {
    json!({
        "kind": "breakout", "interface": "leg0", "mac": world.mac("app", "app0"),
        "addresses": ["10.99.0.2"], "health": "tcp 10.99.0.2:80",
    })
}

fn add(world: &World, name: &str, app: &Value) -> Value {
    world.try_ask(&json!({"ask": "add-app", "name": name, "app": app})).unwrap()
}

fn remove(world: &World, name: &str) -> Value {
    world.try_ask(&json!({"ask": "remove-app", "name": name})).unwrap()
}

/// Names of the programs' places that are pinned, but those of the wire.
fn links(world: &World) -> Vec<String> {
    let entries = std::fs::read_dir(world.path("bpf/router/links")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !name.starts_with("access") && !name.starts_with("core")).collect()
}

fn changed(answer: &Value) -> &Value {
    assert!(answer["error"].is_null(), "{answer}");
    &answer["answer"]["changed"]
}

#[test]
fn an_app_is_added_outlives_routers_and_is_removed() {
    let Some(mut world) = world() else { return };
    let (app, rules) = (description(&world), world.rule("FORWARD_DECAPSULATED", to_edge()));
    world.start_router("");
    let set = json!({"ask": "set-rules", "rules": rules});
    let refused = world.try_ask(&set).unwrap();
    assert_eq!(refused["mistakes"][0]["what"], "is of no app; known apps: there are none");
    assert_eq!(changed(&add(&world, "edge", &app)), true);
    assert_eq!(changed(&add(&world, "edge", &app)), false);
    assert_eq!(links(&world), ["app-leg0"]);
    world.is_answered_by("core");
    world.set_rules(rules);
    world.is_answered_by("edge");
    // While a rule leads to it, it stays, and stays what it is.
    let refused = remove(&world, "edge")["error"].to_string();
    assert!(refused.contains("rule `origin` leads to it"), "{refused}");
    let mut other = app.clone();
    other["mtu"] = 1400.into();
    let refused = add(&world, "edge", &other)["error"].to_string();
    assert!(refused.contains("rule `origin` leads to it"), "{refused}");
    // The next process has it as well.
    world.kill_router();
    world.start_router("");
    world.is_answered_by("edge");
    let status = world.ask(json!({"ask": "status"}));
    assert_eq!(
        (&status["adopted"], &status["added"], &status["apps"]),
        (&json!(true), &json!(["edge"]), &json!({"edge": true}))
    );
    assert_eq!(changed(&add(&world, "edge", &app)), false);
    // A dead one's traffic is back at the core.
    let mut times = Vec::new();
    // A machine with other work may take longer once.
    while times.len() < 3 && !times.iter().any(|time| *time <= BACK_WITHIN) {
        world.is_answered_by("edge");
        world.servers.pop();
        times.push(back_at_the_core(&world));
        world.start_server("app", "edge");
    }
    assert!(times.iter().any(|time| *time <= BACK_WITHIN), "{times:?}");
    world.is_answered_by("edge");
    world.set_rules(json!([]));
    world.is_answered_by("core");
    assert_eq!(changed(&add(&world, "edge", &other)), true);
    assert_eq!(changed(&remove(&world, "edge")), true);
    assert_eq!(changed(&remove(&world, "edge")), false);
    assert_eq!(links(&world), Vec::<String>::new());
    world.kill_router();
    world.start_router("");
    assert_eq!(world.ask(json!({"ask": "status"}))["apps"], json!({}));
}

#[test]
fn an_app_whose_interface_is_another_now_is_placed_anew_and_one_without_is_let_go() {
    let Some(mut world) = world() else { return };
    world.start_router("");
    let again = |world: &World| {
        world.pair("app", "app0", "leg0", 1500);
        world.ip("rtr", "addr add 10.99.0.1/24 dev leg0");
        world.ip("app", "addr add 10.99.0.2/24 dev app0");
        world.ip("app", "route add default via 10.99.0.1");
        description(world)
    };
    add(&world, "edge", &description(&world));
    world.set_rules(world.rule("FORWARD_DECAPSULATED", to_edge()));
    world.is_answered_by("edge");
    world.ip("rtr", "link delete leg0");
    world.is_answered_by("core");
    world.set_rules(json!([]));
    assert_eq!(changed(&add(&world, "edge", &again(&world))), true);
    world.set_rules(world.rule("FORWARD_DECAPSULATED", to_edge()));
    world.until("the edge answers again", |world| {
        world.get(0).is_some_and(|text| text.starts_with("edge"))
    });
    // A process that does not find it says so, and has no rules that lead nowhere.
    world.kill_router();
    world.ip("rtr", "link delete leg0");
    world.start_router("");
    let events = world.ask(json!({"ask": "events"})).to_string();
    assert!(
        events.contains("app-gone") && events.contains("edge: there is no interface"),
        "{events}"
    );
    let status = world.ask(json!({"ask": "status"}));
    assert_eq!((&status["apps"], &status["rules"]), (&json!({}), &json!(0)));
    world.is_answered_by("core");
}

#[test]
fn an_app_of_the_configuration_is_found_again_when_its_interface_is_another() {
    let Some(mut world) = world() else { return };
    let mac = world.mac("app", "app0");
    world.start_router(&world.breakout_app());
    world.set_rules(world.rule("FORWARD_DECAPSULATED", to_edge()));
    world.is_answered_by("edge");
    for _ in 0..2 {
        world.ip("rtr", "link delete leg0");
        world.is_answered_by("core");
        world.pair("app", "app0", "leg0", 1500);
        world.ip("app", &format!("link set app0 address {mac}"));
        world.ip("rtr", "addr add 10.99.0.1/24 dev leg0");
        world.ip("app", "addr add 10.99.0.2/24 dev app0");
        world.ip("app", "route add default via 10.99.0.1");
        world.until("the edge answers again", |world| {
            world.get(0).is_some_and(|text| text.starts_with("edge"))
        });
    }
    let events = world.ask(json!({"ask": "events"})).to_string();
    assert_eq!(events.matches("app-found-again").count(), 2, "{events}");
}

#[test]
fn an_app_that_cannot_be_had_is_refused_in_words() {
    let Some(mut world) = world() else { return };
    let good = description(&world);
    world.start_router(&world.breakout_app());
    let with = |key: &str, value: Value| {
        let mut app = good.clone();
        app[key] = value;
        app
    };
    for (name, app, expected) in [
        ("edge", good.clone(), "app `edge`: the configuration has one of this name"),
        ("", good.clone(), "its name must have 1 to 128 bytes"),
        ("two", good.clone(), "interface: `leg0` has another use"),
        ("two", with("interface", json!("acc0")), "interface: `acc0` has another use"),
        ("two", with("interface", json!("leg9")), "mac: it is that of app `edge`"),
        (
            "two",
            json!({"kind": "tap", "interface": "leg9", "mac": "02:00:00:00:00:01"}),
            "app `two`: there is no interface `leg9`",
        ),
        (
            "two",
            json!({"kind": "tap", "interface": "leg9", "mac": "02:00:00:00:00:01", "addresses": ["10.99.0.2"]}),
            "addresses: 10.99.0.2 is one of app `edge`",
        ),
        ("two", with("kind", json!("in-line")), "an app that is in-line has 2"),
        ("two", with("colour", json!("red")), "unknown field `colour`"),
    ] {
        let said = add(&world, name, &app)["error"].to_string();
        assert!(said.contains(expected), "{name} {app}: {said}");
    }
    let said = remove(&world, "edge")["error"].to_string();
    assert!(said.contains("app `edge`: it is the configuration's"), "{said}");
    assert_eq!(changed(&remove(&world, "two")), false);
    assert_eq!(world.ask(json!({"ask": "status"}))["added"], json!([]));
    assert_eq!(links(&world), ["app-leg0"]);
}

#[test]
fn nothing_of_others_is_lost_when_apps_come_and_go() {
    let Some(mut world) = world() else { return };
    world.start_router("");
    world.is_answered_by("core");
    let (app, rules) = (description(&world), world.rule("FORWARD_DECAPSULATED", to_edge()));
    load(&mut world, 50_000, |world| {
        assert_eq!(changed(&add(world, "edge", &app)), true);
        world.set_rules(rules.clone());
        world.set_rules(json!([]));
        assert_eq!(changed(&remove(world, "edge")), true);
    });
}

/// A download that began at one end is carried to its end there, while new ones begin at the other.
#[test]
fn a_connection_stays_where_it_began_when_rules_change() {
    let Some(mut world) = world() else { return };
    world.start_router(&world.breakout_app());
    world.is_answered_by("core");
    world.until("the app is alive", |world| {
        world.ask(json!({"ask": "status"}))["apps"]["edge"] == json!(true)
    });
    let breakout = world.rule("FORWARD_DECAPSULATED", to_edge());
    for (from, to, rules) in [("core", "edge", &breakout), ("edge", "core", &json!([]))] {
        let received = |world: &World| world.received("ran", "ran0");
        let before = received(&world);
        let slow = Command::new("ip")
            .args(["netns", "exec", &world.ns("ran"), "curl", "-sS", "--max-time", "60"])
            .arg(format!("http://{}/300000/slow", ORIGIN[0]))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        world.until("the download is under way", |world| received(world) > before + 50);
        world.set_rules(rules.clone());
        // At once, the first that is new.
        assert_eq!(world.get(0), Some(format!("{to} {}", CLIENT[0])), "from {from}");
        let output = slow.wait_with_output().unwrap();
        assert!(output.status.success(), "{from}: {output:?}");
        assert_eq!(output.stdout.len(), 300_000, "{from}");
    }
    // Its last packets were kept with the app, which no rule leads them to.
    let status = world.ask(json!({"ask": "status"}));
    assert!(status["kept_ms"]["edge"].is_u64(), "{status}");
}

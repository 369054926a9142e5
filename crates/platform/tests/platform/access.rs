//! Who may do what: without a token, with a stranger's, with another app's.

use crate::support::{NOW_MS, SERVICES, SUPPORT, URL, World, location, service};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use freshet_limits::Rate;
use freshet_platform::limits::{TOKEN_S, WRONG_SECRETS_MAX};
use freshet_platform::{Call, Issuer, Platform, Setup};
use serde_json::{Value, json};
use std::time::Duration;

/// Each operation with names that are there where they can be.
fn operations(world: &World) -> Vec<(&'static str, String)> {
    let operations = world.platform.operations().into_iter();
    let named = operations.map(|(method, path, _)| {
        (method, path.replace("{appInstanceId}", "camera").replace("{trafficRuleId}", "video"))
    });
    named.collect()
}

#[test]
fn every_operation_needs_a_token_with_its_scope() {
    let mut world = World::new();
    let operations = operations(&world);
    assert!(operations.len() > 30);
    for (method, path) in operations {
        let none = Call { method, target: &path, ..Call::default() };
        let (answer, _) = world.call(&none);
        assert_eq!(answer.status, 401, "{method} {path}");
        assert_eq!(answer.field("WWW-Authenticate"), Some("Bearer realm=\"mec\""));
        let (answer, _) = world.ask("stranger", method, &path, &Value::Null);
        assert_eq!(answer.status, 403, "{method} {path}");
        let challenge = answer.field("WWW-Authenticate").unwrap();
        assert!(challenge.contains("insufficient_scope"), "{challenge}");
        let forged = format!("{}x", world.token("operator"));
        for authorization in
            [forged.as_str(), "Bearer", "Bearer ", "Basic b3BlcmF0b3I6b3BlcmF0b3I=", "Bearer a.b.c"]
        {
            let call = Call { authorization: Some(authorization), ..none };
            let (answer, _) = world.call(&call);
            assert_eq!(answer.status, 401, "{method} {path} {authorization}");
        }
    }
}

/// A platform with a key and an audience, and the operator's token of it.
fn of_key(key: &[u8], url: &str, audience: &str) -> World {
    let issuer = Issuer::new(key, url, audience).unwrap();
    let setup = Setup::new(url, issuer, crate::support::clients());
    World::with(Platform::new(setup).unwrap())
}

#[test]
fn tokens_of_others_are_refused_at_every_operation() {
    let (key, other) = (Issuer::new_key(), Issuer::new_key());
    let mut world = of_key(&key, URL, "mec");
    let own = world.token("operator").to_owned();
    let parts: Vec<&str> = own.strip_prefix("Bearer ").unwrap().split('.').collect();
    let none = BASE64.encode(r#"{"typ":"at+jwt","alg":"none"}"#);
    let refused = [
        // Another platform's key, audience, and address, with all else the same.
        of_key(&other, URL, "mec").token("operator").to_owned(),
        of_key(&key, URL, "others").token("operator").to_owned(),
        of_key(&key, "http://other.example", "mec").token("operator").to_owned(),
        format!("Bearer {none}.{}.", parts[1]),
        format!("Bearer {none}.{}.{}", parts[1], parts[2]),
        // What one token says with the signature of another.
        format!("Bearer {}.{}", world.token("camera")[7..].rsplit_once('.').unwrap().0, parts[2]),
    ];
    for (method, path) in operations(&world) {
        for authorization in &refused {
            let call = Call {
                method,
                target: &path,
                authorization: Some(authorization),
                ..Call::default()
            };
            let (answer, _) = world.call(&call);
            assert_eq!(answer.status, 401, "{method} {path} {authorization}");
        }
    }
    assert_eq!(world.get("operator", &format!("{SUPPORT}/timing/current_time")).status, 200);
}

#[test]
fn a_token_is_worth_nothing_when_its_client_is_gone_or_may_less() {
    let key = Issuer::new_key();
    let token = of_key(&key, URL, "mec").token("operator").to_owned();
    let path = format!("{SUPPORT}/timing/current_time");
    let ask = |clients| {
        let issuer = Issuer::new(&key, URL, "mec").unwrap();
        let platform = Platform::new(Setup::new(URL, issuer, clients)).unwrap();
        let decided = platform.decide(&Call::get(&path, Some(&token)), "a", NOW_MS);
        decided.map_or_else(|problem| problem.status, |decision| decision.answer().status)
    };
    let mut clients = crate::support::clients();
    assert_eq!(ask(clients.clone()), 200);
    clients.get_mut("operator").unwrap().scopes = vec!["rni".to_owned()];
    assert_eq!(ask(clients.clone()), 403);
    clients.remove("operator");
    assert_eq!(ask(clients), 401);
}

#[test]
fn a_client_gets_its_rate_of_each_interface_and_no_more() {
    let mut clients = crate::support::clients();
    clients.get_mut("camera").unwrap().rate = Some(Rate::parse("50/s", None).unwrap());
    let issuer = Issuer::new(&Issuer::new_key(), URL, "mec").unwrap();
    let world = World::with(Platform::new(Setup::new(URL, issuer, clients)).unwrap());
    let throttle = |who: &str, path: &str, run_ms: u64| {
        let call = Call::get(path, Some(world.token(who)));
        let who = world.platform.identify(&call, NOW_MS);
        world.platform.throttle(&who, &call, Duration::from_millis(run_ms))
    };
    let time = format!("{SUPPORT}/timing/current_time");
    // Three times as often, for a minute.
    let asked = (0..60_000).step_by(7);
    let taken = asked.filter(|ms| throttle("camera", &time, *ms).is_ok()).count();
    assert!((2_940..=3_060).contains(&taken), "{taken}");
    // Another interface and another client have what is theirs.
    assert!(throttle("camera", "/rni/v2/queries/rab_info", 60_000).is_ok());
    assert!((0..100).all(|_| throttle("viewer", &time, 60_000).is_ok()));
    let refused = (0..3).find_map(|_| throttle("camera", &time, 60_000).err()).unwrap();
    assert_eq!((refused.status, refused.retry_after_s), (429, Some(1)));
    // Who has no token costs nobody anything.
    let stranger = Call::get(&time, Some("Bearer a.b.c"));
    let nobody = world.platform.identify(&stranger, NOW_MS);
    assert!(world.platform.throttle(&nobody, &stranger, Duration::ZERO).is_ok());
}

#[test]
fn secrets_are_not_tried_for_long() {
    let world = World::new();
    let ask = |name: &str, secret: &str, from: [u8; 4], run: Duration| {
        let form = format!("grant_type=client_credentials&client_id={name}&client_secret={secret}");
        let call = Call {
            method: "POST",
            target: "/oauth2/token",
            from: Some(from.into()),
            body: form.as_bytes(),
            ..Call::default()
        };
        let who = world.platform.identify(&call, NOW_MS);
        if let Err(problem) = world.platform.throttle(&who, &call, run) {
            assert!(problem.retry_after_s.is_some());
            return problem.status;
        }
        let decision = world.platform.decide_for(&who, &call, "x", NOW_MS).unwrap();
        world.platform.note(&call, decision.answer(), run);
        decision.answer().status
    };
    let (here, there) = ([192, 0, 2, 1], [192, 0, 2, 2]);
    let at = Duration::from_secs;
    // Who is right may be so as often as it likes.
    assert!((0..100).all(|_| ask("camera", "camera", here, at(1)) == 200));
    for attempt in 0..1000 {
        let expected = if attempt < WRONG_SECRETS_MAX { 401 } else { 429 };
        assert_eq!(ask("camera", &attempt.to_string(), here, at(1)), expected);
    }
    // The right one would be found too: nothing is looked at. Others, and it from elsewhere, have nothing of it.
    assert_eq!(ask("camera", "camera", here, at(1)), 429);
    assert_eq!(ask("camera", "camera", there, at(1)), 200);
    assert_eq!(ask("viewer", "viewer", here, at(1)), 200);
    assert_eq!(ask("camera", "camera", here, at(8)), 200);
    assert_eq!(ask("camera", "x", here, at(8)), 401);
    assert_eq!(ask("camera", "camera", here, at(8)), 429);
}

#[test]
fn an_app_instance_sees_its_own_alone() {
    let mut world = World::new();
    let about_apps = |path: &&(&'static str, String)| path.1.contains("/camera");
    let operations = operations(&world);
    let of_app: Vec<_> = operations.iter().filter(about_apps).collect();
    assert!(of_app.len() > 20);
    for (method, path) in of_app {
        assert_eq!(
            world.ask("viewer", method, path, &Value::Null).0.status,
            403,
            "{method} {path}"
        );
    }
    let place = location(
        &world
            .ask("camera", "POST", &format!("{SERVICES}/applications/camera/services"), &service())
            .0,
    );
    // The registry is for all to read, and its entries for their owners to change.
    let id = place.rsplit('/').next().unwrap().to_owned();
    assert_eq!(world.get("viewer", &format!("{SERVICES}/services/{id}")).status, 200);
    assert_eq!(world.ask("viewer", "DELETE", &place, &Value::Null).0.status, 403);
    assert_eq!(world.ask("operator", "DELETE", &place, &Value::Null).0.status, 204);
}

#[test]
fn an_escaped_path_is_the_path_it_stands_for() {
    let mut world = World::new();
    for path in [
        "/applications/%63amera/services",
        "/applications/camera%2Fservices",
        "/applications//services",
        "/applications/../applications/camera/services",
    ] {
        let status = world.get("viewer", &format!("{SERVICES}{path}")).status;
        assert!(matches!(status, 403 | 404), "{path}: {status}");
    }
    assert_eq!(
        world.get("camera", &format!("{SERVICES}/applications/%63amera/services")).status,
        200
    );
}

#[test]
fn tokens_hold_for_their_time() {
    let mut world = World::new();
    let path = format!("{SUPPORT}/timing/current_time");
    assert_eq!(world.get("camera", &path).status, 200);
    world.now_ms += TOKEN_S * 1000;
    let late = world.get("camera", &path);
    assert_eq!(late.status, 401);
    assert!(late.field("WWW-Authenticate").unwrap().contains("invalid_token"));
    world.renew("camera");
    assert_eq!(world.get("camera", &path).status, 200);
}

#[test]
fn a_token_holds_no_more_than_was_asked_for() {
    let mut world = World::new();
    let form = "grant_type=client_credentials&client_id=camera&client_secret=camera&scope=mec_app_support:timing:read";
    let call =
        Call { method: "POST", target: "/oauth2/token", body: form.as_bytes(), ..Call::default() };
    let token = world.call(&call).0.body.unwrap()["access_token"].as_str().unwrap().to_owned();
    let bearer = format!("Bearer {token}");
    for (path, status) in
        [("/timing/current_time", 403), ("/applications/camera/traffic_rules", 403)]
    {
        let path = format!("{SUPPORT}{path}");
        assert_eq!(world.call(&Call::get(&path, Some(&bearer))).0.status, status, "{path}");
    }
    let form = form.replace("timing:read", "current_time:read");
    let call = Call { body: form.as_bytes(), ..call };
    let token = world.call(&call).0.body.unwrap()["access_token"].as_str().unwrap().to_owned();
    let path = format!("{SUPPORT}/timing/current_time");
    assert_eq!(world.call(&Call::get(&path, Some(&format!("bearer {token}")))).0.status, 200);
}

#[test]
fn what_is_open_says_no_secret() {
    let mut world = World::new();
    for path in [
        "/",
        "/oauth2/keys",
        "/.well-known/oauth-authorization-server",
        "/mec_app_support/v1/openapi.json",
    ] {
        let (answer, _) = world.call(&Call::get(path, None));
        assert_eq!(answer.status, 200, "{path}");
        let head = Call { method: "HEAD", ..Call::get(path, None) };
        assert_eq!(world.call(&head).0.status, 200, "{path}");
        let (put, _) = world.call(&Call { method: "PUT", ..head });
        assert_eq!((put.status, put.field("Allow")), (405, Some("GET, HEAD")), "{path}");
        let key = &answer.body.unwrap()["keys"][0];
        assert!(key.get("d").is_none(), "a private key");
    }
    let (answer, _) = world.call(&Call::get("/.well-known/oauth-authorization-server", None));
    assert_eq!(answer.body.unwrap()["token_endpoint"], format!("{URL}/oauth2/token"));
    let (get, _) = world.call(&Call::get("/oauth2/token", None));
    assert_eq!((get.status, get.field("Allow")), (405, Some("POST")));
    assert_eq!(world.call(&Call::get("/none", None)).0.status, 401);
    assert_eq!(world.get("stranger", "/none").status, 404);
}

#[test]
fn documents_describe_every_operation() {
    let mut world = World::new();
    for (method, path, scope) in world.platform.operations() {
        let root: String = path.split('/').take(3).collect::<Vec<_>>().join("/");
        let (answer, _) = world.call(&Call::get(&format!("{root}/openapi.json"), None));
        let document = answer.body.unwrap();
        let operation = &document["paths"][&path[root.len()..]][method.to_ascii_lowercase()];
        assert_eq!(operation["security"][0]["oauth2"], json!([scope]), "{method} {path}");
    }
    let of = |world: &mut World, root: &str, path: &str, method: &str| {
        let (answer, _) = world.call(&Call::get(&format!("{root}/openapi.json"), None));
        answer.body.unwrap()["paths"][path][method].clone()
    };
    // What is begun is answered with 202, and lists may be chosen from.
    let instantiate = "/app_instances/{appInstanceId}/instantiate";
    let begun = of(&mut world, "/app_lcm/v1", instantiate, "post");
    assert!(begun["responses"]["2XX"].is_object(), "{begun}");
    let list = of(&mut world, "/mec_service_mgmt/v1", "/services", "get");
    let names = list["parameters"].as_array().unwrap().iter().map(|one| one["name"].as_str());
    let names: Vec<_> = names.flatten().collect();
    assert!(
        ["ser_name", "filter", "fields", "size"].iter().all(|one| names.contains(one)),
        "{names:?}"
    );
}

//! What a gateway is told of requests to services of apps.

use crate::support::{SERVICES, URL, World, clients, location, service};
use freshet_limits::Rate;
use freshet_platform::{Answer, App, Call, Client, Issuer, Platform, Setup};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// A platform on which the app `camera` offers the service `detector`, and `viewer` may read of it.
fn world() -> (World, String) {
    let mut clients = clients();
    let viewer = clients.get_mut("viewer").unwrap();
    viewer.scopes = vec!["services:detector:read".to_owned()];
    viewer.rate = Some(Rate::parse("10/s", Some(1)).unwrap());
    clients.get_mut("operator").unwrap().scopes.push("services".to_owned());
    world_of(clients)
}

/// As [`world`], with these clients; and where the service is registered.
fn world_of(clients: BTreeMap<String, Client>) -> (World, String) {
    let issuer = Issuer::new(&Issuer::new_key(), URL, "mec").unwrap();
    let mut setup = Setup::new(URL, issuer, clients);
    setup.apps = [("camera".to_owned(), App::default())].into();
    setup.callbacks.own = || vec![[192, 0, 2, 9].into()];
    let mut world = World::with(Platform::new(setup).unwrap());
    let path = format!("{SERVICES}/applications/camera/services");
    let registered = world.ask("camera", "POST", &path, &service()).0;
    assert_eq!(registered.status, 201);
    (world, location(&registered))
}

fn asked<'a>(authorization: Option<&'a str>, method: &'a str, uri: &'a str) -> Call<'a> {
    let call = Call::get("/gateway/decision", authorization);
    Call { forwarded_method: Some(method), forwarded_uri: Some(uri), ..call }
}

fn ask(world: &mut World, who: &str, method: &str, uri: &str) -> Answer {
    let token = world.token(who).to_owned();
    world.call(&asked(Some(&token), method, uri)).0
}

#[test]
fn a_request_goes_on_with_a_scope_for_a_service_that_is_offered() {
    let (mut world, place) = world();
    let good = ask(&mut world, "viewer", "GET", "/services/detector/faces?x=/services/other/");
    assert_eq!((good.status, good.field("Mec-Client")), (204, Some("viewer")));
    assert_eq!(good.field("Mec-App"), Some("viewer"));
    assert_eq!(good.field("Mec-Scope"), Some("services:detector:read"));
    for (who, method, uri, status) in [
        ("viewer", "HEAD", "/services/detector", 204),
        ("viewer", "POST", "/services/detector/faces", 403),
        ("viewer", "get", "/services/detector/faces", 403),
        ("viewer", "GET", "/services/other/", 403),
        ("viewer", "GET", "/services/detector2/", 403),
        ("camera", "GET", "/services/detector/", 403),
        ("stranger", "GET", "/services/detector/", 403),
        ("operator", "DELETE", "/services/detector/faces", 204),
        ("operator", "GET", "/services/other/", 404),
        ("viewer", "GET", "/", 404),
        ("viewer", "GET", "/services/", 404),
        ("viewer", "GET", "/services//detector/", 404),
        ("operator", "GET", "/services/detector:read/", 404),
        ("viewer", "GET", "services/detector/", 404),
        // A server behind may see another path in these.
        ("viewer", "GET", "/services/detector/../other/", 400),
        ("viewer", "GET", "/services/detector/%2e%2E/other/", 400),
        ("viewer", "GET", "/services/detector%2fother/", 400),
        ("viewer", "GET", "/services/detector/..%5cother/", 400),
    ] {
        assert_eq!(ask(&mut world, who, method, uri).status, status, "{who} {method} {uri}");
    }
    // Nothing goes to what nobody offers any more.
    assert_eq!(world.ask("camera", "DELETE", &place, &Value::Null).0.status, 204);
    assert_eq!(ask(&mut world, "viewer", "GET", "/services/detector/faces").status, 404);
}

#[test]
fn without_a_token_that_holds_nothing_goes_on() {
    let (mut world, _) = world();
    let uri = "/services/detector/";
    let (answer, _) = world.call(&asked(None, "GET", uri));
    assert_eq!(answer.status, 401);
    assert!(answer.field("WWW-Authenticate").is_some());
    let forged = format!("{}x", world.token("viewer"));
    assert_eq!(world.call(&asked(Some(&forged), "GET", uri)).0.status, 401);
    let token = world.token("viewer").to_owned();
    let call = Call::get("/gateway/decision", Some(&token));
    assert_eq!(world.call(&call).0.status, 400);
    world.now_ms += freshet_platform::limits::TOKEN_S * 1000;
    assert_eq!(ask(&mut world, "viewer", "GET", uri).status, 401);
}

#[test]
fn a_client_gets_its_rate_of_each_service() {
    let (world, _) = world();
    let throttle = |uri: &str, run_ms: u64| {
        let call = asked(Some(world.token("viewer")), "GET", uri);
        let who = world.platform.identify(&call, world.now_ms);
        world.platform.throttle(&who, &call, Duration::from_millis(run_ms)).is_ok()
    };
    let taken = (0..60_000).step_by(20).filter(|ms| throttle("/services/detector/", *ms)).count();
    assert!((588..=612).contains(&taken), "{taken}");
    assert!(throttle("/services/other/", 60_000));
}

/// Registers `detector` at this endpoint, and returns its path and its identifier.
fn offer(world: &mut World, endpoint: &Value) -> (String, String) {
    let mut offered = service();
    offered.as_object_mut().unwrap().remove("transportId");
    let security = json!({ "oAuth2Info": { "grantTypes": ["OAUTH2_CLIENT_CREDENTIALS"], "tokenEndpoint": URL } });
    offered["transportInfo"] = json!({
        "id": "own", "name": "REST", "type": "REST_HTTP", "protocol": "HTTP", "version": "1.1",
        "endpoint": endpoint, "security": security,
    });
    let path = format!("{SERVICES}/applications/camera/services");
    let (answer, _) = world.ask("camera", "POST", &path, &offered);
    let id = answer.body.as_ref().unwrap()["serInstanceId"].as_str().unwrap().to_owned();
    (location(&answer), id)
}

#[test]
fn a_request_goes_where_the_registry_says() {
    let (mut world, unsaid) = world();
    let uri = "/services/detector/faces";
    // The platform's own transport says nothing of where an app is.
    assert_eq!(ask(&mut world, "viewer", "GET", uri).field("Mec-Endpoint"), None);
    assert_eq!(world.ask("camera", "DELETE", &unsaid, &Value::Null).0.status, 204);

    let version = world.platform.gateway_version();
    let (first, first_id) = offer(&mut world, &json!({ "uris": ["http://192.0.2.1/api/v1"] }));
    assert_ne!(world.platform.gateway_version(), version);
    let (second, second_id) =
        offer(&mut world, &json!({ "addresses": [{ "host": "192.0.2.2", "port": 8080 }] }));
    let endpoints = |world: &mut World, uri: &str| {
        let answer = ask(world, "viewer", "GET", uri);
        let field = answer.field("Mec-Endpoint").unwrap_or_default();
        let mut all: Vec<_> = field.split(", ").map(str::to_owned).collect();
        all.sort();
        (answer.status, all.join(" "))
    };
    let [one, two] = ["http://192.0.2.1:80/api/v1", "http://192.0.2.2:8080/"];
    assert_eq!(endpoints(&mut world, uri), (204, format!("{one} {two}")));
    for (id, place) in [(&first_id, one), (&second_id, two)] {
        let found = endpoints(&mut world, &format!("/services/{id}/faces"));
        assert_eq!(found, (204, place.to_owned()));
    }
    // It is the scope of the service that counts, not one that is named as the instance is.
    let refused = ask(&mut world, "viewer", "POST", &format!("/services/{first_id}/faces"));
    assert!(refused.field("WWW-Authenticate").unwrap().contains("services:detector:write"));

    let mut suspended = world.get("camera", &first).body.unwrap();
    suspended["state"] = "SUSPENDED".into();
    assert_eq!(world.ask("camera", "PUT", &first, &suspended).0.status, 200);
    assert_eq!(endpoints(&mut world, uri), (204, two.to_owned()));
    let answer = ask(&mut world, "viewer", "GET", &format!("/services/{first_id}/faces"));
    assert_eq!((answer.status, answer.field("Retry-After")), (503, Some("5")));
    suspended["state"] = "INACTIVE".into();
    assert_eq!(world.ask("camera", "PUT", &first, &suspended).0.status, 200);
    assert_eq!(world.ask("camera", "DELETE", &second, &Value::Null).0.status, 204);
    assert_eq!(ask(&mut world, "viewer", "GET", uri).status, 503);
    assert_eq!(world.ask("camera", "DELETE", &first, &Value::Null).0.status, 204);
    assert_eq!(ask(&mut world, "viewer", "GET", uri).status, 404);
}

#[test]
fn calls_of_a_service_that_takes_only_so_many_have_places_by_weight() {
    let mut clients = clients();
    let viewer = clients.get_mut("viewer").unwrap();
    (viewer.scopes, viewer.weight) = (vec!["services".to_owned()], 3);
    let issuer = Issuer::new(&Issuer::new_key(), URL, "mec").unwrap();
    let mut setup = Setup::new(URL, issuer, clients);
    setup.apps = [("camera".to_owned(), App::default())].into();
    setup.concurrent = [("detector".to_owned(), 16)].into();
    let mut world = World::with(Platform::new(setup).unwrap());
    let path = format!("{SERVICES}/applications/camera/services");
    let place = location(&world.ask("camera", "POST", &path, &service()).0);
    let mut other = service();
    other["serName"] = json!("other");
    assert_eq!(world.ask("camera", "POST", &path, &other).0.status, 201);
    let instance = format!("/services/{}/x", place.rsplit('/').next().unwrap());
    let due = "\"detector\";places=16;member=\"viewer\";weight=3";
    for (uri, wanted) in
        [("/services/detector/x", Some(due)), (&*instance, Some(due)), ("/services/other/x", None)]
    {
        let answer = ask(&mut world, "viewer", "GET", uri);
        assert_eq!((answer.status, answer.field("Mec-Share")), (204, wanted), "{uri}");
    }
}

#[test]
fn what_a_call_is_counted_with_is_in_a_no_as_well() {
    let mut clients = clients();
    let viewer = clients.get_mut("viewer").unwrap();
    viewer.scopes = vec!["services:detector:read".to_owned()];
    viewer.group = Some("press".to_owned());
    let (mut world, place) = world_of(clients);
    let instance = format!("/services/{}/faces", place.rsplit('/').next().unwrap());
    for (who, method, uri, status, service, group) in [
        ("viewer", "GET", "/services/detector/faces", 204, Some("detector"), Some("press")),
        ("viewer", "GET", &instance, 204, Some("detector"), Some("press")),
        ("viewer", "POST", "/services/detector/faces", 403, Some("detector"), Some("press")),
        ("camera", "GET", "/services/detector/faces", 403, Some("detector"), None),
        // What nobody offers is a word of the client's.
        ("viewer", "GET", "/services/anything/faces", 403, None, Some("press")),
        ("viewer", "GET", "/services/detector/%2e%2e/x", 400, None, Some("press")),
    ] {
        let answer = ask(&mut world, who, method, uri);
        assert_eq!(answer.status, status, "{who} {method} {uri}");
        assert_eq!(answer.field("Mec-Client"), Some(who));
        let told = (answer.field("Mec-Service"), answer.field("Mec-Group"));
        assert_eq!(told, (service, group), "{who} {method} {uri}");
    }
}

#[test]
fn a_gateway_is_not_aimed_at_what_only_it_reaches() {
    let (mut world, unsaid) = world();
    assert_eq!(world.ask("camera", "DELETE", &unsaid, &Value::Null).0.status, 204);
    for endpoint in [
        json!({ "uris": ["http://127.0.0.1/"] }),
        json!({ "uris": ["http://169.254.169.254/latest"] }),
        json!({ "uris": ["http://[::ffff:127.0.0.1]/"] }),
        json!({ "uris": ["http://192.0.2.9/"] }),
        json!({ "uris": ["http://app.example/"] }),
        json!({ "uris": ["http://192.0.2.1/,http://127.0.0.1/"] }),
        json!({ "uris": ["http://192.0.2.1/?x"] }),
        json!({ "uris": ["file:///etc/passwd"] }),
        json!({ "addresses": [{ "host": "localhost", "port": 80 }] }),
        json!({ "addresses": [{ "host": "192.0.2.1/x?", "port": 80 }] }),
        json!({ "fqdn": ["app.example"] }),
    ] {
        let (path, _) = offer(&mut world, &endpoint);
        let answer = ask(&mut world, "viewer", "GET", "/services/detector/");
        assert_eq!((answer.status, answer.field("Mec-Endpoint")), (503, None), "{endpoint}");
        assert_eq!(world.ask("camera", "DELETE", &path, &Value::Null).0.status, 204);
    }
}

#[test]
fn what_a_gateway_remembers_ends_with_the_token_and_counts() {
    let (mut world, _) = world();
    let answer = ask(&mut world, "viewer", "GET", "/services/detector/");
    // One at once, and ten a second: no whole seconds.
    assert_eq!(answer.field("Cache-Control"), Some("no-store"));
    assert_eq!(answer.field("RateLimit-Policy"), None);
    world.now_ms += 100_000;
    let answer = ask(&mut world, "operator", "GET", "/services/detector/");
    let left_s = freshet_platform::limits::TOKEN_S - 100;
    assert_eq!(answer.field("Cache-Control"), Some(&*format!("private, max-age={left_s}")));

    let mut clients = clients();
    let viewer = clients.get_mut("viewer").unwrap();
    viewer.scopes = vec!["services:detector".to_owned()];
    viewer.rate = Some(Rate::parse("50/10s", None).unwrap());
    let (mut world, _) = world_of(clients);
    let answer = ask(&mut world, "viewer", "GET", "/services/detector/");
    assert_eq!(answer.field("RateLimit-Policy"), Some("\"viewer:detector\";q=50;w=10"));
}

#[test]
fn a_token_that_is_bound_is_nothing_without_its_certificate() {
    let (own, other) = (Some([7; 32]), Some([8; 32]));
    let mut clients = clients();
    clients.get_mut("operator").unwrap().scopes.push("services".to_owned());
    let mut bound = Client::new("bound", None, vec!["services".to_owned()]);
    bound.is_bound = true;
    clients.insert("bound".to_owned(), bound);
    let (world, _) = world_of(clients);
    let platform = &world.platform;
    let token = |who: &str, certificate| {
        let form = format!("grant_type=client_credentials&client_id={who}&client_secret={who}");
        let call = Call {
            method: "POST",
            target: "/oauth2/token",
            body: form.as_bytes(),
            certificate,
            ..Call::default()
        };
        let answer = platform.decide(&call, "x", crate::support::NOW_MS).unwrap().answer().clone();
        let token = answer.body.unwrap()["access_token"].as_str().map(str::to_owned);
        token.map(|token| format!("Bearer {token}"))
    };
    let ask = |token: &str, certificate, target: &str| {
        let call = asked(Some(token), "GET", "/services/detector/");
        let call = Call { target, certificate, ..call };
        match platform.decide(&call, "x", crate::support::NOW_MS) {
            Ok(decision) => (decision.answer().status, String::new()),
            Err(problem) => (problem.status, problem.challenge.unwrap_or_default()),
        }
    };
    let gateway = "/gateway/decision";
    let bound = token("operator", own).unwrap();
    assert_eq!(ask(&bound, own, gateway).0, 204);
    for target in [gateway, "/mec_app_support/v1/timing/current_time"] {
        for certificate in [other, None] {
            let (status, challenge) = ask(&bound, certificate, target);
            assert_eq!(status, 401, "{target}");
            assert!(challenge.contains("error=\"invalid_token\""), "{challenge}");
        }
    }
    // One that is not bound is as good with any certificate and with none.
    let free = token("operator", None).unwrap();
    assert!([own, other, None].iter().all(|shown| ask(&free, *shown, gateway).0 == 204));
    // But not where the client has to have one.
    assert_eq!(token("bound", None), None);
    let bound = token("bound", own).unwrap();
    assert_eq!((ask(&bound, own, gateway).0, ask(&bound, other, gateway).0), (204, 401));
}

//! What a gateway is told of requests to services of apps.

use crate::support::{SERVICES, URL, World, clients, location, service};
use freshet_limits::Rate;
use freshet_mec::{Answer, App, Call, Issuer, Platform, Setup};
use serde_json::Value;
use std::time::Duration;

/// A platform on which the app `camera` offers the service `detector`, and `viewer` may read of it.
fn world() -> (World, String) {
    let mut clients = clients();
    let viewer = clients.get_mut("viewer").unwrap();
    viewer.scopes = vec!["services:detector:read".to_owned()];
    viewer.rate = Some(Rate::parse("10/s", Some(1)).unwrap());
    clients.get_mut("operator").unwrap().scopes.push("services".to_owned());
    let issuer = Issuer::new(&Issuer::new_key(), URL, "mec").unwrap();
    let mut setup = Setup::new(URL, issuer, clients);
    setup.apps = [("camera".to_owned(), App::default())].into();
    let mut world = World::with(Platform::new(setup).unwrap());
    let path = format!("{SERVICES}/applications/camera/services");
    let place = location(&world.ask("camera", "POST", &path, &service()).0);
    (world, place)
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
    world.now_ms += freshet_mec::limits::TOKEN_S * 1000;
    assert_eq!(ask(&mut world, "viewer", "GET", uri).status, 401);
}

#[test]
fn a_client_gets_its_rate_of_each_service() {
    let (world, _) = world();
    let throttle = |uri: &str, run_ms: u64| {
        let call = asked(Some(world.token("viewer")), "GET", uri);
        world.platform.throttle(&call, Duration::from_millis(run_ms), world.now_ms).is_ok()
    };
    let taken = (0..60_000).step_by(20).filter(|ms| throttle("/services/detector/", *ms)).count();
    assert!((588..=612).contains(&taken), "{taken}");
    assert!(throttle("/services/other/", 60_000));
}

//! What is asked for in a way that means nothing, or something else than was meant: refused, with its place.

use crate::support::{SERVICES, World, location, service};
use freshet_platform::Call;
use serde_json::json;

fn services() -> String {
    format!("{SERVICES}/applications/camera/services")
}

#[test]
fn what_a_client_expects_not_to_be_there_is_not_changed() {
    let mut world = World::new();
    let place = location(&world.ask("camera", "POST", &services(), &service()).0);
    let etag = world.get("camera", &place).field("ETag").unwrap().to_owned();
    let (token, body) = (world.token("camera").to_owned(), service().to_string());
    let put = Call {
        method: "PUT",
        target: &place,
        authorization: Some(&token),
        body: body.as_bytes(),
        ..Call::default()
    };
    for known in ["*", &etag, &format!("W/{etag}"), &format!("\"other\", {etag}")] {
        for method in ["PUT", "DELETE"] {
            let call = Call { method, if_none_match: Some(known), ..put };
            assert_eq!(world.call(&call).0.status, 412, "{method} {known}");
        }
    }
    assert_eq!(world.get("camera", &place).field("ETag"), Some(&*etag));
    let other = Call { if_none_match: Some("\"other\""), ..put };
    assert_eq!(world.call(&other).0.status, 200);
}

#[test]
fn a_change_tells_the_version_it_made() {
    let mut world = World::new();
    let (made, _) = world.ask("camera", "POST", &services(), &service());
    let place = location(&made);
    let now = |world: &mut World, place: &str| {
        world.get("camera", place).field("ETag").unwrap().to_owned()
    };
    assert_eq!(made.field("ETag"), Some(&*now(&mut world, &place)));
    let mut whole = made.body.unwrap();
    whole["state"] = "INACTIVE".into();
    let (put, _) = world.ask("camera", "PUT", &place, &whole);
    assert_eq!((put.status, put.body.as_ref()), (200, Some(&whole)));
    assert_eq!(put.field("ETag"), Some(&*now(&mut world, &place)));
    // The platform adds to this one, so that it is not what the client has (RFC 9110 §9.3.4).
    assert_eq!(world.ask("camera", "PUT", &place, &service()).0.field("ETag"), None);
    let allocation = json!({"appInsId": "camera", "requestType": 0, "fixedAllocation": "1000", "allocationDirection": "00"});
    let place = location(&world.ask("camera", "POST", "/bwm/v1/bw_allocations", &allocation).0);
    let patch = json!({"appInsId": "camera", "requestType": 0, "fixedAllocation": "2000"});
    let (patched, _) = world.ask("camera", "PATCH", &place, &patch);
    assert_eq!(patched.field("ETag"), Some(&*now(&mut world, &place)));
}

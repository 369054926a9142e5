//! A disk that is full.

use crate::lives::{begin, bring, forcefully, here, make, well, work};
use crate::small_disk;
use crate::support::{World, setup};
use freshet_platform::{Call, Platform};
use serde_json::json;
use std::fs::File;
use std::io::Write;

const NAME: &str = "full::an_app_is_ended_where_the_disk_is_full";
const ALL_BYTES: u64 = 4 << 20;

#[test]
fn an_app_is_ended_where_the_disk_is_full() {
    let Some(place) = small_disk::of(NAME, ALL_BYTES) else { return };
    let journal = place.join("journal");
    let mut world = World::with(Platform::open(setup(), &journal).unwrap());
    bring(&mut world);
    let instance = make(&mut world);
    begin(&mut world, &instance, "instantiate", &here());
    work(&mut world, well);
    // As an app does that writes without end.
    let mut file = File::create(place.join("others")).unwrap();
    for bytes in [64 << 10, 4 << 10, 1] {
        while file.write_all(&vec![0; bytes]).is_ok() {}
    }
    let body = json!({
        "subscriptionType": "AppInstanceStateChangeSubscription", "callbackUri": "http://192.0.2.7/",
    });
    let body = body.to_string();
    let token = world.token("operator").to_owned();
    let subscribe = Call {
        method: "POST",
        target: "/app_lcm/v1/subscriptions",
        authorization: Some(&token),
        body: body.as_bytes(),
        ..Call::default()
    };
    let mut number = 0;
    let mut is_taken = |world: &mut World| {
        number += 1;
        let decision = world.platform.decide(&subscribe, &format!("s{number}"), world.now_ms);
        world.platform.commit(decision.unwrap(), world.now_ms).is_ok()
    };
    while is_taken(&mut world) {}
    // What ends an app is written down, and nothing else is, also after it.
    assert_eq!(begin(&mut world, &instance, "terminate", &forcefully()).0, 202);
    work(&mut world, well);
    let state = |world: &mut World| {
        let known = world.get("operator", &instance).body.unwrap();
        known["instantiationState"].as_str().unwrap().to_owned()
    };
    assert_eq!(state(&mut world), "NOT_INSTANTIATED");
    assert!(std::fs::metadata(place.join("journal.reserve")).unwrap().len() > 0);
    drop(world);
    let mut world = World::with(Platform::open(setup(), &journal).unwrap());
    assert_eq!(state(&mut world), "NOT_INSTANTIATED");
}

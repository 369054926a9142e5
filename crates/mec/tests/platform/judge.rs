//! ETSI's own schemas as a judge. They are not part of this project: `MEC_OPENAPI` names a folder with
//! the published files and their list of corrections.

use crate::support::{SERVICES, SUPPORT, World, location, name, rule, service};
use freshet_mec::radio::simulator::Simulator;
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::Command;

#[path = "../../../../tests/skip.rs"]
mod skip;

/// Files of ETSI for our interfaces.
const FILES: [(&str, &str); 5] = [
    (SUPPORT, "MecAppSupportApi.yaml"),
    (SERVICES, "MecServiceMgmtApi.yaml"),
    ("/rni/v2", "RniAPI.yaml"),
    ("/location/v3", "LocationAPI.yaml"),
    ("/ui/v1", "UEidentityAPI.yaml"),
];

/// Uses every operation at least once, each also in a way that is refused.
fn exercise(world: &mut World) {
    let camera = format!("{SUPPORT}/applications/camera");
    let services = format!("{SERVICES}/applications/camera/services");
    let subscription = json!({
        "subscriptionType": "AppTerminationNotificationSubscription",
        "callbackReference": "http://192.0.2.7/end", "appInstanceId": "camera",
    });
    let available = json!({
        "subscriptionType": "SerAvailabilityNotificationSubscription",
        "callbackReference": "http://192.0.2.7/events",
        "filteringCriteria": {"serNames": ["detector"], "isLocal": true},
    });
    let mut living = service();
    living["livenessInterval"] = 5.into();
    let made = [
        (format!("{SUPPORT}/registrations"), json!({"appName": "radar"})),
        (format!("{camera}/subscriptions"), subscription),
        (services, living.clone()),
        (format!("{SERVICES}/applications/camera/subscriptions"), available),
    ];
    for (collection, body) in made {
        let place = location(&world.ask("operator", "POST", &collection, &body).0);
        let item = world.get("operator", &place).body.unwrap();
        world.get("operator", &collection);
        if place.contains("/services/") {
            let id = place.rsplit('/').next().unwrap();
            world.get("operator", &format!("{SERVICES}/services"));
            world.get("operator", &format!("{SERVICES}/services/{id}"));
            world.get("operator", &format!("{place}/liveness"));
            world.ask(
                "operator",
                "PATCH",
                &format!("{place}/liveness"),
                &json!({"state": "ACTIVE"}),
            );
            world.ask("operator", "PUT", &place, &living);
        } else if place.contains("/registrations/") {
            world.ask("operator", "PUT", &place, &item);
        }
        world.ask("operator", "POST", &collection, &json!({"wrong": true}));
        world.ask("operator", "DELETE", &place, &Value::Null);
        world.get("operator", &place);
    }
    for (kind, id, body) in [("traffic_rules", "video", rule()), ("dns_rules", "www", name())] {
        world.get("operator", &format!("{camera}/{kind}"));
        world.get("operator", &format!("{camera}/{kind}/{id}"));
        world.ask("operator", "PUT", &format!("{camera}/{kind}/{id}"), &body);
    }
    for path in ["/timing/current_time", "/timing/timing_caps"] {
        world.get("operator", &format!("{SUPPORT}{path}"));
    }
    world.get("operator", &format!("{SERVICES}/transports"));
    exercise_radio(world);
    let tags = json!({"ueIdentityTags": [{"ueIdentityTag": "gold", "state": 1}]});
    world.ask("operator", "PUT", "/ui/v1/camera/ue_identity_tag_info", &tags);
    world.get("operator", "/ui/v1/camera/ue_identity_tag_info?ueIdentityTag=gold");
    world.ask(
        "operator",
        "POST",
        &format!("{camera}/confirm_ready"),
        &json!({"indication": "READY"}),
    );
    let end = json!({"operationAction": "TERMINATING", "maxGracefulTimeout": 10});
    world.ask("operator", "POST", "/mec_platform/v1/applications/camera/terminate", &end);
    let confirm = json!({"operationAction": "TERMINATING"});
    world.ask("operator", "POST", &format!("{camera}/confirm_termination"), &confirm);
}

/// Interfaces that rest on the radio network, simulated here.
fn exercise_radio(world: &mut World) {
    let radio = Simulator::new(1, 12).report(world.now_ms);
    let body = serde_json::to_value(&radio).unwrap();
    world.ask("operator", "PUT", "/mec_platform/v1/radio", &body);
    for path in
        ["rab_info?cell_id=0010100", "plmn_info?app_ins_id=camera", "s1_bearer_info", "layer2_meas"]
    {
        world.get("operator", &format!("/rni/v2/queries/{path}"));
    }
    let [one, other] =
        [&radio.clients[0], &radio.clients[1]].map(|client| format!("acr:{}", client.address));
    let cell = &radio.cells[0];
    for path in [
        "users".to_owned(),
        "zones".to_owned(),
        format!("zones/{}", cell.zone),
        format!("zones/{}/accessPoints", cell.zone),
        format!("zones/{}/accessPoints/{}", cell.zone, cell.id),
        format!("distance?address={one}&address={other}"),
        "zones/none".to_owned(),
    ] {
        world.get("operator", &format!("/location/v3/queries/{path}"));
    }
    let callback = "http://192.0.2.7/events";
    let of_cells = json!({
        "subscriptionType": "CellChangeSubscription", "callbackReference": callback,
        "filterCriteriaAssocHo": {"hoStatus": [3]},
    });
    let of_user = json!({"userLocationEventSubscription": {
        "subscriptionType": "UserLocationEventSubscription", "callbackReference": callback, "address": one,
    }});
    let of_zone = json!({"zoneLocationEventSubscription": {
        "subscriptionType": "ZoneLocationEventSubscription", "callbackReference": callback, "zoneId": "north",
    }});
    for (collection, body) in [
        ("/rni/v2/subscriptions", of_cells),
        ("/location/v3/subscriptions/users", of_user),
        ("/location/v3/subscriptions/zones", of_zone),
    ] {
        let place = location(&world.ask("operator", "POST", collection, &body).0);
        world.get("operator", collection);
        world.get("operator", &place);
        world.ask("operator", "PUT", &place, &body);
        world.ask("operator", "POST", collection, &json!({"wrong": true}));
        world.ask("operator", "DELETE", &place, &Value::Null);
    }
}

/// The operations that were used with success.
fn used(world: &World) -> Vec<String> {
    let record = world.record.borrow();
    let good =
        record.iter().filter(|one| one["status"].as_u64().is_some_and(|status| status < 300));
    good.map(|one| {
        format!("{} {}", one["method"].as_str().unwrap(), one["target"].as_str().unwrap())
    })
    .collect()
}

#[test]
fn every_operation_is_exercised() {
    let mut world = World::new();
    exercise(&mut world);
    let used = used(&world);
    for (method, path, _) in world.platform.operations() {
        let fits = |one: &&String| {
            let (known, target) = one.split_once(' ').unwrap();
            let target = target.split('?').next().unwrap();
            let parts = || path.split('/').zip(target.split('/'));
            known == method
                && path.split('/').count() == target.split('/').count()
                && parts().all(|(pattern, part)| pattern == part || pattern.starts_with('{'))
        };
        let is_own = path.starts_with("/mec_platform/");
        assert!(is_own || used.iter().any(|one| fits(&one)), "{method} {path}");
    }
}

#[test]
fn every_message_is_valid_against_the_schemas_of_etsi() {
    let Some(folder) = std::env::var_os("MEC_OPENAPI") else {
        return skip::skip("MEC_OPENAPI, a folder with ETSI's OpenAPI files, is not set");
    };
    let mut world = World::new();
    exercise(&mut world);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    for one in world.record.borrow().iter() {
        let target = one["target"].as_str().unwrap();
        let Some((root, name)) = FILES.iter().find(|(root, _)| target.starts_with(root)) else {
            continue;
        };
        let mut one = one.clone();
        (one["root"], one["file"]) = (json!(root), json!(name));
        writeln!(file, "{one}").unwrap();
    }
    let judge = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/mec/judge");
    let output = Command::new(judge).arg(folder).arg(file.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains(" valid"), "{said}");
}

//! App instances: their registration, their rules, and how they end.

use crate::support::{SERVICES, SUPPORT, URL, World, location, name, rule, service, setup};
use freshet_platform::{Platform, Resolved};
use serde_json::{Value, json};

const APP: &str = "/mec_app_support/v1/applications/camera";

#[test]
fn a_rule_is_decided_with_the_whole_set_and_then_done() {
    let mut world = World::new();
    let mut active = rule();
    active["state"] = "ACTIVE".into();
    let body = active.to_string();
    let token = world.token("camera").to_owned();
    let path = format!("{APP}/traffic_rules/video");
    let call = freshet_platform::Call {
        method: "PUT",
        target: &path,
        authorization: Some(&token),
        body: body.as_bytes(),
        ..Default::default()
    };
    let decision = world.platform.decide(&call, "x", world.now_ms).unwrap();
    let rules = world.platform.packet_path_after(&decision).expect("it is about a rule").rules;
    assert_eq!(
        (&rules[0]["state"], &rules[0]["trafficRuleId"]),
        (&json!("ACTIVE"), &json!("camera/video"))
    );
    // Nothing is done yet: the router may refuse it.
    assert_eq!(world.platform.packet_path().rules[0]["state"], "INACTIVE");
    world.platform.commit(decision, world.now_ms).unwrap();
    assert_eq!(world.platform.packet_path().rules, rules);
    assert_eq!(world.get("camera", &format!("{APP}/traffic_rules")).body.unwrap(), json!([active]));
    let call = freshet_platform::Call::get(&path, Some(&token));
    let decision = world.platform.decide(&call, "x", world.now_ms).unwrap();
    assert!(decision.is_reading() && world.platform.packet_path_after(&decision).is_none());
}

#[test]
fn wrong_rules_are_refused() {
    let mut world = World::new();
    for (change, place) in [
        (json!({"priority": 256}), "/priority"),
        (json!({"trafficFilter": []}), "/trafficFilter"),
        (json!({"action": "FORWARD"}), "/action"),
        (json!({"filterType": "BOTH"}), "/filterType"),
        (json!({"unknown": 1}), "unknown"),
    ] {
        let mut wrong = rule();
        for (name, value) in change.as_object().unwrap() {
            wrong[name] = value.clone();
        }
        let (answer, _) = world.ask("camera", "PUT", &format!("{APP}/traffic_rules/video"), &wrong);
        let detail = answer.body.unwrap()["detail"].to_string();
        assert!(answer.status == 400 && detail.contains(place), "{detail}");
    }
    let (answer, _) = world.ask("camera", "PUT", &format!("{APP}/traffic_rules/none"), &rule());
    assert_eq!(answer.status, 404);
}

#[test]
fn an_app_switches_its_rules_and_what_they_are_is_an_operators_to_say() {
    let mut world = World::new();
    let filter = json!([{"dstAddress": ["0.0.0.0/0"]}]);
    for (kind, id, rule, changes) in [
        (
            "traffic_rules",
            "video",
            rule(),
            [
                json!({"priority": 0}),
                json!({"trafficFilter": filter}),
                json!({"action": "PASSTHROUGH"}),
            ],
        ),
        (
            "dns_rules",
            "www",
            name(),
            [
                json!({"domainName": "login.bank.example"}),
                json!({"ipAddress": "10.99.0.3"}),
                json!({"ttl": 9}),
            ],
        ),
    ] {
        let place = format!("{APP}/{kind}/{id}");
        for change in &changes {
            let mut other = rule.clone();
            let (member, value) = change.as_object().unwrap().iter().next().unwrap();
            other[member] = value.clone();
            let (refused, _) = world.ask("camera", "PUT", &place, &other);
            let detail = refused.body.unwrap()["detail"].to_string();
            assert!(refused.status == 403 && detail.contains(&format!("/{member}")), "{detail}");
            assert_eq!(world.get("camera", &place).body.unwrap(), rule);
        }
        for state in ["ACTIVE", "INACTIVE"] {
            let mut switched = rule.clone();
            switched["state"] = state.into();
            assert_eq!(world.ask("camera", "PUT", &place, &switched).0.status, 200, "{kind}");
        }
        let mut other = rule.clone();
        let (member, value) = changes[0].as_object().unwrap().iter().next().unwrap();
        other[member] = value.clone();
        assert_eq!(world.ask("operator", "PUT", &place, &other).0.status, 200, "{kind}");
    }
    // What may be left out may not be where it is there.
    let place = format!("{APP}/dns_rules/www");
    let mut less = world.get("camera", &place).body.unwrap();
    less.as_object_mut().unwrap().remove("ttl");
    assert_eq!(world.ask("camera", "PUT", &place, &less).0.status, 403);
    // One interface and a list of it are the same.
    let mut written = world.get("camera", &format!("{APP}/traffic_rules/video")).body.unwrap();
    written["dstInterface"] = json!([written["dstInterface"]]);
    written["state"] = "ACTIVE".into();
    let (put, _) = world.ask("camera", "PUT", &format!("{APP}/traffic_rules/video"), &written);
    assert_eq!(put.status, 200, "{put:?}");
}

#[test]
fn rules_that_could_never_be_in_force_are_refused_where_they_come_in() {
    let begin = |change: &dyn Fn(&mut freshet_platform::App)| {
        let mut setup = setup();
        change(setup.apps.get_mut("camera").unwrap());
        Platform::new(setup).map(drop)
    };
    assert_eq!(begin(&|_| ()), Ok(()));
    for (member, value, place) in [
        ("priority", json!(999), "[0]: /priority must be between"),
        (
            "trafficFilter",
            json!([{"dstAddress": ["203.0.113.0/33"]}]),
            "[0].trafficFilter[0].dstAddress[0]: ",
        ),
        (
            "dstInterface",
            json!({"interfaceType": "IP", "dstIpAddress": "10.99.0.300"}),
            "[0].dstInterface[0]: ",
        ),
        ("action", json!("FORWARD"), "[0]: /action"),
        ("state", json!("active"), "[0]: /state"),
        ("trafficRuleId", json!(""), "[0].trafficRuleId: "),
        ("trafficRuleId", json!("v".repeat(122)), "[0].trafficRuleId: "),
        ("priorty", json!(1), "[0]: /priorty is no member"),
    ] {
        let wrong = begin(&|app| app.traffic_rules[0][member] = value.clone()).unwrap_err();
        assert!(wrong.starts_with(&format!("app.camera.traffic_rules{place}")), "{wrong}");
    }
    let twice = begin(&|app| app.traffic_rules.push(rule())).unwrap_err();
    assert!(twice.starts_with("app.camera.traffic_rules[1].trafficRuleId: "), "{twice}");
    for (member, value, place) in [
        ("ipAddress", json!("10.99.0.300"), "/ipAddress is no address"),
        ("domainName", json!("*.example.com"), "/domainName"),
        ("state", json!("active"), "/state"),
        ("ttl", json!(-1), "/ttl"),
        ("ttl", json!(99_999_999_999_u64), "/ttl"),
        ("dnsRuleId", json!(""), "/dnsRuleId"),
        ("ipAdressType", json!("IP_V4"), "/ipAdressType is no member"),
    ] {
        let wrong = begin(&|app| app.dns_rules[0][member] = value.clone()).unwrap_err();
        assert!(wrong.starts_with(&format!("app.camera.dns_rules[0]: {place}")), "{wrong}");
    }
    let twice = begin(&|app| app.dns_rules.push(name())).unwrap_err();
    assert!(twice.starts_with("app.camera.dns_rules[1]: /dnsRuleId"), "{twice}");
    // And where an operator puts one.
    let mut world = World::new();
    let mut wrong = rule();
    wrong["trafficFilter"][0]["dstAddress"][0] = "203.0.113.0/33".into();
    let (refused, _) = world.ask("operator", "PUT", &format!("{APP}/traffic_rules/video"), &wrong);
    let detail = refused.body.unwrap()["detail"].to_string();
    assert!(
        refused.status == 400 && detail.contains("/trafficFilter/0/dstAddress/0: "),
        "{detail}"
    );
}

#[test]
fn an_active_name_has_the_address_of_its_rule() {
    let mut world = World::new();
    let found = world.platform.resolve("www.example.com", false);
    let address = Some("10.99.0.2".parse().unwrap());
    assert_eq!(found, Some(Resolved { address, ttl_s: 30 }));
    let none = Resolved { address: None, ttl_s: 30 };
    assert_eq!(world.platform.resolve("www.example.com", true), Some(none));
    assert_eq!(world.platform.resolve("example.com", false), None);
    for (member, value) in [
        ("ipAddress", json!("2001:db8::1")),
        ("domainName", json!("a..b")),
        ("ipAddress", json!("x")),
    ] {
        let mut wrong = name();
        wrong[member] = value;
        assert_eq!(
            world.ask("operator", "PUT", &format!("{APP}/dns_rules/www"), &wrong).0.status,
            400
        );
    }
    let mut inactive = name();
    inactive["state"] = "INACTIVE".into();
    assert_eq!(
        world.ask("camera", "PUT", &format!("{APP}/dns_rules/www"), &inactive).0.status,
        200
    );
    assert_eq!(world.platform.resolve("www.example.com", false), None);
}

#[test]
fn an_app_instance_is_told_to_end_and_leaves_nothing() {
    let mut world = World::new();
    let subscription = json!({
        "subscriptionType": "AppTerminationNotificationSubscription",
        "callbackReference": "http://192.0.2.7/end", "appInstanceId": "of another",
    });
    let (made, _) = world.ask("camera", "POST", &format!("{APP}/subscriptions"), &subscription);
    assert_eq!(made.status, 201, "{made:?}");
    // The path's name wins.
    assert_eq!(made.body.unwrap()["appInstanceId"], "camera");
    assert_eq!(
        world
            .ask("camera", "POST", &format!("{APP}/confirm_ready"), &json!({"indication": "READY"}))
            .0
            .status,
        204
    );
    let mut active = rule();
    active["state"] = "ACTIVE".into();
    world.ask("camera", "PUT", &format!("{APP}/traffic_rules/video"), &active);
    world.ask("camera", "POST", &format!("{SERVICES}/applications/camera/services"), &service());
    let confirm = json!({"operationAction": "TERMINATING"});
    let confirmation = format!("{APP}/confirm_termination");
    assert_eq!(world.ask("camera", "POST", &confirmation, &confirm).0.status, 409);
    let end = json!({"operationAction": "TERMINATING", "maxGracefulTimeout": 10});
    let place = "/mec_platform/v1/applications/camera";
    let (_, notices) = world.ask("operator", "POST", &format!("{place}/terminate"), &end);
    assert_eq!(notices.len(), 1);
    let told = &notices[0].body;
    assert_eq!(
        (&told["operationAction"], &told["maxGracefulTimeout"]),
        (&json!("TERMINATING"), &json!(10))
    );
    assert_eq!(told["_links"]["confirmTermination"]["href"], format!("{URL}{confirmation}"));
    assert_eq!(
        world
            .ask("camera", "POST", &confirmation, &json!({"operationAction": "STOPPING"}))
            .0
            .status,
        409
    );
    assert_eq!(world.ask("camera", "POST", &confirmation, &confirm).0.status, 204);
    assert_eq!(world.get("operator", place).body.unwrap()["state"], "TERMINATED");
    assert_eq!(world.platform.packet_path().rules[0]["state"], "INACTIVE");
    assert_eq!(world.platform.resolve("www.example.com", false), None);
    assert_eq!(
        world.get("camera", &format!("{SERVICES}/applications/camera/services")).body.unwrap(),
        json!([])
    );
}

#[test]
fn an_app_instance_that_does_not_confirm_ends_all_the_same() {
    let mut world = World::new();
    let end = json!({"operationAction": "STOPPING", "maxGracefulTimeout": 10});
    world.ask("operator", "POST", "/mec_platform/v1/applications/camera/terminate", &end);
    world.wait(9_999);
    assert_eq!(
        world.get("operator", "/mec_platform/v1/applications/camera").body.unwrap()["state"],
        "TERMINATING"
    );
    world.wait(1);
    assert_eq!(
        world.get("operator", "/mec_platform/v1/applications/camera").body.unwrap()["state"],
        "TERMINATED"
    );
}

#[test]
fn app_instances_register_and_leave() {
    let mut world = World::new();
    let info = json!({"appName": "radar", "isInsByMec": false});
    let (made, _) = world.ask("operator", "POST", &format!("{SUPPORT}/registrations"), &info);
    let place = location(&made);
    let app = made.body.unwrap()["appInstanceId"].as_str().unwrap().to_owned();
    assert_eq!(place, format!("{SUPPORT}/registrations/{app}"));
    let services = format!("{SERVICES}/applications/{app}/services");
    assert_eq!(world.ask("operator", "POST", &services, &service()).0.status, 201);
    assert_eq!(world.ask("operator", "DELETE", &place, &Value::Null).0.status, 204);
    assert_eq!(world.get("operator", &services).status, 404);
    assert_eq!(world.get("operator", &place).status, 404);
    // What cannot be asked for, and whose services are the platform's, is none.
    for name in ["", "mec-platform"] {
        let other = json!({"appName": "radar", "appInstanceId": name});
        let (refused, _) =
            world.ask("operator", "POST", &format!("{SUPPORT}/registrations"), &other);
        assert_eq!(refused.status, 400, "{name}: {refused:?}");
    }
    // An app is what its token says.
    let (made, _) = world.ask("viewer", "POST", &format!("{SUPPORT}/registrations"), &info);
    assert_eq!(location(&made), format!("{SUPPORT}/registrations/viewer"));
    assert_eq!(
        world.ask("viewer", "POST", &format!("{SUPPORT}/registrations"), &info).0.status,
        409
    );
}

#[test]
fn one_of_the_configuration_that_deregisters_is_as_before_it_came() {
    let mut world = World::new();
    let rules = world.platform.packet_path().rules;
    let names = world.get("camera", &format!("{APP}/dns_rules")).body.unwrap();
    let info = json!({"appName": "camera", "appInstanceId": "camera"});
    let (made, _) = world.ask("camera", "POST", &format!("{SUPPORT}/registrations"), &info);
    assert_eq!(made.status, 201, "{made:?}");
    let mut active = rule();
    active["state"] = "ACTIVE".into();
    world.ask("camera", "PUT", &format!("{APP}/traffic_rules/video"), &active);
    let allocations = "/bwm/v1/bw_allocations";
    let allocation = json!({
        "appInsId": "camera", "requestType": 0, "fixedAllocation": "900000", "allocationDirection": "00",
    });
    for client in ["camera", "operator"] {
        let mut allocation = allocation.clone();
        allocation["fixedAllocation"] = "1000".into();
        assert_eq!(world.ask(client, "POST", allocations, &allocation).0.status, 201, "{client}");
    }
    let tags = json!({"ueIdentityTags": [{"ueIdentityTag": "gold", "state": 1}]});
    world.ask("camera", "PUT", "/ui/v1/camera/ue_identity_tag_info", &tags);
    let place = format!("{SUPPORT}/registrations/camera");
    assert_eq!(world.ask("camera", "DELETE", &place, &Value::Null).0.status, 204);
    assert_eq!(world.platform.packet_path().rules, rules);
    assert!(world.platform.packet_path().tags.values().all(std::collections::BTreeSet::is_empty));
    assert_eq!(world.get("camera", &format!("{APP}/dns_rules")).body.unwrap(), names);
    assert_eq!(world.get("operator", allocations).body.unwrap(), json!([]));
    assert_eq!(world.ask("camera", "POST", allocations, &allocation).0.status, 201);
}

/// Who comes anew within the time that the one before had is not ended when that is over.
#[test]
fn a_time_to_end_is_over_when_the_app_deregisters() {
    let mut world = World::new();
    let place = format!("{SUPPORT}/registrations/camera");
    let registration = json!({"appName": "radar"});
    world.ask("camera", "POST", &format!("{SUPPORT}/registrations"), &registration);
    let app = "/mec_platform/v1/applications/camera";
    let end = json!({"operationAction": "TERMINATING", "maxGracefulTimeout": 30});
    assert_eq!(world.ask("operator", "POST", &format!("{app}/terminate"), &end).0.status, 204);
    let ready = |world: &mut World| {
        let body = json!({"indication": "READY"});
        world.ask("camera", "POST", &format!("{APP}/confirm_ready"), &body).0.status
    };
    assert_eq!(ready(&mut world), 409);
    assert_eq!(world.ask("camera", "DELETE", &place, &Value::Null).0.status, 204);
    assert_eq!(ready(&mut world), 204);
    world.wait(31_000);
    assert_eq!(world.get("operator", app).body.unwrap()["state"], "READY");
}

#[test]
fn a_silent_service_is_inactive_until_it_speaks() {
    let mut world = World::new();
    let mut one = service();
    // As some languages write whole numbers.
    one["livenessInterval"] = json!(5.0);
    let (made, _) =
        world.ask("camera", "POST", &format!("{SERVICES}/applications/camera/services"), &one);
    let place = location(&made);
    let liveness = format!("{place}/liveness");
    assert_eq!(made.body.unwrap()["_links"]["liveness"]["href"], format!("{URL}{liveness}"));
    let sign = json!({"state": "ACTIVE"});
    assert_eq!(world.ask("camera", "PATCH", &liveness, &sign).0.status, 200);
    world.wait(10_000);
    assert_eq!(world.get("camera", &liveness).body.unwrap()["state"], "ACTIVE");
    world.wait(1);
    assert_eq!(world.get("camera", &place).body.unwrap()["state"], "INACTIVE");
    let (answer, _) = world.ask("camera", "PATCH", &liveness, &sign);
    assert_eq!(answer.body.unwrap()["interval"], 5);
    assert_eq!(world.get("camera", &place).body.unwrap()["state"], "ACTIVE");
    let (made, _) = world.ask(
        "camera",
        "POST",
        &format!("{SERVICES}/applications/camera/services"),
        &service(),
    );
    assert_eq!(world.get("camera", &format!("{}/liveness", location(&made))).status, 404);
}

/// An app that ends before its first sign of life is as silent as one that ends after it.
#[test]
fn a_service_that_never_gives_a_sign_of_life_is_inactive_too() {
    let mut world = World::new();
    let services = format!("{SERVICES}/applications/camera/services");
    for (asked_s, interval_s) in [(5, 5), (0, 30)] {
        let mut one = service();
        one["livenessInterval"] = json!(asked_s);
        let (made, _) = world.ask("camera", "POST", &services, &one);
        let place = location(&made);
        assert_eq!(made.body.unwrap()["livenessInterval"], interval_s);
        let offered = world.now_ms / 1000;
        world.wait(2000 * interval_s);
        let sign = world.get("camera", &format!("{place}/liveness")).body.unwrap();
        assert_eq!(
            (&sign["state"], &sign["timeStamp"]["seconds"]),
            (&json!("ACTIVE"), &json!(offered))
        );
        world.wait(1);
        assert_eq!(world.get("camera", &place).body.unwrap()["state"], "INACTIVE");
        // It is offered anew.
        world.ask("camera", "PUT", &place, &one);
        world.wait(1);
        assert_eq!(world.get("camera", &place).body.unwrap()["state"], "ACTIVE");
    }
}

#[test]
fn clients_have_the_tags_that_any_app_has_registered() {
    let mut world = World::new();
    let place = |app: &str| format!("/ui/v1/{app}/ue_identity_tag_info");
    let body = |tags: &[(&str, u8)]| {
        let tags: Vec<_> =
            tags.iter().map(|(tag, state)| json!({"ueIdentityTag": tag, "state": state})).collect();
        json!({ "ueIdentityTags": tags })
    };
    let tags = |world: &World| -> Vec<Vec<String>> {
        let tags = world.platform.packet_path().tags;
        tags.into_values().map(|tags| tags.into_iter().collect()).collect()
    };
    assert_eq!(tags(&world), [Vec::<String>::new(), Vec::new()]);
    let (answer, _) =
        world.ask("camera", "PUT", &place("camera"), &body(&[("gold", 1), ("guest", 1)]));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(tags(&world), [vec!["gold"], vec!["gold", "guest"]]);
    world.ask("viewer", "PUT", &place("viewer"), &body(&[("gold", 1)]));
    world.ask("camera", "PUT", &place("camera"), &body(&[("gold", 0)]));
    // The viewer's registration stands, and what the camera did not name.
    assert_eq!(tags(&world), [vec!["gold"], vec!["gold", "guest"]]);
    world.ask("viewer", "PUT", &place("viewer"), &body(&[("gold", 0)]));
    assert_eq!(tags(&world), [Vec::new(), vec!["guest"]]);
    let read = world.get("camera", &format!("{}?ueIdentityTag=gold,guest", place("camera")));
    assert_eq!(read.body.unwrap(), body(&[("gold", 0), ("guest", 1)]));
    assert_eq!(world.get("camera", &format!("{}?ueIdentityTag=none", place("camera"))).status, 404);
    assert_eq!(world.get("camera", &place("camera")).status, 400);
    assert_eq!(world.ask("camera", "PUT", &place("camera"), &body(&[("none", 1)])).0.status, 400);
}

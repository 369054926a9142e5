//! Where clients are by what is measured of them, whether that is where somebody asks for, and whether it is
//! where they claim to be.

use crate::radio::{network, tell};
use crate::support::World;
use freshet_platform::Call;
use freshet_radio::simulator::Simulator;
use freshet_radio::{Ellipse, Radio};
use serde_json::{Value, json};

const VERIFY: &str = "/location-verification/v1/verify";

/// Lets the simulator tell for so many seconds.
fn simulate(world: &mut World, simulator: &mut Simulator, seconds: u64) {
    for _ in 0..seconds {
        world.now_ms += 1000;
        let decision = world.platform.report(simulator.report(world.now_ms)).unwrap();
        world.platform.commit(decision, world.now_ms).unwrap();
    }
}

/// Whether a client is in a circle, by its address.
fn verify(world: &mut World, address: &str, centre: [f64; 2], radius_m: u64) -> Value {
    let body = json!({
        "device": {"ipv4Address": {"publicAddress": address, "privateAddress": address}},
        "area": {"areaType": "CIRCLE", "center": {"latitude": centre[0], "longitude": centre[1]}, "radius": radius_m},
    });
    let (answer, _) = world.ask("camera", "POST", VERIFY, &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body.unwrap()
}

#[test]
fn positions_are_estimated_where_the_network_gives_measurements_alone() {
    let mut world = World::new();
    let mut simulator = Simulator::new(7, 3);
    simulate(&mut world, &mut simulator, 60);
    let answer = world.get("camera", "/location/v3/queries/users");
    assert_eq!(answer.field("Freshet-Data-Source"), Some("simulator"));
    let users = answer.body.unwrap()["userList"]["user"].clone();
    assert_eq!(users.as_array().unwrap().len(), 3);
    for user in users.as_array().unwrap() {
        let place = &user["locationInfo"];
        assert_eq!((&place["shape"], &place["confidence"]), (&json!(6), &json!(95)), "{place}");
        let metres = |name: &str| place[name].as_u64().unwrap();
        assert!((20..600).contains(&metres("uncertaintyRadius")), "{place}");
        assert!((20..900).contains(&metres("accuracy")), "{place}");
        assert!(metres("accuracySemiMinor") <= metres("accuracy"), "{place}");
        assert!(metres("orientationMajorAxis") <= 180, "{place}");
    }
}

#[test]
fn a_position_of_the_network_is_a_circle_and_an_ellipse_where_it_is_known_how_likely() {
    let mut world = World::new();
    let mut radio = network();
    let ask = |world: &mut World, radio: &Radio| {
        tell(world, radio);
        let body = world.get("camera", "/location/v3/queries/users").body.unwrap();
        body["userList"]["user"][0]["locationInfo"].clone()
    };
    let place = json!({"latitude": [60.001], "longitude": [25.0], "shape": 5, "accuracy": 50});
    assert_eq!(ask(&mut world, &radio), place);
    radio.clients[0].confidence_percent = Some(68);
    let mut place = ask(&mut world, &radio);
    assert_eq!((&place["shape"], &place["confidence"]), (&json!(6), &json!(68)));
    assert_eq!((&place["accuracy"], &place["accuracySemiMinor"]), (&json!(50), &json!(50)));
    let ellipse = Ellipse { semi_major_m: 80.0, semi_minor_m: 20.0, orientation_degrees: 120.0 };
    radio.clients[0].ellipse = Some(ellipse);
    place = ask(&mut world, &radio);
    assert_eq!((&place["accuracy"], &place["accuracySemiMinor"]), (&json!(80), &json!(20)));
    assert_eq!(place["orientationMajorAxis"], 120);
}

#[test]
fn a_device_is_in_a_circle_or_not_or_nobody_knows() {
    let mut world = World::new();
    // At 60.001, 25.0, by 50 m.
    tell(&mut world, &network());
    let mut ask = |centre, radius_m| verify(&mut world, "10.45.0.2", centre, radius_m);
    let written = json!("2027-01-15T08:00:00.000Z");
    let inside = ask([60.0, 25.0], 2000);
    assert_eq!(inside, json!({"verificationResult": "TRUE", "lastLocationTime": written}));
    let beside = ask([60.1, 25.0], 2000);
    assert_eq!(beside, json!({"verificationResult": "FALSE", "lastLocationTime": written}));
    let partly = ask([60.0005, 25.0], 56);
    assert_eq!(partly["verificationResult"], "PARTIAL");
    let rate = partly["matchRate"].as_u64().unwrap();
    assert!((40..65).contains(&rate), "{partly}");
}

#[test]
fn what_is_known_of_a_device_that_left_is_told_with_its_time() {
    let mut world = World::new();
    let mut radio = network();
    tell(&mut world, &radio);
    radio.clients.clear();
    world.now_ms += 120_000;
    tell(&mut world, &radio);
    let area = json!({"areaType": "CIRCLE", "center": {"latitude": 60.0, "longitude": 25.0}, "radius": 2000});
    let ask = |world: &mut World, max_age: Value| {
        let device = json!({"ipv4Address": {"publicAddress": "10.45.0.2", "publicPort": 80}});
        let mut body = json!({"device": device, "area": area});
        body["maxAge"] = max_age;
        world.ask("camera", "POST", VERIFY, &body).0
    };
    for (max_age, result) in [(60, "UNKNOWN"), (119, "UNKNOWN"), (120, "TRUE")] {
        let body = ask(&mut world, max_age.into()).body.unwrap();
        assert_eq!(body["verificationResult"], result, "{max_age}");
        assert_eq!(body["lastLocationTime"], "2027-01-15T08:00:00.000Z");
    }
    // So much is not at most so many seconds.
    world.now_ms += 900;
    let body = ask(&mut world, 120.into()).body.unwrap();
    assert_eq!(body["verificationResult"], "UNKNOWN");
    // After an hour nothing is known of it any more.
    world.now_ms += 3_600_000;
    world.renew("operator");
    world.renew("camera");
    tell(&mut world, &radio);
    assert_eq!(ask(&mut world, 60.into()).status, 404);
}

#[test]
fn wrong_questions_are_answered_with_a_word_for_programs() {
    let mut world = World::new();
    let area = json!({"areaType": "CIRCLE", "center": {"latitude": 60.0, "longitude": 25.0}, "radius": 2000});
    let v4 = |address: &str| json!({"ipv4Address": {"publicAddress": address}});
    let good = json!({"device": v4("10.45.0.2"), "area": area});
    let (answer, _) = world.ask("camera", "POST", VERIFY, &good);
    assert_eq!((answer.status, &answer.body.unwrap()["code"]), (503, &json!("UNAVAILABLE")));
    tell(&mut world, &network());
    let north = json!({"areaType": "CIRCLE", "center": {"latitude": 90.5, "longitude": 25.0}, "radius": 2000});
    let point =
        json!({"areaType": "CIRCLE", "center": {"latitude": 60.0, "longitude": 25.0}, "radius": 0});
    for (body, status, code) in [
        (json!({"device": v4("10.45.0.9"), "area": area}), 404, "IDENTIFIER_NOT_FOUND"),
        (json!({"area": area}), 422, "MISSING_IDENTIFIER"),
        (json!({"device": {}, "area": area}), 422, "MISSING_IDENTIFIER"),
        (
            json!({"device": {"phoneNumber": "+358401234"}, "area": area}),
            422,
            "UNSUPPORTED_IDENTIFIER",
        ),
        (json!({"device": v4("somewhere"), "area": area}), 400, "INVALID_ARGUMENT"),
        (json!({"device": v4("10.45.0.2"), "area": north}), 400, "INVALID_ARGUMENT"),
        (json!({"device": v4("10.45.0.2"), "area": point}), 400, "INVALID_ARGUMENT"),
        (json!({"device": v4("10.45.0.2")}), 400, "INVALID_ARGUMENT"),
    ] {
        let (answer, _) = world.ask("camera", "POST", VERIFY, &body);
        let found = answer.body.unwrap();
        assert_eq!((answer.status, &found["code"]), (status, &json!(code)), "{body}");
        assert_eq!(found["message"], found["detail"]);
    }
    let (answer, _) = world.ask("stranger", "POST", VERIFY, &good);
    assert_eq!((answer.status, &answer.body.unwrap()["code"]), (403, &json!("PERMISSION_DENIED")));
    let none = Call { method: "POST", target: VERIFY, ..Call::default() };
    assert_eq!(world.call(&none).0.body.unwrap()["code"], "UNAUTHENTICATED");
}

/// A claim of a device, 10 m good.
fn claim(world: &mut World, who: &str, address: &str, position: [f64; 2]) -> Value {
    let body = json!({"latitude": position[0], "longitude": position[1]});
    let (answer, _) = world.ask(who, "PUT", &format!("/claims/v1/clients/{address}"), &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body.unwrap()
}

#[test]
fn a_device_that_is_where_it_claims_is_believed_and_another_is_not() {
    let mut world = World::new();
    let mut simulator = Simulator::new(7, 2);
    let verdict = |world: &mut World, who: &str, address: &str| {
        let body = world.get(who, &format!("/claims/v1/clients/{address}")).body.unwrap();
        (body["verdict"].as_str().unwrap().to_owned(), body["evidence"].as_f64())
    };
    simulate(&mut world, &mut simulator, 30);
    assert_eq!(verdict(&mut world, "camera", "10.45.0.2"), ("UNKNOWN".to_owned(), None));
    // From the first one on 300 m north of the truth, and the other client where it is.
    for _ in 0..60 {
        let [liar, honest] = [0, 1].map(|index| simulator.truth()[index]);
        claim(&mut world, "camera", "10.45.0.2", [liar[0] + 300.0 / 111_195.0, liar[1]]);
        claim(&mut world, "camera", "10.45.0.3", honest);
        simulate(&mut world, &mut simulator, 1);
    }
    let (word, evidence) = verdict(&mut world, "camera", "10.45.0.2");
    assert_eq!(word, "DOUBTED");
    assert!(evidence.unwrap() > 1.0, "{evidence:?}");
    let (word, evidence) = verdict(&mut world, "camera", "10.45.0.3");
    assert_eq!(word, "CONSISTENT");
    assert!(evidence.unwrap() < 1.0, "{evidence:?}");
    // Claims that another client of the platform made are its own.
    assert_eq!(verdict(&mut world, "viewer", "10.45.0.2").0, "UNKNOWN");
}

#[test]
fn a_single_claim_is_doubted_when_it_is_far_off_and_a_second_when_nothing_is_so_fast() {
    let mut world = World::new();
    // At 60.001, 25.0, by 50 m, by the network's own word.
    tell(&mut world, &network());
    let near = claim(&mut world, "camera", "10.45.0.2", [60.0015, 25.0]);
    assert_eq!((&near["verdict"], &near["distanceM"]), (&json!("CONSISTENT"), &json!(56)));
    let far = claim(&mut world, "viewer", "10.45.0.2", [60.003, 25.0]);
    assert_eq!((&far["verdict"], &far["distanceM"]), (&json!("DOUBTED"), &json!(222)));
    world.now_ms += 1000;
    assert_eq!(claim(&mut world, "camera", "10.45.0.2", [60.0005, 25.0])["verdict"], "CONSISTENT");
    assert_eq!(claim(&mut world, "camera", "10.45.0.2", [60.0025, 25.0])["verdict"], "TOO_FAST");
    let path = "/claims/v1/clients/10.45.0.9";
    let body = json!({"latitude": 60.0, "longitude": 25.0});
    assert_eq!(world.ask("camera", "PUT", path, &body).0.status, 404);
    assert_eq!(world.get("camera", "/claims/v1/clients/me").status, 400);
}

#[test]
fn reports_that_say_half_of_a_position_or_none_on_earth_are_refused() {
    let mut world = World::new();
    let good = serde_json::to_value(network()).unwrap();
    let mut refuse = |pointer: &str, member: &str, value: Value, words: &str| {
        let mut body = good.clone();
        body.pointer_mut(pointer).unwrap()[member] = value;
        let (answer, _) = world.ask("operator", "PUT", "/mec_platform/v1/radio", &body);
        let detail = answer.body.unwrap()["detail"].to_string();
        assert!(answer.status == 400 && detail.contains(words), "{member}: {detail}");
    };
    let client = "/clients/0";
    refuse("/cells/0", "position", json!([95.0, 0.0]), "cell 0010100: /position");
    refuse("/cells/0", "powerDbm", json!(1e300), "/powerDbm");
    refuse("/cells/0", "advanceStepM", json!(0), "/advanceStepM");
    refuse("/cells/0", "frequencyMhz", json!(3.5), "/frequencyMhz");
    refuse(client, "position", Value::Null, "position");
    refuse(client, "position", json!([60.0, 1e300]), "degrees");
    refuse(client, "accuracyM", json!(-1), "accuracyM");
    refuse(client, "timingAdvanceM", json!(1e300), "timingAdvanceM");
    refuse(client, "rsrpDbm", json!(90), "rsrpDbm");
    refuse(client, "neighbours", json!([{"cell": "9", "rsrpDbm": -90}]), "cell 9");
    refuse(client, "neighbours", json!([{"cell": "0010101", "rsrpDbm": 1e300}]), "rsrpDbm");
    refuse(client, "confidencePercent", json!(100), "confidencePercent");
}

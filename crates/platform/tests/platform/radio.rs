//! What rests on the radio network: bearers and cells, and who is where.

use crate::support::{World, location};
use freshet_platform::notify::Notice;
use freshet_radio::simulator::Simulator;
use freshet_radio::{Bearer, Cell, Client, Neighbour, Radio};
use serde_json::{Value, json};

/// Two cells in two zones, and a client in the first.
pub(crate) fn network() -> Radio {
    let cell = |id: &str, zone: &str, latitude| Cell {
        id: id.to_owned(),
        zone: zone.to_owned(),
        position: [latitude, 25.0],
        power_dbm: None,
        frequency_mhz: None,
        advance_step_m: None,
    };
    let client = Client {
        address: [10, 45, 0, 2].into(),
        cell: "0010100".to_owned(),
        bearer: Bearer {
            id: 5,
            qci: 9,
            teids: [100, 200],
            ends: [[10, 3, 0, 1].into(), [10, 3, 0, 240].into()],
        },
        rsrp_dbm: Some(-90.0),
        rsrq_db: Some(-10.0),
        timing_advance_m: Some(156.0),
        neighbours: Vec::new(),
        secondary_cells: Vec::new(),
        position: Some([60.001, 25.0]),
        accuracy_m: Some(50.0),
        confidence_percent: None,
        ellipse: None,
    };
    Radio {
        source: "test".to_owned(),
        plmn: ["001".to_owned(), "01".to_owned()],
        cells: vec![cell("0010100", "north", 60.0), cell("0010101", "south", 60.01)],
        clients: vec![client],
    }
}

/// Tells the platform of a network, as a program of the operator does.
pub(crate) fn tell(world: &mut World, radio: &Radio) -> Vec<Notice> {
    let body = serde_json::to_value(radio).unwrap();
    let (answer, notices) = world.ask("operator", "PUT", "/mec_platform/v1/radio", &body);
    assert_eq!(answer.status, 204, "{answer:?}");
    notices
}

pub(crate) fn kinds(notices: &[Notice]) -> Vec<String> {
    let of = |body: &Value| {
        let inner =
            body.as_object().unwrap().values().find(|value| value["notificationType"].is_string());
        inner.unwrap_or(body)["notificationType"].as_str().unwrap().to_owned()
    };
    notices.iter().map(|notice| of(&notice.body)).collect()
}

#[test]
fn without_a_feed_nothing_is_made_up() {
    let mut world = World::new();
    for path in ["/rni/v2/queries/rab_info", "/location/v3/queries/users", "/mec_platform/v1/radio"]
    {
        assert_eq!(world.get("operator", path).status, 503, "{path}");
    }
    let mut wrong = [network(), network(), network()];
    wrong[0].clients[0].cell = "none".to_owned();
    // Of two with one name one would be told to come and to go with each report.
    let twice = wrong[1].clients[0].clone();
    wrong[1].clients.push(twice);
    let twice = wrong[2].cells[0].clone();
    wrong[2].cells.push(twice);
    for wrong in &wrong {
        let body = serde_json::to_value(wrong).unwrap();
        assert_eq!(world.ask("operator", "PUT", "/mec_platform/v1/radio", &body).0.status, 400);
    }
}

#[test]
fn answers_say_what_the_feed_said_and_whose_it_is() {
    let mut world = World::new();
    tell(&mut world, &network());
    let answer =
        world.get("camera", "/rni/v2/queries/rab_info?ue_ipv4_address=10.45.0.2&app_ins_id=camera");
    assert_eq!(answer.field("Freshet-Data-Source"), Some("test"));
    let body = answer.body.unwrap();
    let cell = &body["cellUserInfo"][0];
    assert_eq!(cell["ecgi"], json!({"plmn": {"mcc": "001", "mnc": "01"}, "cellId": "0010100"}));
    assert_eq!(cell["ueInfo"][0]["erabInfo"][0]["erabQosParameters"]["qci"], 9);
    let none = world.get("camera", "/rni/v2/queries/rab_info?cell_id=0010101").body.unwrap();
    assert_eq!(none["cellUserInfo"], json!([]));
    assert_eq!(world.get("camera", "/rni/v2/queries/plmn_info").status, 400);
    let bearers = world.get("camera", "/rni/v2/queries/s1_bearer_info?gtp_teid=200").body.unwrap();
    let bearer = &bearers["s1UeInfo"][0]["s1BearerInfoDetailed"][0];
    assert_eq!(bearer["enbInfo"], json!({"ipAddress": "10.3.0.1", "tunnelId": "200"}));
    let users = world.get("camera", "/location/v3/queries/users?zoneId=north").body.unwrap();
    assert_eq!(users["userList"]["user"][0]["address"], "acr:10.45.0.2");
    let zone = world.get("camera", "/location/v3/queries/zones/north").body.unwrap();
    assert_eq!(
        (&zone["zoneInfo"]["numberOfUsers"], &zone["zoneInfo"]["numberOfAccessPoints"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(world.get("camera", "/location/v3/queries/zones/west").status, 404);
    assert_eq!(
        world.get("camera", "/location/v3/queries/zones/south/accessPoints/0010100").status,
        404
    );
    for point in
        ["latitude=999&longitude=25.0", "latitude=60.0&longitude=181", "latitude=x&longitude=25"]
    {
        let path = format!("/location/v3/queries/distance?address=acr:10.45.0.2&{point}");
        assert_eq!(world.get("camera", &path).status, 400, "{point}");
    }
    let path = "/location/v3/queries/distance?address=acr:10.45.0.2&latitude=60.0&longitude=25.0";
    let distance = world.get("camera", path).body.unwrap();
    assert_eq!(distance["terminalDistance"]["distance"], 111);
    assert_eq!(
        world.get("camera", "/location/v3/queries/distance?address=acr:10.45.0.2").status,
        400
    );
    assert_eq!(
        world.get("camera", "/location/v3/queries/distance?address=acr:10.45.0.9").status,
        404
    );
}

#[test]
fn a_handover_is_told_to_whom_its_filter_lets_through() {
    let mut world = World::new();
    tell(&mut world, &network());
    let subscribe = |world: &mut World, path: &str, body: Value| {
        let (made, _) = world.ask("viewer", "POST", path, &body);
        assert_eq!(made.status, 201, "{made:?}");
    };
    let callback = "http://192.0.2.7/events";
    for status in [3, 1] {
        subscribe(
            &mut world,
            "/rni/v2/subscriptions",
            json!({
                "subscriptionType": "CellChangeSubscription", "callbackReference": callback,
                "filterCriteriaAssocHo": {"associateId": [{"type": 1, "value": "10.45.0.2"}], "hoStatus": [status]},
            }),
        );
    }
    for zone in ["north", "south"] {
        subscribe(
            &mut world,
            "/location/v3/subscriptions/zones",
            json!({"zoneLocationEventSubscription": {
                "subscriptionType": "ZoneLocationEventSubscription", "callbackReference": callback, "zoneId": zone,
                "locationEventCriteria": ["ENTERING_AREA_EVENT"],
            }}),
        );
    }
    subscribe(
        &mut world,
        "/location/v3/subscriptions/users",
        json!({"userLocationEventSubscription": {
            "subscriptionType": "UserLocationEventSubscription", "callbackReference": callback,
            "address": "acr:10.45.0.3",
        }}),
    );
    for (asked, count) in [
        ("zones", 2),
        ("zones?zoneId=north", 1),
        ("zones?zoneId=north&subscription_type=zone_status", 0),
        ("users?address=acr:10.45.0.3", 1),
        ("users?address=acr:10.45.0.4", 0),
    ] {
        let asked = format!("/location/v3/subscriptions/{asked}");
        let links = world.get("viewer", &asked).body.unwrap();
        let links = links["notificationSubscriptionList"]["subscription"].as_array();
        assert_eq!(links.map_or(0, Vec::len), count, "{asked}");
    }
    let of_type = |world: &mut World, kind: &str| {
        world.get("viewer", &format!("/rni/v2/subscriptions?subscription_type={kind}"))
    };
    for (kind, count) in [("cell_change", 2), ("CellChangeSubscription", 2), ("meas_ta", 0)] {
        let links = of_type(&mut world, kind).body.unwrap();
        assert_eq!(links["_links"]["subscription"].as_array().unwrap().len(), count, "{kind}");
    }
    assert_eq!(of_type(&mut world, "ecgi").status, 400);
    let mut moved = network();
    moved.clients[0].cell = "0010101".to_owned();
    let notices = tell(&mut world, &moved);
    assert_eq!(kinds(&notices), ["CellChangeNotification", "ZoneLocationEventNotification"]);
    assert_eq!(notices[0].body["srcEcgi"]["cellId"], "0010100");
    let entered = &notices[1].body["zoneLocationEventNotification"];
    assert_eq!(
        (&entered["zoneId"], &entered["userLocationEvent"]),
        (&json!("south"), &json!("ENTERING_AREA_EVENT"))
    );
    assert!(entered["_links"]["subscription"]["href"].is_string());
    assert!(tell(&mut world, &moved).is_empty());
}

#[test]
fn a_bearer_is_told_of_when_it_comes_changes_and_goes() {
    let mut world = World::new();
    let none = Radio { clients: Vec::new(), ..network() };
    let mut better = network();
    better.clients[0].bearer.qci = 7;
    let mut moved = better.clone();
    moved.clients[0].bearer.teids = [101, 201];
    for (kind, member, criteria) in [
        ("RabModSubscription", "filterCriteriaQci", json!({"erabId": 5, "qci": 7})),
        ("S1BearerSubscription", "S1BearerSubscriptionCriteria", json!({"erabId": [5]})),
        ("S1BearerSubscription", "S1BearerSubscriptionCriteria", json!({"erabId": [6]})),
    ] {
        let mut body = json!({"subscriptionType": kind, "callbackReference": "http://192.0.2.7/", member: criteria});
        if kind == "S1BearerSubscription" {
            body["eventType"] = json!([1, 2, 3]);
        }
        let (made, _) = world.ask("viewer", "POST", "/rni/v2/subscriptions", &body);
        assert_eq!(made.status, 201, "{made:?}");
    }
    for (radio, expected, event) in [
        (&none, &[][..], ""),
        (&network(), &["S1BearerNotification"], "S1_BEARER_ESTABLISH"),
        (&better, &["RabModNotification", "S1BearerNotification"], "S1_BEARER_MODIFY"),
        (&moved, &["S1BearerNotification"], "S1_BEARER_MODIFY"),
        (&moved, &[], ""),
        (&none, &["S1BearerNotification"], "S1_BEARER_RELEASE"),
    ] {
        let notices = tell(&mut world, radio);
        assert_eq!(kinds(&notices), expected);
        if let Some(notice) = notices.last() {
            assert_eq!(notice.body["s1Event"], event);
        }
    }
}

#[test]
fn a_subscription_expires_with_a_word_and_shows_that_it_works() {
    let mut world = World::new();
    let (made, notices) = world.ask(
        "viewer",
        "POST",
        "/rni/v2/subscriptions",
        &json!({
            "subscriptionType": "MeasTaSubscription", "callbackReference": "http://192.0.2.7/",
            "requestTestNotification": true, "filterCriteriaAssoc": {},
            "expiryDeadline": {"seconds": world.now_ms / 1000 + 10, "nanoSeconds": 0},
        }),
    );
    assert_eq!(kinds(&notices), ["TestNotification"]);
    let place = location(&made);
    assert!(world.wait(9_000).is_empty());
    assert_eq!(world.get("viewer", &place).status, 200);
    // Another's subscription is none of the camera's business.
    assert_eq!(world.get("camera", &place).status, 403);
    assert_eq!(world.ask("camera", "DELETE", &place, &Value::Null).0.status, 403);
    assert_eq!(kinds(&world.wait(1_000)), ["ExpiryNotification"]);
    assert_eq!(world.get("viewer", &place).status, 404);
}

#[test]
fn a_simulated_network_is_as_real_to_subscribers_as_another() {
    let mut world = World::new();
    let mut simulator = Simulator::new(7, 12);
    world.ask(
        "viewer",
        "POST",
        "/rni/v2/subscriptions",
        &json!({
            "subscriptionType": "CellChangeSubscription", "callbackReference": "http://192.0.2.7/",
            "filterCriteriaAssocHo": {},
        }),
    );
    let mut told = 0;
    for _ in 0..120 {
        world.now_ms += 1000;
        let decision = world.platform.report(simulator.report(world.now_ms)).unwrap();
        told += world.platform.commit(decision, world.now_ms).unwrap().1.len();
    }
    assert!(told > 5, "{told}");
    let users = world.get("camera", "/location/v3/queries/users");
    assert_eq!(users.field("Freshet-Data-Source"), Some("simulator"));
    assert_eq!(users.body.unwrap()["userList"]["user"].as_array().unwrap().len(), 12);
}

/// Subscribes to a kind of event of MEC 012, with a filter under its name.
fn subscribe(world: &mut World, kind: &str, filter: &str, criteria: Value) {
    let mut body = json!({"subscriptionType": kind, "callbackReference": "http://192.0.2.7/"});
    body[filter] = criteria;
    let (made, _) = world.ask("viewer", "POST", "/rni/v2/subscriptions", &body);
    assert_eq!(made.status, 201, "{made:?}");
}

#[test]
fn what_a_subscription_says_of_web_sockets_is_of_its_type() {
    let mut world = World::new();
    let subscriptions = "/rni/v2/subscriptions";
    for (config, status) in [
        (json!({"requestWebsocketUri": true}), 201),
        (json!([null, null]), 400),
        (json!({"requestWebsocketUri": "yes"}), 400),
    ] {
        let body = json!({
            "subscriptionType": "MeasTaSubscription", "callbackReference": "http://192.0.2.7/",
            "filterCriteriaAssocMrs": {}, "filterCriteriaAssoc": {}, "websockNotifConfig": config,
        });
        let (made, _) = world.ask("viewer", "POST", subscriptions, &body);
        assert_eq!(made.status, status, "{config}: {made:?}");
    }
}

#[test]
fn carriers_that_come_and_go_are_told_of() {
    let mut world = World::new();
    let mut radio = network();
    tell(&mut world, &radio);
    subscribe(&mut world, "CaReconfSubscription", "filterCriteriaAssoc", json!({}));
    let of = |cell: &str| json!([{"ecgi": {"plmn": {"mcc": "001", "mnc": "01"}, "cellId": cell}}]);
    radio.clients[0].secondary_cells = vec!["0010101".to_owned()];
    let notices = tell(&mut world, &radio);
    assert_eq!(kinds(&notices), ["CaReconfNotification"]);
    assert_eq!(notices[0].body["secondaryCellAdd"], of("0010101"));
    assert_eq!(notices[0].body["secondaryCellRemove"], json!([]));
    assert!(tell(&mut world, &radio).is_empty());
    radio.clients[0].secondary_cells.clear();
    let notices = tell(&mut world, &radio);
    assert_eq!(notices[0].body["secondaryCellRemove"], of("0010101"));
    radio.clients[0].secondary_cells = vec!["none".to_owned()];
    let body = serde_json::to_value(&radio).unwrap();
    let refused = world.ask("operator", "PUT", "/mec_platform/v1/radio", &body).0;
    assert_eq!(refused.status, 400);
    assert!(refused.body.unwrap()["detail"].as_str().unwrap().contains("cell none"));
}

#[test]
fn a_client_of_nr_is_measured_in_the_words_of_nr() {
    let mut world = World::new();
    let mut radio = network();
    radio.cells[0].id = "001010001".to_owned();
    radio.clients[0].cell = "001010001".to_owned();
    let near = |cell: &str| Neighbour { cell: cell.to_owned(), rsrp_dbm: -97.0 };
    radio.cells.push(Cell { id: "001010002".to_owned(), ..radio.cells[0].clone() });
    radio.clients[0].neighbours = vec![near("0010101"), near("001010002")];
    tell(&mut world, &radio);
    subscribe(&mut world, "MeasRepUeSubscription", "filterCriteriaAssocTri", json!({}));
    let cell = |id: &str| json!({"plmn": {"mcc": "001", "mnc": "01"}, "nrCellId": id});
    let elsewhere = json!({"nrcgi": [cell("001010002")]});
    subscribe(&mut world, "NrMeasRepUeSubscription", "filterCriteriaNrMrs", elsewhere);
    let here = json!({"nrcgi": [cell("001010001")], "triggerNr": [1]});
    subscribe(&mut world, "NrMeasRepUeSubscription", "filterCriteriaNrMrs", here);
    let notices = tell(&mut world, &radio);
    assert_eq!(kinds(&notices), ["NrMeasRepUeNotification"]);
    let body = &notices[0].body;
    assert_eq!(body["triggerNr"], 1);
    // -90 dBm and -10 dB, by the tables of 3GPP TS 38.133.
    assert_eq!(
        body["servCellMeasInfo"],
        json!([{"nrcgi": cell("001010001"), "sCell": {"measQuantityResultsSsbCell": {"rsrp": 67, "rsrq": 67}}}])
    );
    assert_eq!(
        body["nrNeighCellMeasInfo"],
        json!([{"nrcgi": cell("001010002"), "measQuantityResultsSsbCell": {"rsrp": 60}}])
    );
    assert_eq!(body["eutraNeighCellMeasInfo"][0]["rsrp"], 44);
}

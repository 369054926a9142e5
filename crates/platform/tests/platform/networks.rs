//! Areas, distances and reports by time; networks beside the radio network; hosts beside this one.

use crate::radio::{kinds, network, tell};
use crate::support::{NOW_MS, World, location, setup};
use freshet_platform::Platform;
use freshet_platform::notify::Notice;

use freshet_radio::simulator::Simulator;
use serde_json::{Value, json};

const CALLBACK: &str = "http://192.0.2.7/events";

fn subscribe(world: &mut World, path: &str, body: &Value) -> String {
    let (made, _) = world.ask("viewer", "POST", path, body);
    assert_eq!(made.status, 201, "{path}: {made:?}");
    location(&made)
}

/// A subscription of MEC 013 around its members.
fn of_location(kind: &str, members: &Value) -> Value {
    let mut name = kind.to_owned();
    name[..1].make_ascii_lowercase();
    let mut one = json!({"subscriptionType": kind, "callbackReference": CALLBACK});
    one.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    json!({ name: one })
}

/// Has another network tell something.
fn feed(world: &mut World, name: &str, report: &Value) -> Vec<Notice> {
    let (answer, notices) =
        world.ask("operator", "PUT", &format!("/mec_platform/v1/{name}"), report);
    assert_eq!(answer.status, 204, "{answer:?}");
    notices
}

#[test]
fn an_area_is_told_of_when_its_border_is_crossed() {
    let mut world = World::new();
    tell(&mut world, &network());
    let path = "/location/v3/subscriptions/area";
    let circle = |latitude: f64| json!({"shape": 1, "radius": 100, "points": [{"latitude": latitude, "longitude": 25.0}]});
    let area = |area: Value| {
        of_location(
            "UserAreaSubscription",
            &json!({
                "addressList": ["acr:10.45.0.2"], "areaDefine": area, "trackingAccuracy": 10, "reportingLocationReq": true,
            }),
        )
    };
    subscribe(&mut world, path, &area(circle(60.001)));
    subscribe(&mut world, path, &area(circle(60.003)));
    for wrong in [
        json!({"shape": 1, "points": [{"latitude": 60, "longitude": 25}]}),
        json!({"shape": 2, "points": [{"latitude": 60, "longitude": 25}]}),
        circle(6000.1),
    ] {
        assert_eq!(world.ask("viewer", "POST", path, &area(wrong)).0.status, 400);
    }
    let mut moved = network();
    moved.clients[0].position = Some([60.003, 25.0]);
    let notices = tell(&mut world, &moved);
    let events: Vec<&Value> = notices
        .iter()
        .map(|notice| &notice.body["userAreaNotification"]["userLocationEvent"])
        .collect();
    assert_eq!(events.len(), 2, "{notices:?}");
    assert!(
        events.contains(&&json!("ENTERING_AREA_EVENT"))
            && events.contains(&&json!("LEAVING_AREA_EVENT"))
    );
    assert!(notices.iter().all(|one| one.body["userAreaNotification"]["locationInfo"].is_object()));
    assert!(tell(&mut world, &moved).is_empty());
    // Who is in the network no more has left the area.
    moved.clients.clear();
    let notices = tell(&mut world, &moved);
    assert_eq!(notices.len(), 1, "{notices:?}");
    let body = &notices[0].body["userAreaNotification"];
    assert_eq!(body["userLocationEvent"], "LEAVING_AREA_EVENT");
    assert!(tell(&mut world, &moved).is_empty());
}

#[test]
fn a_distance_is_told_of_at_once_and_when_it_comes_to_hold() {
    let mut world = World::new();
    let mut radio = network();
    let mut other = radio.clients[0].clone();
    other.address = [10, 45, 0, 3].into();
    other.position = Some([60.0, 25.0]);
    radio.clients.push(other);
    tell(&mut world, &radio);
    let path = "/location/v3/subscriptions/distance";
    let one = |criteria: &str, distance: f64| {
        of_location(
            "UserDistanceSubscription",
            &json!({
                "monitoredAddress": ["acr:10.45.0.2", "acr:10.45.0.3"], "checkImmediate": true,
                "criteria": criteria, "distance": distance, "trackingAccuracy": 10,
            }),
        )
    };
    // They are 111 m apart.
    let (_, notices) = world.ask("viewer", "POST", path, &one("AllWithinDistance", 200.0));
    assert_eq!(kinds(&notices), ["UserDistanceNotification"]);
    let users = &notices[0].body["userDistanceNotification"]["monitoredUsers"]["user"];
    assert_eq!(users.as_array().unwrap().len(), 2);
    let (_, notices) = world.ask("viewer", "POST", path, &one("AnyBeyondDistance", 200.0));
    assert!(notices.is_empty());
    radio.clients[1].position = Some([60.01, 25.0]);
    assert_eq!(kinds(&tell(&mut world, &radio)), ["UserDistanceNotification"]);
    assert!(tell(&mut world, &radio).is_empty());
}

#[test]
fn reports_by_time_come_as_often_as_was_asked_and_no_more() {
    let mut world = World::new();
    tell(&mut world, &network());
    world.wait(0);
    let members = json!({"address": "acr:10.45.0.2", "periodicEventInfo": {"reportingAmount": 3, "reportingInterval": 10}});
    let place = subscribe(
        &mut world,
        "/location/v3/subscriptions/users",
        &of_location("UserLocationPeriodicSubscription", &members),
    );
    let mut told = Vec::new();
    for _ in 0..40 {
        told.extend(world.wait(1_000));
    }
    let body = |index: usize| &told[index].body["userLocationPeriodicNotification"];
    assert_eq!(kinds(&told[..3]), ["UserLocationPeriodicNotification"; 3]);
    assert_eq!(
        [0, 1, 2].map(|index| body(index)["isFinalNotification"] == true),
        [false, false, true]
    );
    assert_eq!(body(0)["result"], "SUCCESS");
    assert_eq!(kinds(&told[3..]), ["ExpiryNotification"]);
    assert_eq!(world.get("viewer", &place).status, 404);
}

#[test]
fn a_zone_tells_when_it_is_too_full_and_no_oftener_than_was_wished() {
    let mut world = World::new();
    let one = network();
    let mut two = network();
    let mut other = one.clients[0].clone();
    other.address = [10, 45, 0, 3].into();
    two.clients.push(other);
    tell(&mut world, &one);
    let members = json!({
        "zoneId": "north", "upperNumberOfUsersZoneThreshold": 1, "upperNumberOfUsersAPThreshold": 1,
        "reportingCtrl": {"minimumInterval": 5, "maximumCount": 3},
    });
    let place = subscribe(
        &mut world,
        "/location/v3/subscriptions/zones",
        &of_location("ZoneStatusSubscription", &members),
    );
    // The zone and its access point are too full at once: the second waits for its turn in vain.
    let notices = tell(&mut world, &two);
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0].body["zoneStatusNotification"]["userNumEvent"], 1);
    for expected in [0, 1, 1, 0] {
        tell(&mut world, &one);
        world.now_ms += if expected == 0 { 1_000 } else { 6_000 };
        assert_eq!(tell(&mut world, &two).len(), expected);
    }
    assert_eq!(world.get("viewer", &place).status, 404);
    let once = json!({"address": "acr:10.45.0.3", "userEventPara": {"occurrenceInfo": "ONE_TIME_EVENT", "zoneId": "north"}});
    let place = subscribe(
        &mut world,
        "/location/v3/subscriptions/users",
        &of_location("UserLocationEventSubscription", &once),
    );
    assert_eq!(kinds(&tell(&mut world, &one)), ["UserLocationEventNotification"]);
    assert_eq!(world.get("viewer", &place).status, 404);
}

/// How often a subscription may be told is counted on the disk, and goes with it.
#[test]
fn how_often_a_subscription_was_told_outlives_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let begin = |now_ms: u64| {
        let mut world =
            World::with(Platform::open(setup(), &folder.path().join("journal")).unwrap());
        world.now_ms = now_ms;
        world
    };
    let mut world = begin(NOW_MS);
    let one = network();
    let mut two = network();
    let mut other = one.clients[0].clone();
    other.address = [10, 45, 0, 3].into();
    two.clients.push(other);
    let members = json!({
        "zoneId": "north", "upperNumberOfUsersZoneThreshold": 1,
        "reportingCtrl": {"minimumInterval": 5, "maximumCount": 3},
    });
    let path = "/location/v3/subscriptions/zones";
    let body = of_location("ZoneStatusSubscription", &members);
    let place = subscribe(&mut world, path, &body);
    let removed = subscribe(&mut world, path, &body);
    let both = |world: &mut World, expected: usize| {
        tell(world, &one);
        world.now_ms += 6_000;
        assert_eq!(tell(world, &two).len(), expected);
        world.now_ms
    };
    let mut now_ms = both(&mut world, 2);
    assert_eq!(world.ask("viewer", "DELETE", &removed, &Value::Null).0.status, 204);
    drop(world);
    for _ in 0..2 {
        let mut world = begin(now_ms);
        assert_eq!(world.get("viewer", &place).status, 200);
        now_ms = both(&mut world, 1);
    }
    let mut world = begin(now_ms);
    assert_eq!(world.get("viewer", &place).status, 404);
    both(&mut world, 0);
}

/// A clock that is set back does not silence anybody for as long.
#[test]
fn a_clock_that_is_set_back_keeps_no_notification_back() {
    let mut world = World::new();
    let one = network();
    let mut two = network();
    let mut other = one.clients[0].clone();
    other.address = [10, 45, 0, 3].into();
    two.clients.push(other);
    let members = json!({
        "zoneId": "north", "upperNumberOfUsersZoneThreshold": 1,
        "reportingCtrl": {"minimumInterval": 5},
    });
    let body = of_location("ZoneStatusSubscription", &members);
    subscribe(&mut world, "/location/v3/subscriptions/zones", &body);
    tell(&mut world, &one);
    assert_eq!(tell(&mut world, &two).len(), 1);
    world.now_ms -= 3_600_000;
    tell(&mut world, &one);
    assert_eq!(tell(&mut world, &two).len(), 1);
}

#[test]
fn bandwidth_is_given_out_once_and_to_whom_it_is_for() {
    let mut world = World::new();
    let path = "/bwm/v1/bw_allocations";
    let ask = |app: &str, bits: &str, direction: &str| json!({"appInsId": app, "requestType": 0, "fixedAllocation": bits, "allocationDirection": direction});
    let (made, _) = world.ask("camera", "POST", path, &ask("camera", "600000", "00"));
    assert_eq!(made.status, 201, "{made:?}");
    for (body, status) in [
        (ask("camera", "600000", "00"), 403),
        (ask("camera", "600000", "10"), 403),
        (ask("viewer", "1", "00"), 403),
        (ask("camera", "-3", "00"), 400),
        (ask("camera", "3", "02"), 400),
        (
            json!({"appInsId": "camera", "requestType": 1, "fixedAllocation": "3", "allocationDirection": "00"}),
            400,
        ),
    ] {
        assert_eq!(world.ask("camera", "POST", path, &body).0.status, status, "{body}");
    }
    assert_eq!(world.ask("operator", "POST", path, &ask("nobody", "1", "00")).0.status, 400);
    assert_eq!(world.ask("camera", "POST", path, &ask("camera", "600000", "01")).0.status, 201);
    let place = location(&made);
    // Its own share is free for itself.
    let deltas = json!({"appInsId": "camera", "requestType": 0, "fixedAllocation": "900000"});
    let (changed, _) = world.ask("camera", "PATCH", &place, &deltas);
    assert_eq!(
        (changed.status, &changed.body.as_ref().unwrap()["fixedAllocation"]),
        (200, &json!("900000"))
    );
    assert_eq!(world.get("viewer", &place).status, 403);
    assert_eq!(world.get("viewer", path).body.unwrap(), json!([]));
    assert_eq!(world.get("camera", path).body.unwrap().as_array().unwrap().len(), 2);
    assert_eq!(world.ask("camera", "DELETE", &place, &Value::Null).0.status, 204);
    assert_eq!(world.ask("camera", "POST", path, &ask("camera", "1000000", "00")).0.status, 201);
}

/// Allocations for some sessions: each is for sessions of its own, that packets can be told by.
#[test]
fn some_sessions_of_an_app_have_an_allocation_of_their_own() {
    let mut world = World::new();
    let path = "/bwm/v1/bw_allocations";
    let ask = |direction: &str, filter: Value| json!({"appInsId": "camera", "requestType": 1, "fixedAllocation": "1000", "allocationDirection": direction, "sessionFilter": filter});
    let one = json!([{"sourceIp": "10.45.0.2", "dstPort": ["80", "8000-8080"], "protocol": "TCP"}]);
    let (made, _) = world.ask("camera", "POST", path, &ask("01", one.clone()));
    assert_eq!(made.status, 201, "{made:?}");
    let limits = world.platform.packet_path().limits;
    let filter =
        json!([{"srcAddress": ["10.45.0.2"], "dstPort": ["80", "8000-8080"], "protocol": ["TCP"]}]);
    assert_eq!(limits[0]["filter"], filter);
    assert_eq!(
        (&limits[0]["bits_per_second"], limits.as_array().unwrap().len()),
        (&json!(1000), 1)
    );
    for (direction, filter, status) in [
        // The same sessions, from either end.
        ("01", one.clone(), 403),
        ("10", json!([{"dstAddress": "10.45.0.0/16", "sourcePort": "8010"}]), 403),
        ("01", json!([{"protocol": "TCP"}]), 403),
        // Others, or the other way.
        ("00", one.clone(), 201),
        ("01", json!([{"sourceIp": "10.45.0.2", "protocol": "UDP"}]), 201),
        ("01", json!([{"sourceIp": "2001:db8::/64", "dstPort": "80"}]), 201),
        // What cannot be, with its place.
        ("01", json!([]), 400),
        ("01", json!([{}]), 400),
        ("01", json!([{"sourceIp": "10.45.0"}]), 400),
        ("01", json!([{"sourceIp": "10.45.0.1/16"}]), 400),
        ("01", json!([{"sourceIp": "10.45.0.3-10.45.0.9"}]), 400),
        ("01", json!([{"dstAddress": "edge.example"}]), 400),
        ("01", json!([{"dstPort": "0x50"}]), 400),
        ("01", json!([{"dstPort": ["1", "2", "3", "4", "5"]}]), 400),
        ("01", json!([{"protocol": "QUIC"}]), 400),
        // A session that no packet says it is of.
        ("01", json!([{"sourceIp": "1234", "dstPort": "80"}]), 201),
    ] {
        let body = ask(direction, filter);
        let answer = world.ask("camera", "POST", path, &body).0;
        assert_eq!(answer.status, status, "{body}: {answer:?}");
    }
    assert_eq!(world.platform.packet_path().limits.as_array().unwrap().len(), 3);
    let answer = world.ask("camera", "POST", path, &ask("01", json!([{"protocol": "QUIC"}]))).0;
    let detail = answer.body.unwrap()["detail"].as_str().unwrap().to_owned();
    assert!(detail.starts_with("/sessionFilter/0/protocol: `QUIC` is no protocol"), "{detail}");
    // Its own sessions are free for itself.
    let place = location(&made);
    assert_eq!(world.ask("camera", "PUT", &place, &ask("01", one)).0.status, 200);
    // One app may not take what all apps' rules have room for.
    let many = |from: u16| -> Value {
        (from..from + 13)
            .map(|port| json!({"protocol": "SCTP", "dstPort": port.to_string()}))
            .collect()
    };
    assert_eq!(world.ask("camera", "POST", path, &ask("01", many(1))).0.status, 403);
}

/// Of filters that name the clients' end alone the other is the app's, whichever side that is on.
#[test]
fn clients_of_one_app_have_an_allocation_each() {
    let path = "/bwm/v1/bw_allocations";
    let ask = |filter: Value| json!({"appInsId": "camera", "requestType": 1, "fixedAllocation": "1000", "allocationDirection": "symmetrical", "sessionFilter": [filter]});
    let from = |client: &str| json!({"sourceIp": client, "dstPort": "8080", "protocol": "TCP"});
    let to = |client: &str| json!({"dstAddress": client, "sourcePort": "8080"});
    let app = json!({"sourceIp": "10.99.0.2"});
    for (one, other, status) in [
        (from("10.45.0.2"), from("10.45.0.3"), 201),
        (from("10.45.0.2"), to("10.45.0.3"), 201),
        (to("10.45.0.2"), to("10.45.0.3"), 201),
        (from("10.45.0.2"), from("10.45.0.0/24"), 403),
        (from("10.45.0.2"), to("10.45.0.2"), 403),
        (from("10.45.0.2"), json!({"dstPort": "8080"}), 403),
        // The app's own address, as its rules lead packets there, is not a client's.
        (from("10.45.0.2"), app.clone(), 403),
        (app, to("10.45.0.2"), 403),
    ] {
        let mut world = World::new();
        let made = world.ask("camera", "POST", path, &ask(one.clone())).0;
        assert_eq!(made.status, 201, "{one}: {made:?}");
        let answer = world.ask("camera", "POST", path, &ask(other.clone())).0;
        assert_eq!(answer.status, status, "{one} {other}: {answer:?}");
    }
}

#[test]
fn a_device_gets_its_app_and_is_told_when_it_ends() {
    let mut world = World::new();
    let list = world.get("viewer", "/dev_app/v1/app_list?appName=detector").body.unwrap();
    assert_eq!(list["appList"][0]["appInfo"]["appDId"], "detector-d");
    let none = world.get("viewer", "/dev_app/v1/app_list?appName=other").body.unwrap();
    assert_eq!(none, json!({"appList": []}));
    let context = |name: &str| {
        json!({
            "associateDevAppId": "phone", "callbackReference": CALLBACK,
            "appInfo": {"appName": name, "appProvider": "freshet", "appDVersion": "1", "userAppInstanceInfo": []},
        })
    };
    let path = "/dev_app/v1/app_contexts";
    assert_eq!(world.ask("viewer", "POST", path, &context("other")).0.status, 404);
    let (made, _) = world.ask("viewer", "POST", path, &context("detector"));
    let instance = &made.body.as_ref().unwrap()["appInfo"]["userAppInstanceInfo"][0];
    assert_eq!(
        (&instance["appInstanceId"], &instance["referenceURI"]),
        (&json!("camera"), &json!("http://10.99.0.2/"))
    );
    assert!(world.wait(1_000).is_empty());
    let end = json!({"operationAction": "TERMINATING", "maxGracefulTimeout": 0});
    world.ask("operator", "POST", "/mec_platform/v1/applications/camera/terminate", &end);
    let notices: Vec<Notice> = (0..3).flat_map(|_| world.wait(1_000)).collect();
    assert_eq!(kinds(&notices), ["ApplicationContextDeleteNotification"]);
    assert!(notices[0].body.get("_links").is_none());
    assert_eq!(world.ask("viewer", "POST", path, &context("detector")).0.status, 503);
}

#[test]
fn a_client_that_moves_to_a_neighbour_is_told_of_with_where_its_app_is() {
    let mut world = World::new();
    tell(&mut world, &network());
    let device = |level: u8| json!({"associateId": "10.45.0.2", "appMobilityServiceLevel": {"appMobilityServiceLevel": level}});
    let registration = |level: u8| json!({"serviceConsumerId": {"appInstanceId": "camera"}, "deviceInformation": [device(level)], "expiryTime": 60});
    let path = "/amsi/v1/app_mobility_services";
    assert_eq!(world.ask("viewer", "POST", path, &registration(3)).0.status, 403);
    let (made, _) = world.ask("camera", "POST", path, &registration(3));
    world.ask("camera", "POST", path, &registration(1));
    let place = location(&made);
    let of = |status: u8| {
        json!({"subscriptionType": "MobilityProcedureSubscription", "callbackReference": CALLBACK,
        "filterCriteria": {"appInstanceId": "camera", "mobilityStatus": [status]}})
    };
    for status in [1, 2] {
        subscribe(&mut world, "/amsi/v1/subscriptions", &of(status));
    }
    let mut moved = network();
    moved.clients[0].cell = "0010101".to_owned();
    let notices = tell(&mut world, &moved);
    assert_eq!(kinds(&notices), ["MobilityProcedureNotification"]);
    let target = &notices[0].body["targetAppInfo"];
    assert_eq!(target["appInstanceId"], "camera-south");
    assert_eq!(target["commInterface"]["ipAddresses"][0], json!({"host": "10.98.0.2", "port": 80}));
    // What another app says is not of this one's clients.
    let said = json!({
        "notificationType": "MobilityProcedureNotification", "associateId": ["10.45.0.2"], "mobilityStatus": 1,
    });
    for (who, count) in [("viewer", 0), ("camera", 1)] {
        let (_, notices) = world.ask(who, "POST", "/amsi/v1/user_defined_notification", &said);
        assert_eq!(notices.len(), count, "{who}");
    }
    let mut done = registration(3);
    done["deviceInformation"][0]["contextTransferState"] = 1.into();
    let (_, notices) = world.ask("camera", "PUT", &place, &done);
    assert_eq!(notices[0].body["mobilityStatus"], 2);
    world.wait(59_000);
    assert_eq!(world.get("camera", &place).status, 200);
    world.wait(2_000);
    assert_eq!(world.get("camera", &place).status, 404);
    // No time is no end.
    let mut endless = registration(3);
    endless["expiryTime"] = 0.into();
    let place = location(&world.ask("camera", "POST", path, &endless).0);
    world.wait(60_000);
    assert_eq!(world.get("camera", &place).status, 200);
}

#[test]
fn what_a_filter_leaves_out_is_asked_for_as_its_standard_says() {
    let mut world = World::new();
    for (path, kind, filter, given, member, default) in [
        (
            "/amsi/v1/subscriptions",
            "MobilityProcedureSubscription",
            "filterCriteria",
            json!({}),
            "mobilityStatus",
            1,
        ),
        (
            "/rni/v2/subscriptions",
            "CellChangeSubscription",
            "filterCriteriaAssocHo",
            json!({}),
            "hoStatus",
            3,
        ),
        (
            "/fai/v1/subscriptions",
            "OnuAlarmSubscription",
            "filterCriteriaOnuAlarm",
            json!({"onuId": ["onu-2"]}),
            "alarms",
            -1,
        ),
    ] {
        let one = json!({"subscriptionType": kind, "callbackReference": CALLBACK, filter: given});
        let place = subscribe(&mut world, path, &one);
        let read = world.get("viewer", &place).body.unwrap();
        assert_eq!(read[filter][member], json!([default]), "{kind}");
        // And may be said.
        assert_eq!(world.ask("viewer", "PUT", &place, &read).0.status, 200, "{kind}");
    }
}

#[test]
fn other_networks_are_told_of_as_their_feeds_say() {
    let mut world = World::new();
    for path in [
        "/wai/v2/queries/ap/ap_information",
        "/fai/v1/queries/fa_info",
        "/vis/v2/queries/pc5_provisioning_info?location_info=ecgi,1",
    ] {
        assert_eq!(world.get("viewer", path).status, 503, "{path}");
    }
    assert_eq!(
        world.ask("operator", "PUT", "/mec_platform/v1/wlan", &json!({"source": "x"})).0.status,
        400
    );
    let mut simulator = Simulator::new(7, 100);
    let subscription = json!({"subscriptionType": "AssocStaSubscription", "callbackReference": CALLBACK, "apId": {"bssid": "02:00:00:00:00:01"}});
    subscribe(&mut world, "/wai/v2/subscriptions", &subscription);
    let alarm = json!({"subscriptionType": "OnuAlarmSubscription", "callbackReference": CALLBACK, "filterCriteriaOnuAlarm": {"onuId": ["onu-2"]}});
    subscribe(&mut world, "/fai/v1/subscriptions", &alarm);
    let (mut stations, mut alarms) = (0, 0);
    for _ in 0..600 {
        world.now_ms += 1_000;
        world.renew("operator");
        simulator.report(world.now_ms);
        for (name, report) in simulator.others() {
            for kind in kinds(&feed(&mut world, name, &report)) {
                stations += u32::from(kind == "AssocStaNotification");
                alarms += u32::from(kind == "OnuAlarmNotification");
            }
        }
    }
    assert!(stations > 10, "{stations}");
    assert_eq!(alarms, 2);
    world.renew("viewer");
    let points = world.get(
        "viewer",
        "/wai/v2/queries/ap/ap_information?filter=(eq,apId/bssid,02:00:00:00:00:01)",
    );
    assert_eq!(points.field("Freshet-Data-Source"), Some("simulator"));
    assert_eq!(points.body.unwrap().as_array().unwrap().len(), 1);
    assert_eq!(
        world.get("viewer", "/wai/v2/queries/ap/ap_information?filter=(eq,apId/mac,x)").status,
        400
    );
    let page = world.get("viewer", "/fai/v1/queries/device_info?size=2");
    let next = page.field("Link").unwrap().split(['<', '>']).nth(1).unwrap().to_owned();
    let rest = world.get("viewer", next.strip_prefix(crate::support::URL).unwrap());
    assert_eq!(
        (page.body.unwrap().as_array().unwrap().len(), rest.body.unwrap()[0]["deviceId"].clone()),
        (2, json!("device-2"))
    );
}

#[test]
fn a_message_for_vehicles_reaches_who_asked_for_its_kind() {
    let mut world = World::new();
    let of = |kind: &str| json!({"subscriptionType": "V2xMsgSubscription", "callbackReference": CALLBACK, "filterCriteria": {"stdOrganization": "ETSI", "msgType": [kind]}});
    let wanted = subscribe(&mut world, "/vis/v2/subscriptions", &of("1"));
    subscribe(&mut world, "/vis/v2/subscriptions", &of("2"));
    let mut message = json!({"msgContent": "aGVsbG8=", "msgRepresentationFormat": "base64", "msgPropertiesValues": {
        "locationInfo": {}, "msgProtocolVersion": 1, "msgType": "1", "stdOrganization": "ETSI"}});
    let (answer, notices) = world.ask("camera", "POST", "/vis/v2/publish_v2x_message", &message);
    assert_eq!((answer.status, notices.len()), (204, 1));
    assert_eq!(
        (&notices[0].subscription, &notices[0].body["msgContent"]),
        (&wanted, &json!("aGVsbG8="))
    );
    // Links are the platform's, whatever an app has there.
    message["_links"] = json!(["elsewhere"]);
    let (_, notices) = world.ask("camera", "POST", "/vis/v2/publish_v2x_message", &message);
    let href = notices[0].body["_links"]["subscription"]["href"].as_str().unwrap();
    assert!(href.ends_with(&wanted), "{href}");
}

#[test]
fn a_way_is_as_good_as_its_worst_place() {
    let mut world = World::new();
    let at = |latitude: f64, value: &str| json!({"locationInfo": {"geoArea": {"latitude": latitude, "longitude": 25.0}}, "qosKpi": [{"kpiName": "DL bitrate", "kpiValue": value}, {"kpiName": "latency", "kpiValue": "9 ms"}]});
    let report = json!({"source": "test", "unicast": [], "mbms": [], "pc5": [], "distributionServers": [], "quality": [at(60.0, "20 Mbit/s"), at(60.005, "3 Mbit/s")]});
    feed(&mut world, "v2x", &report);
    let point =
        |latitude: f64| json!({"location": {"geoArea": {"latitude": latitude, "longitude": 25.0}}});
    let ask = |points: [f64; 2]| {
        json!({"locationGranularity": "100", "predictionTarget": "SINGLE_UE_PREDICTION",
        "qos": {"stream": [{"qosKpi": [{"kpiName": "DL bitrate", "kpiValue": ""}]}]}, "routes": [{"routeInfo": points.map(point)}]})
    };
    let path = "/vis/v2/provide_predicted_qos";
    let told = world.ask("viewer", "POST", path, &ask([60.0, 60.004])).0;
    assert_eq!(told.field("Freshet-Data-Source"), Some("test"));
    assert_eq!(
        told.body.unwrap()["qos"]["stream"][0]["qosKpi"],
        json!([{"kpiName": "DL bitrate", "kpiValue": "3 Mbit/s"}])
    );
    assert_eq!(world.ask("viewer", "POST", path, &ask([60.0, 61.0])).0.status, 404);
}

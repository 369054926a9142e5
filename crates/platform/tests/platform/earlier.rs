//! Location as earlier versions of its standard have it.

use crate::radio::{network, tell};
use crate::support::{URL, World, location};
use freshet_platform::notify::Notice;
use freshet_radio::{Cell, Radio};
use serde_json::{Value, json};

const ROOT: &str = "/location/v2/subscriptions";
const CALLBACK: &str = "http://192.0.2.7/events";

/// Subscribes, and gives where the subscription is, how it was answered and what it is told at once.
fn subscribe(
    world: &mut World,
    place: &str,
    kind: &str,
    members: &Value,
) -> (String, Value, Vec<Notice>) {
    let mut one = json!({"callbackReference": {"notifyURL": CALLBACK, "callbackData": "mine"}});
    one.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    let path = format!("{ROOT}/{place}");
    let (made, notices) = world.ask("viewer", "POST", &path, &json!({ kind: one }));
    assert_eq!(made.status, 201, "{path}: {made:?}");
    (location(&made), made.body.unwrap()[kind].clone(), notices)
}

/// What is told, without what is around it.
fn told<'a>(notices: &'a [Notice], around: &str) -> Vec<&'a Value> {
    notices.iter().map(|notice| &notice.body[around]).collect()
}

/// The network with a second access point in the north.
fn wide() -> Radio {
    let mut radio = network();
    let second = Cell { id: "0010102".to_owned(), ..radio.cells[0].clone() };
    radio.cells.push(second);
    radio
}

#[test]
fn a_client_that_enters_leaves_or_changes_access_points_is_told_of() {
    let mut world = World::new();
    tell(&mut world, &wide());
    // One value in place of a list, as the examples of the standard have it.
    let members =
        json!({"zoneId": "north", "userEventCriteria": "Transferring", "interestRealm": "any"});
    let (zone, made, _) =
        subscribe(&mut world, "zonalTraffic", "zonalTrafficSubscription", &members);
    assert_eq!(made["userEventCriteria"], json!(["Transferring"]));
    assert_eq!(made["resourceURL"], format!("{URL}{zone}"));
    let members = json!({"address": "acr:10.45.0.2"});
    let (user, ..) = subscribe(&mut world, "userTracking", "userTrackingSubscription", &members);
    let other = json!({"address": "acr:10.45.0.9"});
    subscribe(&mut world, "userTracking", "userTrackingSubscription", &other);

    let mut moved = wide();
    moved.clients[0].cell = "0010102".to_owned();
    let notices = tell(&mut world, &moved);
    let bodies = told(&notices, "zonalPresenceNotification");
    assert_eq!(bodies.len(), 2, "{notices:?}");
    for body in bodies {
        assert_eq!(body["userEventType"], "Transferring");
        assert_eq!(
            [&body["currentAccessPointId"], &body["previousAccessPointId"]],
            ["0010102", "0010100"]
        );
        assert_eq!((&body["zoneId"], &body["callbackData"]), (&json!("north"), &json!("mine")));
    }
    assert_eq!(notices[0].target.path, "/events");
    let link = &told(&notices, "zonalPresenceNotification")[0]["link"][0];
    assert_eq!(link["rel"], "UserTrackingSubscription");
    assert_eq!(link["href"], format!("{URL}{user}"));

    moved.clients[0].cell = "0010101".to_owned();
    let notices = tell(&mut world, &moved);
    let bodies = told(&notices, "zonalPresenceNotification");
    let acts: Vec<[&Value; 3]> = bodies
        .iter()
        .map(|body| [&body["userEventType"], &body["zoneId"], &body["currentAccessPointId"]])
        .collect();
    assert_eq!(acts, [["Leaving", "north", "0010102"], ["Entering", "south", "0010101"]]);
    // A client that is gone has left.
    moved.clients.clear();
    let notices = tell(&mut world, &moved);
    let bodies = told(&notices, "zonalPresenceNotification");
    assert_eq!(bodies.len(), 1);
    assert_eq!([&bodies[0]["userEventType"], &bodies[0]["zoneId"]], ["Leaving", "south"]);
}

#[test]
fn a_zone_that_is_too_full_is_told_of_with_how_many_are_there() {
    let mut world = World::new();
    tell(&mut world, &network());
    let members =
        json!({"zoneId": "north", "numberOfUsersZoneThreshold": 1, "numberOfUsersAPThreshold": 1});
    subscribe(&mut world, "zoneStatus", "zoneStatusSubscription", &members);
    let mut full = network();
    let mut other = full.clients[0].clone();
    other.address = [10, 45, 0, 3].into();
    full.clients.push(other);
    let notices = tell(&mut world, &full);
    let bodies = told(&notices, "zoneStatusNotification");
    assert_eq!(bodies.len(), 2, "{notices:?}");
    assert_eq!(bodies[0]["numberOfUsersInZone"], 2);
    assert_eq!(
        (&bodies[1]["accessPointId"], &bodies[1]["numberOfUsersInAP"]),
        (&json!("0010100"), &json!(2))
    );
    assert!(tell(&mut world, &full).is_empty());
}

/// A subscription to a circle around where the client is at first.
fn circle(criteria: &str, is_immediate: bool) -> Value {
    json!({
        "address": "acr:10.45.0.2", "latitude": 60.001, "longitude": 25.0, "radius": 100, "trackingAccuracy": 10,
        "enteringLeavingCriteria": criteria, "checkImmediate": is_immediate, "frequency": 5,
    })
}

#[test]
fn a_circle_is_told_of_at_once_where_that_is_asked_and_when_its_border_is_crossed() {
    let mut world = World::new();
    tell(&mut world, &network());
    let kind = "circleNotificationSubscription";
    for (criteria, is_immediate, expected) in
        [("Entering", true, 1), ("Entering", false, 0), ("Leaving", true, 0)]
    {
        let members = circle(criteria, is_immediate);
        let (place, made, notices) = subscribe(&mut world, "area/circle", kind, &members);
        assert_eq!(notices.len(), expected, "{criteria} {is_immediate}");
        assert_eq!(made["address"], json!(["acr:10.45.0.2"]));
        for body in told(&notices, "subscriptionNotification") {
            assert_eq!(body["enteringLeavingCriteria"], criteria);
            let one = &body["terminalLocation"][0];
            assert_eq!(
                (&one["address"], &one["locationRetrievalStatus"]),
                (&json!("acr:10.45.0.2"), &json!("Retrieved"))
            );
            assert_eq!(one["currentLocation"]["latitude"], json!([60.001]));
        }
        assert_eq!(world.ask("viewer", "DELETE", &place, &Value::Null).0.status, 204);
    }
    subscribe(&mut world, "area/circle", kind, &circle("Leaving", false));
    let mut away = network();
    away.clients[0].position = Some([60.003, 25.0]);
    assert_eq!(tell(&mut world, &away).len(), 1);
    // No oftener than each five seconds.
    for (wait_ms, expected) in [(1_000, 0), (5_000, 1)] {
        assert!(tell(&mut world, &network()).is_empty());
        world.now_ms += wait_ms;
        assert_eq!(tell(&mut world, &away).len(), expected);
    }
    for (member, value) in [("latitude", json!(91)), ("count", json!(1))] {
        let mut wrong = circle("Leaving", false);
        wrong["callbackReference"] = json!({"notifyURL": CALLBACK});
        wrong["address"] = json!(["acr:10.45.0.2", "acr:10.45.0.3"]);
        wrong[member] = value;
        let path = format!("{ROOT}/area/circle");
        assert_eq!(
            world.ask("viewer", "POST", &path, &json!({kind: wrong})).0.status,
            400,
            "{member}"
        );
    }
}

/// Of a body there is one subscription: what stands beside it is nobody's.
#[test]
fn what_is_beside_a_subscription_in_its_body_is_not_kept() {
    let mut world = World::new();
    tell(&mut world, &network());
    let area = json!({
        "subscriptionType": "UserAreaSubscription", "callbackReference": CALLBACK, "addressList": ["acr:10.45.0.2"],
        "areaDefine": {"shape": 1, "radius": 100, "points": [{"latitude": 60.0, "longitude": 25.0}]},
        "trackingAccuracy": 10,
    });
    let mut round = circle("Entering", true);
    round["callbackReference"] = json!({"notifyURL": CALLBACK});
    for (path, kind, one) in [
        ("/location/v2/subscriptions/area/circle", "circleNotificationSubscription", round),
        ("/location/v3/subscriptions/area", "userAreaSubscription", area),
    ] {
        for beside in ["", "a", "z"] {
            let (made, _) = world.ask("viewer", "POST", path, &json!({beside: 1, kind: one}));
            assert_eq!(made.status, 201, "{path} {beside}: {made:?}");
            let place = location(&made);
            let read = world.get("viewer", &place).body.unwrap();
            assert!(made.body.as_ref() == Some(&read), "{path} {beside}: {read}");
            assert_eq!(read.as_object().unwrap().keys().collect::<Vec<_>>(), [kind]);
            let put = world.ask("viewer", "PUT", &place, &json!({beside: {}, kind: one})).0;
            assert_eq!(put.body, Some(read), "{path} {beside}");
        }
    }
}

#[test]
fn distances_and_reports_by_time_end_with_their_duration() {
    let mut world = World::new();
    let mut radio = network();
    let mut other = radio.clients[0].clone();
    other.address = [10, 45, 0, 3].into();
    radio.clients.push(other);
    tell(&mut world, &radio);
    let members = json!({
        "monitoredAddress": ["acr:10.45.0.2", "acr:10.45.0.3"], "distance": 200, "trackingAccuracy": 10,
        "criteria": "AllWithinDistance", "checkImmediate": true, "frequency": 0, "count": 1,
    });
    let (near, _, notices) =
        subscribe(&mut world, "distance", "distanceNotificationSubscription", &members);
    let bodies = told(&notices, "subscriptionNotification");
    assert_eq!(bodies[0]["distanceCriteria"], "AllWithinDistance");
    assert_eq!(bodies[0]["terminalLocation"].as_array().unwrap().len(), 2);
    // What is told at once counts.
    assert_eq!(world.get("viewer", &near).status, 404);
    world.wait(0);
    let members = json!({
        "address": ["acr:10.45.0.2", "acr:10.45.0.9"], "requestedAccuracy": 10, "frequency": 10, "duration": 25,
    });
    let (place, ..) =
        subscribe(&mut world, "periodic", "periodicNotificationSubscription", &members);
    let mut notices = Vec::new();
    for _ in 0..40 {
        notices.extend(world.wait(1_000));
    }
    let bodies = told(&notices, "subscriptionNotification");
    assert_eq!(bodies.len(), 2, "{notices:?}");
    let places = &bodies[0]["terminalLocation"];
    assert_eq!(
        [0, 1].map(|index| &places[index]["locationRetrievalStatus"]),
        ["Retrieved", "NotRetrieved"]
    );
    assert_eq!(world.get("viewer", &place).status, 404);
}

#[test]
fn lists_have_a_clients_own_subscriptions_whole() {
    let mut world = World::new();
    let members = json!({"address": "acr:10.45.0.2", "clientCorrelator": "7"});
    let (place, ..) = subscribe(&mut world, "userTracking", "userTrackingSubscription", &members);
    let path = format!("{ROOT}/userTracking");
    let of = |world: &mut World, who| {
        world.get(who, &path).body.unwrap()["notificationSubscriptionList"].clone()
    };
    let list = of(&mut world, "viewer");
    assert_eq!(list["resourceURL"], format!("{URL}{path}"));
    assert_eq!(list["userTrackingSubscription"][0]["clientCorrelator"], "7");
    assert_eq!(of(&mut world, "camera"), json!({"resourceURL": format!("{URL}{path}")}));
    assert_eq!(world.get("camera", &place).status, 403);
    // Callbacks are held to the same rules, and queries have the same facts.
    let aimed = json!({"userTrackingSubscription": {
        "address": "acr:10.45.0.2", "callbackReference": {"notifyURL": "http://127.0.0.1/"},
    }});
    assert_eq!(world.ask("viewer", "POST", &path, &aimed).0.status, 400);
    tell(&mut world, &network());
    let points = world.get("viewer", "/location/v2/queries/zones/north/accessPoints").body.unwrap();
    let point = &points["accessPointList"]["accessPoint"][0];
    assert_eq!(point["connectionType"], "Unknown");
    let url = point["resourceURL"].as_str().unwrap().strip_prefix(URL).unwrap();
    assert_eq!(world.get("viewer", url).body.unwrap()["accessPointInfo"], *point);
}

//! Documents, as every interface has them: made, read, listed, replaced and removed.

use crate::support::{SERVICES, SUPPORT, URL, World, location, service, setup};
use freshet_documents::limits::{DEPTH_MAX, PAGE_MAX};
use freshet_platform::limits::{
    BODY_BYTES_MAX, BYTES_PER_CLIENT_MAX, DOCUMENTS_PER_CLIENT_MAX, PAGE_BYTES_MAX,
    SUBSCRIPTIONS_PER_CLIENT_MAX,
};
use freshet_platform::{Call, Platform};
use serde_json::{Value, json};

fn services() -> String {
    format!("{SERVICES}/applications/camera/services")
}

fn subscription() -> Value {
    json!({
        "subscriptionType": "SerAvailabilityNotificationSubscription",
        "callbackReference": "http://192.0.2.7/events",
        "filteringCriteria": {"serNames": ["detector"]},
    })
}

#[test]
fn a_document_is_made_read_replaced_and_removed() {
    let mut world = World::new();
    let (made, _) = world.ask("camera", "POST", &services(), &service());
    assert_eq!(made.status, 201, "{made:?}");
    let place = location(&made);
    let body = made.body.unwrap();
    assert_eq!(body["_links"]["self"]["href"], format!("{URL}{place}"));
    assert!(body.get("transportId").is_none() && body["transportInfo"]["id"] == "rest");
    let read = world.get("camera", &place);
    assert_eq!((read.status, read.body.as_ref()), (200, Some(&body)));
    let mut other = service();
    other["version"] = "2.0".into();
    // The path's name wins.
    other["serInstanceId"] = "elsewhere".into();
    let (replaced, _) = world.ask("camera", "PUT", &place, &other);
    let replaced = replaced.body.unwrap();
    assert_eq!(
        (&replaced["version"], &replaced["serInstanceId"]),
        (&json!("2.0"), &body["serInstanceId"])
    );
    assert_eq!(world.ask("camera", "DELETE", &place, &Value::Null).0.status, 204);
    assert_eq!(world.get("camera", &place).status, 404);
    assert_eq!(world.ask("camera", "PUT", &place, &other).0.status, 404);
}

#[test]
fn a_change_that_does_not_know_the_last_one_is_refused() {
    let mut world = World::new();
    let place = location(&world.ask("camera", "POST", &services(), &service()).0);
    let etag = world.get("camera", &place).field("ETag").unwrap().to_owned();
    let (token, body) = (world.token("camera").to_owned(), service().to_string());
    let put = Call {
        method: "PUT",
        target: &place,
        authorization: Some(&token),
        if_match: Some(&etag),
        body: body.as_bytes(),
        ..Call::default()
    };
    assert_eq!(world.call(&put).0.status, 200);
    assert_eq!(world.call(&put).0.status, 412);
    let now = world.get("camera", &place).field("ETag").unwrap().to_owned();
    let weak = format!("W/{now}");
    assert_eq!(world.call(&Call { if_match: Some(&weak), ..put }).0.status, 412);
    let known = Call { if_none_match: Some(&weak), ..Call::get(&place, Some(&token)) };
    assert_eq!(world.call(&known).0.status, 304);
    let delete = Call { method: "DELETE", body: b"", ..put };
    assert_eq!(world.call(&delete).0.status, 412);
    let now = world.get("camera", &place).field("ETag").unwrap().to_owned();
    let known = Call { if_none_match: Some(&now), ..Call::get(&place, Some(&token)) };
    let (unchanged, _) = world.call(&known);
    assert_eq!((unchanged.status, unchanged.body), (304, None));
    assert_eq!(world.call(&Call { if_match: Some("*"), ..delete }).0.status, 204);
}

#[test]
fn lists_are_filtered_and_come_in_pages() {
    let mut world = World::new();
    for number in 0..PAGE_MAX + 10 {
        let mut one = service();
        one["serName"] = format!("s{}", number % 2).into();
        assert_eq!(world.ask("camera", "POST", &services(), &one).0.status, 201);
    }
    let all = |world: &mut World, query: &str| {
        let (mut target, mut found) = (format!("{SERVICES}/services{query}"), Vec::new());
        loop {
            let answer = world.get("viewer", &target);
            found.extend(answer.body.as_ref().unwrap().as_array().unwrap().clone());
            let Some(link) = answer.field("Link") else { return found };
            let next = link.strip_prefix(&format!("<{URL}")).unwrap();
            target = next.strip_suffix(">; rel=\"next\"").unwrap().to_owned();
        }
    };
    let odd = all(&mut world, "?ser_name=s1");
    assert_eq!(odd.len(), PAGE_MAX / 2 + 5);
    let ids: std::collections::BTreeSet<_> =
        odd.iter().map(|one| one["serInstanceId"].to_string()).collect();
    assert_eq!(ids.len(), odd.len());
    // The platform's own are there too.
    let own = all(&mut world, "?filter=(cont,serName,mec_)&fields=serName");
    let names: Vec<_> = own.iter().map(|one| one["serName"].as_str().unwrap()).collect();
    assert_eq!(names, ["mec_app_support", "mec_service_mgmt"]);
    // What has to be there, or is no object and no list, stays.
    for one in &own {
        assert!(one["version"].is_string() && one["state"].is_string(), "{one}");
    }
    let one = all(&mut world, "?ser_name=s1&size=1&fields=serCategory").remove(0);
    let without = all(&mut world, "?ser_name=s1&size=1&exclude_fields=serCategory").remove(0);
    assert!(one["serCategory"].is_object() && without.get("serCategory").is_none(), "{without}");
    let (one, without) = (one.as_object().unwrap(), without.as_object().unwrap());
    assert!(without.keys().all(|name| one.contains_key(name) || without[name].is_object()));
    assert_eq!(all(&mut world, "?size=7&filter=(in,serName,s0,s1)").len(), PAGE_MAX + 10);
    for misspelt in
        ["sername=x", "fields=sername", "exclude_fields=serCategory/nam", "exclude_fields=serName"]
    {
        let target = format!("{SERVICES}/services?{misspelt}");
        assert_eq!(world.get("viewer", &target).status, 400, "{misspelt}");
    }
    assert_eq!(
        world.get("viewer", &format!("{SERVICES}/services?nextpage_opaque_marker=*")).status,
        400
    );
}

#[test]
fn what_a_client_has_and_what_a_page_has_are_bounded_in_bytes() {
    let mut world = World::new();
    let mut large = service();
    large["serCategory"]["name"] = "x".repeat(250 << 10).into();
    let mut made = Vec::new();
    let refused = loop {
        let (answer, _) = world.ask("camera", "POST", &services(), &large);
        if answer.status != 201 {
            break answer;
        }
        made.push(location(&answer));
        assert!(made.len() <= BYTES_PER_CLIENT_MAX / (250 << 10), "{}", made.len());
    };
    assert_eq!(refused.status, 507, "{refused:?}");
    assert!(refused.body.unwrap()["detail"].as_str().unwrap().contains("bytes"));
    // One that is less takes its place, and then one that is as large as before.
    assert_eq!(world.ask("camera", "PUT", &made[0], &service()).0.status, 200);
    assert_eq!(world.ask("camera", "PUT", &made[0], &large).0.status, 200);
    assert_eq!(world.ask("camera", "POST", &services(), &large).0.status, 507);
    // Others have room of their own.
    let of_viewer = format!("{SERVICES}/applications/viewer/services");
    assert_eq!(world.ask("viewer", "POST", &of_viewer, &large).0.status, 201);
    let page = world.get("viewer", &format!("{SERVICES}/services"));
    assert!(page.field("Link").is_some());
    assert!(page.body.unwrap().to_string().len() <= PAGE_BYTES_MAX + (4 << 10));
}

#[test]
fn wrong_bodies_are_refused_with_the_place_of_each_mistake() {
    let mut world = World::new();
    let mut wrong = service();
    wrong["state"] = "GONE".into();
    wrong["serializer"] = 7.into();
    let (answer, _) = world.ask("camera", "POST", &services(), &wrong);
    let body = answer.body.clone().unwrap();
    assert_eq!((answer.status, answer.media_type()), (400, "application/problem+json"));
    let detail = body["detail"].as_str().unwrap();
    assert!(
        detail.contains("/state must be one of ACTIVE") && detail.contains("/serializer"),
        "{detail}"
    );
    let token = world.token("camera").to_owned();
    let services = services();
    let post =
        Call { method: "POST", target: &services, authorization: Some(&token), ..Call::default() };
    let body = service().to_string();
    for (call, status) in [
        (Call { body: b"{", ..post }, 400),
        (Call { body: b"", ..post }, 400),
        (Call { body: body.as_bytes(), content_type: Some("text/xml"), ..post }, 415),
        (
            Call { body: body.as_bytes(), accept: Some("text/html, application/json;q=0"), ..post },
            406,
        ),
        (Call { body: body.as_bytes(), accept: Some("text/html, */*;q=0.1"), ..post }, 201),
        (Call { body: body.as_bytes(), content_type: Some("*/*"), ..post }, 201),
        (Call { method: "PATCH", ..post }, 405),
        (Call { method: "BREW", ..post }, 405),
    ] {
        let answer = world.call(&call).0;
        assert_eq!(answer.status, status, "{call:?}");
        assert_eq!(answer.field("Allow"), (status == 405).then_some("GET, HEAD, POST"), "{call:?}");
    }
}

#[test]
fn bodies_that_are_meant_to_hurt_are_refused() {
    let mut world = World::new();
    let token = world.token("camera").to_owned();
    let services = services();
    let mut post = |body: &[u8]| {
        let call = Call {
            method: "POST",
            target: &services,
            authorization: Some(&token),
            body,
            ..Call::default()
        };
        world.call(&call).0.status
    };
    assert_eq!(post(&vec![b' '; BODY_BYTES_MAX + 1]), 413);
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        for depth in [DEPTH_MAX, 100, 127, 1000, BODY_BYTES_MAX / 16] {
            let text = format!("{}0{}", open.repeat(depth + 1), close.repeat(depth + 1));
            assert_eq!(post(text.as_bytes()), 400, "{depth}");
        }
    }
    let mut one = service();
    one["implSpecificInfo"] = Value::Null;
    let many = format!("[{}]", "{},".repeat(20_000) + "{}");
    assert_eq!(post(many.as_bytes()), 400);
    assert_eq!(post(&[0xff; 64]), 400);
}

#[test]
fn what_one_client_may_have_is_bounded() {
    let mut world = World::new();
    let place = format!("{SERVICES}/applications/camera/subscriptions");
    let statuses: Vec<u16> = (0..=SUBSCRIPTIONS_PER_CLIENT_MAX)
        .map(|_| world.ask("camera", "POST", &place, &subscription()).0.status)
        .collect();
    assert!(statuses[..SUBSCRIPTIONS_PER_CLIENT_MAX].iter().all(|status| *status == 201));
    assert_eq!(statuses[SUBSCRIPTIONS_PER_CLIENT_MAX], 403);
    // Others still may.
    let other = place.replace("camera", "viewer");
    assert_eq!(world.ask("viewer", "POST", &other, &subscription()).0.status, 201);
    let services = services();
    for _ in SUBSCRIPTIONS_PER_CLIENT_MAX..DOCUMENTS_PER_CLIENT_MAX {
        assert_eq!(world.ask("camera", "POST", &services, &service()).0.status, 201);
    }
    assert_eq!(world.ask("camera", "POST", &services, &service()).0.status, 507);
}

#[test]
fn a_callback_to_this_machine_is_refused() {
    let mut world = World::new();
    for uri in [
        "http://127.0.0.1/x",
        "http://[::1]:80/",
        "http://169.254.169.254/",
        "http://localhost/",
        "file:///etc/passwd",
    ] {
        let mut one = subscription();
        one["callbackReference"] = uri.into();
        let place = format!("{SERVICES}/applications/camera/subscriptions");
        assert_eq!(world.ask("camera", "POST", &place, &one).0.status, 400, "{uri}");
    }
}

#[test]
fn who_subscribed_is_told_what_the_filter_asks_for() {
    let mut world = World::new();
    let place = format!("{SERVICES}/applications/viewer/subscriptions");
    let (made, _) = world.ask("viewer", "POST", &place, &subscription());
    let subscribed = location(&made);
    let links = world.get("viewer", &place).body.unwrap();
    assert_eq!(links["_links"]["subscriptions"][0]["href"], format!("{URL}{subscribed}"));
    let kinds = |notices: &[freshet_platform::notify::Notice]| -> Vec<Value> {
        notices.iter().map(|one| one.body["serviceReferences"][0]["changeType"].clone()).collect()
    };
    let (made, notices) = world.ask("camera", "POST", &services(), &service());
    assert_eq!(kinds(&notices), ["ADDED"]);
    assert_eq!(notices[0].target.authority(), "192.0.2.7:80");
    assert_eq!(notices[0].body["_links"]["subscription"]["href"], format!("{URL}{subscribed}"));
    let place = location(&made);
    let mut other = service();
    other["state"] = "SUSPENDED".into();
    assert_eq!(kinds(&world.ask("camera", "PUT", &place, &other).1), ["STATE_CHANGED"]);
    assert_eq!(kinds(&world.ask("camera", "PUT", &place, &other).1), Vec::<Value>::new());
    other["version"] = "3".into();
    assert_eq!(kinds(&world.ask("camera", "PUT", &place, &other).1), ["ATTRIBUTES_CHANGED"]);
    assert_eq!(kinds(&world.ask("camera", "DELETE", &place, &Value::Null).1), ["REMOVED"]);
    other["serName"] = "else".into();
    assert!(world.ask("camera", "POST", &services(), &other).1.is_empty());
    assert_eq!(world.ask("viewer", "DELETE", &subscribed, &Value::Null).0.status, 204);
    assert!(world.ask("camera", "POST", &services(), &service()).1.is_empty());
}

/// All that is due in one moment is one record: were that too long, nothing would be due any more for anybody.
#[test]
fn large_services_that_fall_silent_in_one_moment_are_all_inactive() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::with(Platform::open(setup(), &folder.path().join("journal")).unwrap());
    let mut large = service();
    large["serCategory"]["name"] = "x".repeat(250 << 10).into();
    large["livenessInterval"] = 1.into();
    let mut places = Vec::new();
    for _ in 0..18 {
        let place = location(&world.ask("camera", "POST", &services(), &large).0);
        let sign = json!({"state": "ACTIVE"});
        world.ask("camera", "PATCH", &format!("{place}/liveness"), &sign);
        places.push(place);
    }
    world.wait(3000);
    for place in places {
        assert_eq!(world.get("camera", &place).body.unwrap()["state"], "INACTIVE");
    }
}

/// What a client has beside what is known of a document is kept, and means nothing.
#[test]
fn what_is_no_subscription_has_no_deadline() {
    let mut world = World::new();
    let past = json!({"seconds": 1, "nanoSeconds": 0});
    let soon = json!({"seconds": world.now_ms / 1000 + 3, "nanoSeconds": 0});
    let mut registration = json!({"appName": "radar"});
    let (mut one, mut subscribed) = (service(), subscription());
    for document in [&mut registration, &mut one] {
        document["expiryDeadline"] = past.clone();
    }
    subscribed["expiryDeadline"] = soon;
    let subscriptions = format!("{SERVICES}/applications/camera/subscriptions");
    for (collection, document, status) in [
        (format!("{SUPPORT}/registrations"), registration, 200),
        (services(), one, 200),
        (subscriptions, subscribed, 404),
    ] {
        let place = location(&world.ask("camera", "POST", &collection, &document).0);
        world.wait(1000);
        assert_eq!(world.get("camera", &place).status, status, "{place}");
    }
}

#[test]
fn a_journal_that_cannot_be_written_anew_is_no_reason_to_refuse() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let mut world = World::with(Platform::open(setup(), &path).unwrap());
    // In the way of what is written beside.
    std::fs::create_dir(path.with_extension("new")).unwrap();
    let place = location(&world.ask("camera", "POST", &services(), &service()).0);
    for _ in 0..1100 {
        assert_eq!(world.ask("camera", "PUT", &place, &service()).0.status, 200);
    }
    let etag = world.get("camera", &place).field("ETag").map(str::to_owned);
    drop(world);
    let mut world = World::with(Platform::open(setup(), &path).unwrap());
    assert_eq!(world.get("camera", &place).field("ETag").map(str::to_owned), etag);
}

#[test]
fn what_was_promised_outlives_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let mut world = World::with(Platform::open(setup(), &path).unwrap());
    let place = location(&world.ask("camera", "POST", &services(), &service()).0);
    let rule = format!("{SUPPORT}/applications/camera/traffic_rules/video");
    let mut active = crate::support::rule();
    active["state"] = "ACTIVE".into();
    assert_eq!(world.ask("camera", "PUT", &rule, &active).0.status, 200);
    let [document, etag] = {
        let read = world.get("camera", &place);
        [read.body.as_ref().unwrap().to_string(), read.field("ETag").unwrap_or("").to_owned()]
    };
    drop(world);
    let mut world = World::with(Platform::open(setup(), &path).unwrap());
    let read = world.get("camera", &place);
    assert_eq!(read.body.as_ref().unwrap().to_string(), document);
    assert_eq!(world.get("camera", &rule).body.unwrap()["state"], "ACTIVE");
    // A version of before is never taken for another.
    world.ask("camera", "PUT", &place, &service());
    assert_ne!(world.get("camera", &place).field("ETag"), Some(etag.as_str()));
    assert_eq!(world.platform.packet_path().rules[0]["trafficRuleId"], "camera/video");
    drop(world);
    // The configuration goes before what an app made of it.
    let mut without = setup();
    without.apps.remove("camera");
    let world = World::with(Platform::open(without, &path).unwrap());
    assert_eq!(world.platform.packet_path().rules, json!([]));
}

//! What is asked for in a way that means nothing, or something else than was meant: refused, with its place.

use crate::support::{SERVICES, World, location, service};
use freshet_platform::Call;
use serde_json::{Value, json};

const CALLBACK: &str = "http://192.0.2.7/events";

fn services() -> String {
    format!("{SERVICES}/applications/camera/services")
}

/// The status and what is said to a request.
fn said(world: &mut World, method: &str, target: &str, body: &Value) -> (u16, String) {
    let answer = world.ask("camera", method, target, body).0;
    let body = answer.body.unwrap_or_default();
    (answer.status, body["detail"].as_str().unwrap_or_default().to_owned())
}

/// RFC 9110 §13.1.2: who wants to change what is not there, or not this, changes nothing.
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

#[test]
fn values_of_filters_may_have_any_characters_and_as_many_as_the_operator_takes() {
    let mut world = World::new();
    let names = ["a", "a,b", "c;d", "it's", "f)", "'", "A"];
    for name in names {
        let mut one = service();
        one["serName"] = name.into();
        assert_eq!(world.ask("camera", "POST", &services(), &one).0.status, 201);
    }
    let mut found = |query: &str| -> Result<Vec<String>, u16> {
        let answer = world.get("camera", &format!("{}?{query}", services()));
        let list = answer.body.filter(|_| answer.status == 200).ok_or(answer.status)?;
        let list = list.as_array().unwrap().iter();
        let mut names: Vec<String> =
            list.map(|one| one["serName"].as_str().unwrap().to_owned()).collect();
        names.sort_unstable();
        Ok(names)
    };
    let mut wants = |query: &str, names: &[&str]| {
        assert_eq!(
            found(query),
            Ok(names.iter().map(|&name| name.to_owned()).collect()),
            "{query}"
        );
    };
    wants("filter=(eq,serName,'a,b')", &["a,b"]);
    wants("filter=(in,serName,'c;d','a,b',a)", &["a", "a,b", "c;d"]);
    wants("filter=(eq,serName,'c;d');(eq,state,'ACTIVE')", &["c;d"]);
    wants("filter=(eq,serName,'it''s')", &["it's"]);
    wants("filter=(eq,serName,it's)", &["it's"]);
    wants("filter=(eq,serName,'f)')", &["f)"]);
    wants("filter=(eq,serName,f))", &["f)"]);
    wants("filter=(eq,serName,'''')", &["'"]);
    wants("filter=(eq,serName,%27a%2Cb%27)", &["a,b"]);
    wants("filter=(cont,serName,'b','s')", &["a,b", "it's"]);
    // Commas that are in a value are written as such.
    wants("ser_name=a%2Cb", &["a,b"]);
    wants("ser_name=a,A", &["A", "a"]);
    for wrong in [
        "(eq,serName,a,A)",
        "(neq,serName,a,A)",
        "(gt,version,3,7)",
        "(lte,version,3,7)",
        "(eq,serName,'a)",
        "(eq,serName,'a'b)",
        "(eq,serName,''')",
    ] {
        assert_eq!(found(&format!("filter={wrong}")), Err(400), "{wrong}");
    }
}

#[test]
fn a_value_of_a_query_that_its_attribute_cannot_have_is_refused() {
    let mut world = World::new();
    world.ask("camera", "POST", &services(), &service());
    for (query, named) in [
        ("consumed_local_only=yes", "`consumed_local_only` must be true or false"),
        ("is_local=1", "`is_local` must be true or false"),
        ("scope_of_locality=MEC_HOST,NOWHERE", "`scope_of_locality` must be one of MEC_SYSTEM"),
        ("filter=(eq,state,GONE)", "`state` must be one of ACTIVE"),
        ("filter=(in,livenessInterval,1,soon)", "`livenessInterval` must be a whole number"),
        ("filter=(neq,isLocal,no)", "`isLocal` must be true or false"),
    ] {
        let (status, detail) =
            said(&mut world, "GET", &format!("{}?{query}", services()), &Value::Null);
        assert!(status == 400 && detail.contains(named), "{query}: {status} {detail}");
    }
    for query in [
        "is_local=true",
        "is_local=TRUE",
        "scope_of_locality=MEC_HOST,ZONE",
        "filter=(gt,livenessInterval,3)",
        "filter=(cont,state,ACT)",
    ] {
        let target = format!("{}?{query}", services());
        assert_eq!(world.get("camera", &target).status, 200, "{query}");
    }
}

#[test]
fn a_subscription_that_would_be_over_at_once_is_refused() {
    let mut world = World::new();
    let of = |kind: &str, members: Value| {
        let mut one = json!({"subscriptionType": kind, "callbackReference": CALLBACK});
        one.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        one
    };
    for (path, around, mut one) in [
        ("/rni/v2/subscriptions", "", of("MeasTaSubscription", json!({"filterCriteriaAssoc": {}}))),
        (
            "/amsi/v1/subscriptions",
            "",
            of(
                "MobilityProcedureSubscription",
                json!({"filterCriteria": {"appInstanceId": "camera"}}),
            ),
        ),
        (
            "/wai/v2/subscriptions",
            "",
            of("AssocStaSubscription", json!({"apId": {"bssid": "02:00:00:00:00:01"}})),
        ),
        (
            "/fai/v1/subscriptions",
            "",
            of("OnuAlarmSubscription", json!({"filterCriteriaOnuAlarm": {"onuId": ["onu-2"]}})),
        ),
        (
            "/vis/v2/subscriptions",
            "",
            of("V2xMsgSubscription", json!({"filterCriteria": {"stdOrganization": "ETSI"}})),
        ),
        (
            "/location/v3/subscriptions/zones",
            "zoneLocationEventSubscription",
            of("ZoneLocationEventSubscription", json!({"zoneId": "north"})),
        ),
    ] {
        let mut at = |seconds: u64| {
            one["expiryDeadline"] = json!({"seconds": seconds, "nanoSeconds": 0});
            if around.is_empty() { one.clone() } else { json!({ around: one }) }
        };
        let now_s = world.now_ms / 1000;
        let (later, over) = (at(now_s + 60), [at(0), at(1), at(now_s)]);
        let (made, _) = world.ask("camera", "POST", path, &later);
        assert_eq!(made.status, 201, "{path}: {made:?}");
        let place = location(&made);
        for over in over {
            for (method, target) in [("POST", path), ("PUT", &*place)] {
                let (status, detail) = said(&mut world, method, target, &over);
                assert!(
                    status == 400 && detail.contains("/expiryDeadline"),
                    "{method} {target}: {status} {detail}"
                );
            }
        }
        assert_eq!(world.ask("camera", "PUT", &place, &later).0.status, 200, "{path}");
    }
}

#[test]
fn what_the_schemas_of_etsi_refuse_is_refused() {
    let mut world = World::new();
    let vehicles = |kind: &str, cell: Value| {
        let area = json!({"geoArea": {"latitude": 60.0, "longitude": 24.0}});
        let criteria = match kind {
            "ProvChgUuUniSubscription" => {
                json!({"v2xApplicationServer": {"ipAddress": "192.0.2.8", "udpPort": "9"}})
            }
            "ProvChgPc5Subscription" => json!({"dstLayer2Id": "1"}),
            _ => json!({"v2xServerUsd": {
                "sdpInfo": {"ipMulticastAddress": "233.252.0.1", "portNumber": "9"},
                "serviceAreaIdentifier": ["1"],
                "tmgi": {"mbmsServiceId": "1", "mcc": "001", "mnc": "01"},
            }}),
        };
        let mut one = json!({"subscriptionType": kind, "callbackReference": CALLBACK, "filterCriteria": criteria});
        one["filterCriteria"]["locationInfo"] = area;
        one["filterCriteria"]["neighbourCellInfo"] = json!([cell]);
        one
    };
    let plmn = json!({"mcc": "001", "mnc": "01"});
    let named = json!({"ecgi": {"cellId": {"cellId": "1"}, "plmn": plmn}, "plmn": plmn});
    let cell = |name: &str, value: Value| {
        let mut cell = named.clone();
        cell[name] = value;
        cell
    };
    let mut multicast = cell("pci", 1.into());
    multicast["mbmsServiceAreaIdentity"] = json!(["1"]);
    let measured = |trigger: i64| json!({"subscriptionType": "MeasRepUeSubscription", "callbackReference": CALLBACK, "filterCriteriaAssocTri": {"trigger": [trigger]}});
    let session = |quality: Value| json!({"appInsId": "camera", "requestType": 0, "qosD": quality, "mtsMode": 0, "trafficDirection": "00"});
    let allocation = |bits: &str| json!({"appInsId": "camera", "requestType": 0, "fixedAllocation": bits, "allocationDirection": "00"});
    let (uni, mbms, pc5) =
        ("ProvChgUuUniSubscription", "ProvChgUuMbmsSubscription", "ProvChgPc5Subscription");
    let neighbours = "/filterCriteria/neighbourCellInfo/0/";
    for (path, body, wrong) in [
        ("/vis/v2/subscriptions", vehicles(uni, json!({"nonsense": 1})), Some("")),
        ("/vis/v2/subscriptions", vehicles(uni, named.clone()), Some(neighbours)),
        ("/vis/v2/subscriptions", vehicles(uni, cell("pci", 7.into())), None),
        ("/vis/v2/subscriptions", vehicles(mbms, cell("pci", 7.into())), Some(neighbours)),
        ("/vis/v2/subscriptions", vehicles(mbms, multicast), None),
        ("/vis/v2/subscriptions", vehicles(pc5, cell("pci", 7.into())), Some(neighbours)),
        ("/vis/v2/subscriptions", vehicles(pc5, cell("siV2xConfig", json!({}))), None),
        (
            "/rni/v2/subscriptions",
            measured(2_147_483_648),
            Some("/filterCriteriaAssocTri/trigger/0 must be one of"),
        ),
        ("/rni/v2/subscriptions", measured(61), None),
        ("/mts/v1/mts_sessions", session(json!({"priority": 256})), Some("/qosD/priority")),
        ("/mts/v1/mts_sessions", session(json!({"maxLoss": 256})), Some("/qosD/maxLoss")),
        ("/mts/v1/mts_sessions", session(json!({"priority": 255, "maxLoss": 3})), None),
        ("/bwm/v1/bw_allocations", allocation("+5"), Some("/fixedAllocation")),
        ("/bwm/v1/bw_allocations", allocation("5"), None),
    ] {
        let (status, detail) = said(&mut world, "POST", path, &body);
        assert_eq!(status, if wrong.is_some() { 400 } else { 201 }, "{body}: {detail}");
        assert!(wrong.is_none_or(|place| detail.contains(place)), "{body}: {detail}");
    }
}

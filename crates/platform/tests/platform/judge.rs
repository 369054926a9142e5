//! ETSI's own schemas as a judge. They are not part of this project: `MEC_OPENAPI` names a folder with
//! the published files and their list of corrections.

use crate::skip;
use crate::support::{SERVICES, SUPPORT, World, location, name, rule, service};
use freshet_radio::simulator::Simulator;
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::Command;

/// Files of ETSI for our interfaces.
const FILES: [(&str, &str); 15] = [
    (SUPPORT, "MecAppSupportApi.yaml"),
    (SERVICES, "MecServiceMgmtApi.yaml"),
    ("/rni/v2", "RniAPI.yaml"),
    ("/location/v3", "LocationAPI.yaml"),
    ("/ui/v1", "UEidentityAPI.yaml"),
    ("/app_pkgm/v1", "MEC01002_AppPkgMgmt.yaml"),
    ("/app_lcm/v1", "MEC01002_AppLcm.yaml"),
    ("/granting/v1", "MEC01002_AppGrant.yaml"),
    ("/bwm/v1", "BwManagementApi.yaml"),
    ("/mts/v1", "TrafficSteeringApi.yaml"),
    ("/dev_app/v1", "UEAppInterfaceApi.yaml"),
    ("/amsi/v1", "MEC021_AppMobilityService.yaml"),
    ("/wai/v2", "WlanInformationApi.yaml"),
    ("/fai/v1", "MEC029_FAI.yaml"),
    ("/vis/v2", "MEC030_V2XInformationServices.yaml"),
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
    exercise_documents(world);
    exercise_packages(world);
    crate::lives::exercise(world);
    exercise_networks(world);
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
        for version in ["v2", "v3"] {
            world.get("operator", &format!("/location/{version}/queries/{path}"));
        }
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
    let by_time = json!({"userLocationPeriodicSubscription": {
        "subscriptionType": "UserLocationPeriodicSubscription", "callbackReference": callback, "address": one,
        "periodicEventInfo": {"reportingAmount": 3, "reportingInterval": 10},
    }});
    let of_status = json!({"zoneStatusSubscription": {
        "subscriptionType": "ZoneStatusSubscription", "callbackReference": callback, "zoneId": "north",
        "upperNumberOfUsersZoneThreshold": 3,
    }});
    let of_area = json!({"userAreaSubscription": {
        "subscriptionType": "UserAreaSubscription", "callbackReference": callback, "addressList": [one],
        "areaDefine": {"shape": 1, "radius": 100, "points": [{"latitude": 60.17, "longitude": 24.94}]},
        "trackingAccuracy": 10.0,
    }});
    let of_distance = json!({"userDistanceSubscription": {
        "subscriptionType": "UserDistanceSubscription", "callbackReference": callback,
        "monitoredAddress": [one, other], "checkImmediate": true, "criteria": "AllWithinDistance",
        "distance": 100.0, "trackingAccuracy": 10.0,
    }});
    for (collection, body) in [
        ("/rni/v2/subscriptions", of_cells),
        ("/location/v3/subscriptions/users", of_user),
        ("/location/v3/subscriptions/users", by_time),
        ("/location/v3/subscriptions/zones", of_zone),
        ("/location/v3/subscriptions/zones", of_status),
        ("/location/v3/subscriptions/area", of_area),
        ("/location/v3/subscriptions/distance", of_distance),
    ] {
        make_and_remove(world, collection, &body);
    }
    exercise_earlier_location(world, &one);
}

/// Subscriptions of the earlier version of location, to a client.
fn exercise_earlier_location(world: &mut World, client: &str) {
    let near = json!({"trackingAccuracy": 10, "checkImmediate": false, "frequency": 10});
    for (place, kind, members) in [
        ("zonalTraffic", "zonalTrafficSubscription", json!({"zoneId": "north"})),
        ("userTracking", "userTrackingSubscription", json!({"address": client})),
        (
            "zoneStatus",
            "zoneStatusSubscription",
            json!({"zoneId": "north", "numberOfUsersAPThreshold": 9}),
        ),
        (
            "area/circle",
            "circleNotificationSubscription",
            json!({
                "address": [client], "latitude": 60.17, "longitude": 24.94, "radius": 100,
                "enteringLeavingCriteria": "Entering",
            }),
        ),
        (
            "distance",
            "distanceNotificationSubscription",
            json!({"monitoredAddress": [client], "criteria": "AllWithinDistance", "distance": 100}),
        ),
        (
            "periodic",
            "periodicNotificationSubscription",
            json!({"address": [client], "requestedAccuracy": 10}),
        ),
    ] {
        let mut one = near.clone();
        one["callbackReference"] = json!({"notifyURL": "http://192.0.2.7/events"});
        one.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        make_and_remove(world, &format!("/location/v2/subscriptions/{place}"), &json!({kind: one}));
    }
}

/// Makes a document, uses all that can be done with it, and removes it.
fn make_and_remove(world: &mut World, collection: &str, body: &Value) {
    let place = location(&world.ask("operator", "POST", collection, body).0);
    world.get("operator", collection);
    world.get("operator", &place);
    world.ask("operator", "PUT", &place, body);
    world.ask("operator", "POST", collection, &json!({"wrong": true}));
    world.ask("operator", "DELETE", &place, &Value::Null);
}

/// Interfaces that keep what apps and devices ask for.
fn exercise_documents(world: &mut World) {
    let allocation = json!({
        "appInsId": "camera", "requestType": 0, "fixedAllocation": "1000", "allocationDirection": "00",
    });
    let place = location(&world.ask("operator", "POST", "/bwm/v1/bw_allocations", &allocation).0);
    let deltas = json!({
        "allocationId": place.rsplit('/').next(), "appInsId": "camera", "requestType": 0,
        "fixedAllocation": "2000",
    });
    world.ask("operator", "PATCH", &place, &deltas);
    make_and_remove(world, "/bwm/v1/bw_allocations", &allocation);
    let session = json!({
        "appInsId": "camera", "requestType": 1, "qosD": {"minTpt": 10}, "mtsMode": 4,
        "flowFilter": [{"dstIp": "10.99.0.2", "dstPort": 80, "protocol": 6}], "trafficDirection": "00",
    });
    make_and_remove(world, "/mts/v1/mts_sessions", &session);
    world.get("operator", "/mts/v1/mts_capability_info");
    let info = json!({
        "appName": "detector", "appProvider": "freshet", "appDVersion": "1", "userAppInstanceInfo": [],
    });
    let context = json!({"associateDevAppId": "phone", "appInfo": info});
    world.get("operator", "/dev_app/v1/app_list");
    let made = world.ask("operator", "POST", "/dev_app/v1/app_contexts", &context).0;
    let place = location(&made);
    world.ask("operator", "PUT", &place, made.body.as_ref().unwrap());
    world.ask("operator", "DELETE", &place, &Value::Null);
    world.ask("operator", "POST", "/dev_app/v1/obtain_app_loc_availability", &context);
    let registration = json!({
        "serviceConsumerId": {"appInstanceId": "camera"}, "expiryTime": 60,
        "deviceInformation": [{"associateId": "10.45.0.2", "contextTransferState": 0}],
    });
    make_and_remove(world, "/amsi/v1/app_mobility_services", &registration);
    let collection = "/amsi/v1/app_mobility_services";
    let place = location(&world.ask("operator", "POST", collection, &registration).0);
    world.ask("operator", "POST", &format!("{place}/deregister_task"), &Value::Null);
    let moves = json!({
        "subscriptionType": "MobilityProcedureSubscription", "callbackReference": "http://192.0.2.7/",
        "filterCriteria": {"mobilityStatus": [1]},
    });
    make_and_remove(world, "/amsi/v1/subscriptions", &moves);
    world.get("operator", "/amsi/v1/queries/adjacent_app_instances");
    let moved = json!({
        "notificationType": "MobilityProcedureNotification", "associateId": ["10.45.0.2"],
        "mobilityStatus": 2, "_links": {"subscription": {"href": "http://mec.example/x"}},
    });
    world.ask("operator", "POST", "/amsi/v1/user_defined_notification", &moved);
}

/// Packages, as if their archives had been received.
fn exercise_packages(world: &mut World) {
    let collection = "/app_pkgm/v1/onboarded_app_packages";
    let subscription = json!({
        "subscriptionType": "AppPackageOnBoardingSubscription", "callbackUri": "http://192.0.2.7/events",
    });
    let subscriptions = "/app_pkgm/v1/subscriptions";
    let place = location(&world.ask("operator", "POST", subscriptions, &subscription).0);
    world.get("operator", subscriptions);
    world.get("operator", &place);
    world.ask("operator", "DELETE", &place, &Value::Null);
    let (made, _) = world.ask("operator", "POST", collection, &crate::packages::named());
    let place = location(&made);
    world.ask("operator", "PUT", &format!("{place}/package_content"), &Value::Null);
    crate::packages::receive(world, &place, Ok((crate::packages::descriptor(), None)));
    world.get("operator", collection);
    for below in ["", "/appd", "/package_content"] {
        world.get("operator", &format!("{place}{below}"));
    }
    world.ask("operator", "PATCH", &place, &json!({"operationalState": "DISABLED"}));
    let told = json!({
        "id": "1", "notificationType": "AppPackageEnabled", "subscriptionId": "1",
        "timeStamp": {"seconds": 1, "nanoSeconds": 0}, "appPkgId": "1", "appDId": "cache-d",
        "operationalState": "ENABLED", "_links": {"subscription": {"href": "http://mec.example/x"}},
    });
    world.ask("operator", "POST", "/app_pkgm/v1/user_defined_notification", &told);
    world.ask("operator", "POST", collection, &json!({"wrong": true}));
    world.ask("operator", "DELETE", &place, &Value::Null);
}

/// Interfaces that rest on other networks, simulated here.
fn exercise_networks(world: &mut World) {
    let mut simulator = Simulator::new(1, 200);
    simulator.report(world.now_ms);
    for (feed, report) in simulator.others() {
        world.ask("operator", "PUT", &format!("/mec_platform/v1/{feed}"), &report);
    }
    for path in [
        "/wai/v2/queries/ap/ap_information",
        "/wai/v2/queries/sta/sta_information",
        "/fai/v1/queries/fa_info",
        "/fai/v1/queries/device_info?deviceId=device-1",
        "/fai/v1/queries/cable_line_info",
        "/fai/v1/queries/optical_network_info",
        "/vis/v2/queries/uu_unicast_provisioning_info?location_info=ecgi,0010100",
        "/vis/v2/queries/uu_mbms_provisioning_info?location_info=ecgi,0010100",
        "/vis/v2/queries/pc5_provisioning_info?location_info=latitude,60.17,longitude,24.94",
        "/vis/v2/queries/pc5_provisioning_info?location_info=ecgi,none",
    ] {
        world.get("operator", path);
    }
    let place = json!({"geoArea": {"latitude": 60.17, "longitude": 24.94}});
    let message = json!({
        "msgContent": "aGVsbG8=", "msgRepresentationFormat": "base64",
        "msgPropertiesValues": {
            "locationInfo": place, "msgProtocolVersion": 1, "msgType": "1", "stdOrganization": "ETSI",
        },
    });
    world.ask("operator", "POST", "/vis/v2/publish_v2x_message", &message);
    let servers = json!({"locationInfo": [place], "v2xMsgDistributionServer": [
        {"infoProtocol": {"msgProtocol": [0], "protImplementation": "any"}},
    ]});
    world.ask("operator", "POST", "/vis/v2/provide_v2x_msg_distribution_server_info", &servers);
    let quality = json!({
        "locationGranularity": "100 m", "predictionTarget": "SINGLE_UE_PREDICTION",
        "qos": {"stream": [{"qosKpi": [{"kpiName": "DL bitrate", "kpiValue": "?"}]}]},
        "routes": [{"routeInfo": [{"location": place}, {"location": place}]}],
    });
    world.ask("operator", "POST", "/vis/v2/provide_predicted_qos", &quality);
    let callback = "http://192.0.2.7/events";
    for (collection, body) in [
        (
            "/wai/v2/subscriptions",
            json!({
                "subscriptionType": "AssocStaSubscription", "callbackReference": callback,
                "apId": {"bssid": "02:00:00:00:00:01"},
            }),
        ),
        (
            "/wai/v2/measurements",
            json!({
                "measurementId": "m", "href": "x", "staId": [{"macId": "02:00:00:01:00:01"}],
            }),
        ),
        (
            "/fai/v1/subscriptions",
            json!({
                "subscriptionType": "OnuAlarmSubscription", "callbackReference": callback,
                "filterCriteriaOnuAlarm": {"onuId": ["onu-2"]},
            }),
        ),
        (
            "/vis/v2/subscriptions",
            json!({
                "subscriptionType": "V2xMsgSubscription", "callbackReference": callback,
                "filterCriteria": {"stdOrganization": "ETSI", "msgType": ["1"]},
            }),
        ),
    ] {
        make_and_remove(world, collection, &body);
    }
    let area = json!({"areaType": "CIRCLE", "center": {"latitude": 60.17, "longitude": 24.94}, "radius": 2000});
    let device = json!({"ipv4Address": {"publicAddress": "10.45.0.2"}});
    let question = json!({"device": device, "area": area, "maxAge": 60});
    world.ask("operator", "POST", "/location-verification/v1/verify", &question);
    let claim = json!({"latitude": 60.17, "longitude": 24.94});
    world.ask("operator", "PUT", "/claims/v1/clients/10.45.0.2", &claim);
    world.get("operator", "/claims/v1/clients/10.45.0.2");
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

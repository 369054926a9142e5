//! Networks beside the simulated one: three wireless access points that walkers come by, lines of a few
//! homes, and what vehicles are told.

use super::{POWER_DBM, cell_id, position};
use freshet_documents::time;
use serde_json::{Value, json};

/// Who says so.
const SOURCE: &str = "simulator";
/// Where access points are, in metres from the middle.
const POINTS: [[f64; 2]; 3] = [[120.0, 60.0], [-150.0, 90.0], [40.0, -180.0]];
/// How far an access point is heard, in metres.
const HEARD_M: f64 = 90.0;
/// Seconds after which the state of a line repeats, and how long of them it is in error.
const LINE_TURN_S: u64 = 300;
const LINE_ERROR_S: u64 = 10;
const HOMES: [(&str, [f64; 2]); 3] =
    [("00100", [60.0, 200.0]), ("00120", [-220.0, 40.0]), ("00140", [180.0, -120.0])];

fn bssid(index: usize) -> String {
    format!("02:00:00:00:00:{:02x}", index + 1)
}

/// Power of an access point at a distance, in dBm: 20 dBm, with a loss of 40 dB at the first metre and 30
/// for each factor of ten (an office or a street, ITU-R P.1238).
fn rssi_dbm(distance_m: f64) -> f64 {
    20.0 - 40.0 - 30.0 * distance_m.max(1.0).log10()
}

/// Access points and the stations at them; positions are in metres from the middle.
pub(super) fn wlan(positions: &[[f64; 2]], now_ms: u64) -> Value {
    let stamp = time::stamp(now_ms);
    let heard = positions.iter().enumerate().filter_map(|(index, [x, y])| {
        let distances =
            POINTS.iter().enumerate().map(|(point, [a, b])| (point, (x - a).hypot(y - b)));
        let (point, distance_m) = distances.min_by(|one, other| one.1.total_cmp(&other.1))?;
        (distance_m <= HEARD_M).then_some((index, point, distance_m))
    });
    let heard: Vec<(usize, usize, f64)> = heard.collect();
    let stations: Vec<Value> = heard
        .iter()
        .map(|(index, point, distance_m)| {
            let rssi = rssi_dbm(*distance_m);
            // 20 MHz and 802.11ac: from 6.5 to 86.7 Mbit/s, by the power over −82 dBm.
            let rate_kbps = (6_500.0 + (rssi + 82.0).clamp(0.0, 30.0) / 30.0 * 80_200.0) as u64;
            json!({
                "timeStamp": stamp,
                "staId": {
                    "macId": format!("02:00:00:01:00:{:02x}", index + 1),
                    "ipAddress": [format!("10.45.0.{}", index + 2)],
                },
                "channel": 36,
                "apAssociated": { "bssid": bssid(*point), "ssid": ["freshet"] },
                "rssi": { "rssi": rssi.round() as i64 },
                "staDataRate": {
                    "staLastDataDownlinkRate": rate_kbps,
                    "staLastDataUplinkRate": rate_kbps / 2,
                },
            })
        })
        .collect();
    let points: Vec<Value> = (0..POINTS.len())
        .map(|point| {
            let count = heard.iter().filter(|(_, other, _)| *other == point).count();
            json!({
                "timeStamp": stamp,
                "apId": { "bssid": bssid(point), "ssid": ["freshet"] },
                "channel": 36,
                "bssLoad": { "staCount": count, "channelUtilization": (20 * count).min(255), "availAdmCap": 0 },
            })
        })
        .collect();
    json!({ "source": SOURCE, "apInfo": points, "staInfo": stations })
}

/// Lines of homes: the last has an error from time to time, and its ONU an alarm with it.
pub(super) fn fixed(now_ms: u64, run_s: u64) -> Value {
    let stamp = time::stamp(now_ms);
    let is_broken = run_s % LINE_TURN_S >= LINE_TURN_S - LINE_ERROR_S;
    let place = |(code, at): &(&str, [f64; 2])| {
        let [latitude, longitude] = position(*at);
        json!({ "latitude": latitude, "longitude": longitude, "postalCode": code })
    };
    let last = HOMES.len() - 1;
    let numbered = || HOMES.iter().enumerate();
    let access = numbered().map(|(_, home)| {
        json!({
            "timeStamp": stamp, "customerPremisesInfo": place(home), "lastMileTech": 6,
            "interfaceType": 2, "dsbw": 1000, "usbw": 500, "latency": 4,
        })
    });
    let devices = numbered().map(|(index, _)| {
        let is_down = is_broken && index == last;
        json!({
            "timeStamp": stamp, "gwId": format!("gw-{index}"), "deviceId": format!("device-{index}"),
            "deviceStatus": if is_down { 3 } else { 1 }, "upTime": run_s, "iPConnectionUpTime": run_s,
            "totalBytesSent": run_s * 12_500, "totalBytesReceived": run_s * 250_000,
            "totalPacketsSent": run_s * 100, "totalPacketsReceived": run_s * 200,
        })
    });
    let cable = json!({
        "timeStamp": stamp, "customerPremisesInfo": place(&HOMES[0]), "cmId": "cm-0",
        "cmStatus": {
            "ifIndex": "1", "cmRegState": if is_broken { 2 } else { 12 }, "resets": run_s / LINE_TURN_S,
            "lostSyncs": run_s / LINE_TURN_S, "invalidRegRsps": 0,
            "energyMgt1x1OperStatus": false, "emDlsOperStatus": false,
        },
    });
    let optical = numbered().map(|(index, home)| {
        json!({
            "timeStamp": stamp, "customerPremisesInfo": place(home), "ponSYS_ID": "pon-0",
            "onuId": format!("onu-{index}"), "ponTech": 4,
            "operationalState": u8::from(is_broken && index == last), "dsRate": 2, "usRate": 3,
        })
    });
    let alarm = json!({
        "onuId": format!("onu-{last}"), "customerPremisesInfo": [place(&HOMES[last])], "alarm": 0,
    });
    json!({
        "source": SOURCE,
        "faInfo": access.collect::<Vec<_>>(),
        "deviceInfo": devices.collect::<Vec<_>>(),
        "cableLineInfo": [cable],
        "ponInfo": optical.collect::<Vec<_>>(),
        "onuAlarms": if is_broken { vec![alarm] } else { Vec::new() },
        "aniAlarms": [],
    })
}

/// What vehicles are told: the same servers at each site, and the bit rate that the mean power there lets
/// expect, without shadowing.
pub(super) fn vehicles(sites: &[[f64; 2]]) -> Value {
    let at = |index: usize| {
        let [latitude, longitude] = position(sites[index]);
        json!({
            "ecgi": { "cellId": { "cellId": cell_id(index) }, "plmn": { "mcc": "001", "mnc": "01" } },
            "geoArea": { "latitude": latitude, "longitude": longitude },
        })
    };
    let each = |of: &dyn Fn(usize) -> Value| (0..sites.len()).map(of).collect::<Vec<Value>>();
    let unicast = each(&|index| {
        json!({
            "locationInfo": at(index),
            "v2xApplicationServer": { "ipAddress": "10.99.0.30", "udpPort": "4242" },
        })
    });
    let mbms = each(&|index| {
        json!({
            "locationInfo": at(index),
            "v2xServerUsd": {
                "sdpInfo": { "ipMulticastAddress": "239.1.2.3", "portNumber": "4243" },
                "serviceAreaIdentifier": ["1"],
                "tmgi": { "mbmsServiceId": "1", "mcc": "001", "mnc": "01" },
            },
        })
    });
    let pc5 = each(&|index| json!({ "locationInfo": at(index), "dstLayer2Id": "1" }));
    let servers = each(&|index| {
        json!({
            "locationInfo": at(index),
            "v2xMsgDistributionServer": {
                "infoConnection": { "ipAddress": "10.99.0.31", "port_number": 1883 },
                "infoProtocol": { "msgProtocol": [1], "protImplementation": "v5" },
            },
        })
    });
    json!({
        "source": SOURCE, "unicast": unicast, "mbms": mbms, "pc5": pc5,
        "distributionServers": servers, "quality": quality(sites),
    })
}

/// Bit rates on a grid of 100 m.
fn quality(sites: &[[f64; 2]]) -> Vec<Value> {
    let steps = || (-7..=7).map(|step| 100.0 * f64::from(step));
    let places = steps().flat_map(|x| steps().map(move |y| [x, y]));
    let places = places.map(|[x, y]| {
        let powers = sites.iter().map(|[a, b]| {
            // As the simulator's own powers, without shadowing.
            let distance_m = (x - a).hypot(y - b).max(10.0).hypot(23.5);
            let loss_db = 13.54 + 39.08 * distance_m.log10() + 20.0 * 3.5_f64.log10();
            10_f64.powf((POWER_DBM - loss_db) / 10.0)
        });
        let powers: Vec<f64> = powers.collect();
        let best = powers.iter().copied().fold(0.0, f64::max);
        let noise = 10_f64.powf(-12.5);
        let ratio = best / (powers.iter().sum::<f64>() - best + noise);
        // Half of Shannon's bound, in 20 MHz.
        let mbps = 10.0 * (1.0 + ratio).log2();
        let [latitude, longitude] = position([x, y]);
        json!({
            "locationInfo": { "geoArea": { "latitude": latitude, "longitude": longitude } },
            "qosKpi": [{ "kpiName": "DL bitrate", "kpiValue": format!("{mbps:.1} Mbit/s") }],
        })
    });
    places.collect()
}

"""What is there for the tests of a folder to find, and the variables that say so.

The suite's variables files are what a tester fills in; here it is done on the command line, so that the files stay as
they came.
"""

import hashlib
import io
import json
import time
import zipfile

from served import APP, RULE, RUNTIME, SIMULATOR

CELL = "0010100"
CALLBACK = "http://127.0.0.1:9/"
HOST = {"HOST": "127.0.0.1", "SCHEMA": "http"}
# Of the descriptor that the packages have.
DESCRIPTOR = "e0deee2b-6e50-4f33-ab09-8bf0585025d3"


def services(platform):
    """MEC 011."""
    of_app = f"/applications/{APP}"
    # The app is asked to end, so that it may confirm it.
    end = {"operationAction": "TERMINATING", "maxGracefulTimeout": 3600}
    platform.say("POST", f"/mec_platform/v1{of_app}/terminate", end)
    service = platform.make(f"/mec_service_mgmt/v1{of_app}/services", {
        "serName": "detector", "version": "1.0", "state": "ACTIVE", "transportId": "rest",
        "serializer": "JSON", "livenessInterval": 60,
    })
    return {
        "APP_INSTANCE_ID": APP, "SERVICE_ID": service, "INSTANCE_ID": service,
        "TRAFFIC_RULE_ID": RULE, "DNS_RULE_ID": RULE,
        "URL_SERVICE_MEC_LIVENESS": f"/mec_service_mgmt/v1{of_app}/services/{service}/liveness",
        # As the suite's own body has it.
        "APP_TERM_NOTIF_CALLBACK_URI": "https://somewhere.com/mecAppSuptApi/example",
    }


def subscribed(prepare, path, kind, **members):
    """What is given, and a subscription to it."""
    def given(platform):
        body = {"subscriptionType": kind, "callbackReference": CALLBACK, **members}
        return {**prepare(platform), "SUBSCRIPTION_ID": platform.make(path, body)}

    return given


def radio(_platform):
    """MEC 012. What the network tells comes from notified.py."""
    return {"CELL_ID": CELL, "APP_INS_ID": APP, "SUBSCRIPTION_HREF_VALUE": "cell_change"}


def location(_platform):
    """MEC 013."""
    time.sleep(1.5)  # The simulator's first report.
    return {"ZONE_ID": "north", "LOC_QRY_UE_ADDRESS": "acr:10.45.0.2"}


def told_where(path, kind, members, **variables):
    """A subscription of MEC 013 V2.1.1. What variables say of objects is compared as Python writes them."""
    def given(platform):
        body = {kind: {"callbackReference": {"notifyURL": CALLBACK}, **members}}
        made = platform.make(f"/location/v2/subscriptions/{path}", body)
        return {"SUBSCRIPTION_ID": made, **{name: str(value) for name, value in variables.items()}}

    return given


def where():
    """Subscriptions of MEC 013, by their folders."""
    client = "acr:10.45.0.2"
    # As the suite's own bodies have it.
    callback = {"notifyURL": "http://clientApp.example.com/location_notifications/123456"}
    near = {"trackingAccuracy": 10, "checkImmediate": False, "frequency": 10}
    return {
        "UEAREASUB": told_where("area/circle", "circleNotificationSubscription", {
            "address": [client], "latitude": 60.17, "longitude": 24.94, "radius": 100,
            "enteringLeavingCriteria": "Entering", **near,
        }, IP_ADDRESS=["acr:10.0.0.1"], APP_UEAREASUB_CALLBACK_URI={"callbackData": "1234", **callback}),
        "UEDISTSUB": told_where("distance", "distanceNotificationSubscription", {
            "monitoredAddress": [client], "criteria": "AllWithinDistance", "distance": 100, **near,
        }),
        "UEINFOSUB": told_where("zonalTraffic", "zonalTrafficSubscription", {
            "zoneId": "north",
        }, ZONAL_TRAF_NOTIF_CALLBACK_URI=callback),
        "UELOCSUB": told_where("userTracking", "userTrackingSubscription", {
            "address": client,
        }, USERTRACK_NOTIF_CALLBACK_URI=callback),
        "UETRACKSUB": told_where("periodic", "periodicNotificationSubscription", {
            "address": [client], "requestedAccuracy": 10, "frequency": 10,
        }),
    }


def identity(_platform):
    """MEC 014."""
    return {"APP_INSTANCE_ID": APP}


def bandwidth(platform):
    """MEC 015."""
    allocation = {
        "appInsId": APP, "requestType": 0, "fixedAllocation": "32", "allocationDirection": "00",
    }
    return {
        "APP_INSTANCE_ID": APP, "ALLOCATION_ID": platform.make("/bwm/v1/bw_allocations", allocation),
    }


def steering(platform):
    session = {
        "appInsId": "appInstId01", "requestType": 1, "qosD": {"minTpt": 1}, "mtsMode": 0,
        "trafficDirection": "00", "flowFilter": [{"protocol": 17, "dstPort": [8081]}],
    }
    made = platform.make("/mts/v1/mts_sessions", session)
    return {
        "SESSION_ID": made, "CORRECT_FILTER": "session_id", "WRONG_SESSION_ID": f"{made}?wrong=1",
    }


def devices(_platform):
    """MEC 016."""
    return {}


def mobility(platform):
    """MEC 021."""
    service = {"serviceConsumerId": {"appInstanceId": APP}}
    return {
        "apiName": "amsi", "APP_INS_ID": APP,
        "APP_MOBILITY_SERVICE_ID": platform.make("/amsi/v1/app_mobility_services", service),
        **{f"AMS_{name}": value for name, value in {**HOST, "PORT": platform.port}.items()},
    }


def wireless(platform):
    """MEC 028."""
    time.sleep(1.5)
    stations = {
        "subscriptionType": "AssocStaSubscription", "callbackReference": CALLBACK,
        "apId": {"bssid": "02:00:00:00:00:01"},
    }
    return {
        "apiVersion": "v2", "SUB_ID": platform.make("/wai/v2/subscriptions", stations),
        "HREF": f"http://127.0.0.1:{platform.own_port}/wai/v2/subscriptions",
    }


def stations(platform):
    """A station that is there."""
    given, token = wireless(platform), {"Authorization": f"Bearer {platform.token}"}
    there, _ = platform.ask("GET", "/wai/v2/queries/sta/sta_information", **token)
    mac = there[0]["staId"]["macId"]
    return {**given, "MAC_ID": mac, "filter": f"(eq,staId/macId,{mac})"}


def fixed(platform):
    """MEC 029."""
    time.sleep(1.5)
    alarms = {
        "subscriptionType": "OnuAlarmSubscription", "callbackReference": CALLBACK,
        "filterCriteriaOnuAlarm": {"onuId": ["onu-2"]},
    }
    return {
        "ONU_ALARM_SUBSCRIPTION_ID": platform.make("/fai/v1/subscriptions", alarms),
        "DEVICE_ID": "device-1", "CABLE_MODEM_ID": "cm-0", "ONU_ID": "onu-1",
    }


def vehicles(platform):
    """MEC 030."""
    time.sleep(1.5)
    place = {"geoArea": {"latitude": 60.17, "longitude": 24.94}}

    def subscribe(kind, criteria):
        # As the suite's own bodies have it.
        return platform.make("/vis/v2/subscriptions", {
            "subscriptionType": kind, "callbackReference": "http://callback.uri/1",
            "filterCriteria": criteria,
        })

    usd = {
        "sdpInfo": {"ipMulticastAddress": "239.1.2.3", "portNumber": "1"},
        "serviceAreaIdentifier": ["1"], "tmgi": {"mbmsServiceId": "1", "mcc": "001", "mnc": "01"},
    }
    server = {"ipAddress": "10.99.0.30", "udpPort": "4242"}
    messages = subscribe("V2xMsgSubscription", {"stdOrganization": "ETSI"})
    return {
        "apiVersion": "v2", "ECGI": CELL, "LAT_VALUE": "60.17", "LON_VALUE": "24.94",
        "SUB_PROV_CHG_UU_UNI_ID": subscribe(
            "ProvChgUuUniSubscription", {"locationInfo": place, "v2xApplicationServer": server}
        ),
        "SUB_PROV_CHG_UU_MBMS_ID": subscribe(
            "ProvChgUuMbmsSubscription", {"locationInfo": place, "v2xServerUsd": usd}
        ),
        "SUB_PROV_CHG_PC5_ID": subscribe(
            "ProvChgPc5Subscription", {"locationInfo": place, "dstLayer2Id": "1"}
        ),
        "SUB_V2X_MSG_ID": messages, "SUB_WRONG_PARAM": f"{messages}?wrong=1",
        "SUB_TYPE_PROV_CHG_PC5": "prov_chg_pc5",
    }


def package():
    """The archive of a package."""
    descriptor = {
        "appDId": DESCRIPTOR, "appName": "hello", "appProvider": "example", "appSoftVersion": "1",
        "appDVersion": "1", "mecVersion": "3.1.1", "appDescription": "hello", "appExtCpd": [],
        "swImageDescriptor": [{
            "id": "image", "name": "hello", "version": "1", "containerFormat": "DOCKER", "swImage": "image",
        }],
    }
    files = {
        "TOSCA-Metadata/TOSCA.meta": "TOSCA-Meta-File-Version: 1.0\nCSAR-Version: 1.1\n"
        "Entry-Definitions: appd.json\nETSI-Entry-Manifest: app.mf\n",
        "appd.json": json.dumps(descriptor), "image": "no image, as nothing is started",
    }
    hashes = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    files["app.mf"] = "".join(
        f"Source: {name}\nAlgorithm: SHA-256\nHash: {value}\n\n" for name, value in hashes.items()
    )
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as out:
        for name, text in files.items():
            out.writestr(name, text)
    return archive.getvalue()


def packages(platform):
    """MEC 010-2."""
    archive = package()
    made = platform.make("/app_pkgm/v1/onboarded_app_packages", {
        "appPkgName": "hello", "appPkgVersion": "1", "appPkgPath": "hello.csar",
        "checksum": {"algorithm": "SHA-256", "hash": hashlib.sha256(archive).hexdigest()},
    })
    fields = {"Authorization": f"Bearer {platform.token}", "Content-Type": "application/zip"}
    path = f"/app_pkgm/v1/onboarded_app_packages/{made}/package_content"
    platform.ask("PUT", path, archive, **fields)
    subscription = {"subscriptionType": "AppPackageOnBoardingSubscription", "callbackUri": CALLBACK}
    return {
        "apiName": "app_pkgm", "ON_BOARDED_APP_PKG_ID": made, "APPD_ID": DESCRIPTOR,
        "SUBSCRIPTION_ID": platform.make("/app_pkgm/v1/subscriptions", subscription),
        "ACCEPTED_CONTENT_TYPE": "application/json",
        **orchestrator(platform),
    }


def orchestrator(platform):
    names = [f"{role}_{name}" for role in ("MEO", "MEPM", "MEX", "PROVIDER") for name in ("HOST", "SCHEMA", "PORT")]
    return {name: {**HOST, "PORT": platform.port}[name.rsplit("_", 1)[1]] for name in names}


def lives(platform):
    given = packages(platform)
    subscription = {
        "subscriptionType": "AppInstanceStateChangeSubscription", "callbackUri": CALLBACK,
    }
    app = platform.make("/app_lcm/v1/app_instances", {"appDId": DESCRIPTOR})
    return {
        **given, "apiName": "app_lcm", "APP_INSTANCE_ID": app,
        "SUBSCRIPTION_ID": platform.make("/app_lcm/v1/subscriptions", subscription),
    }


def grants(platform):
    """The grant of an instantiation, which goes no further: there is no image."""
    given = lives(platform)
    path = f"/app_lcm/v1/app_instances/{given['APP_INSTANCE_ID']}/instantiate"
    operation = platform.make(path, {"selectedMECHostInfo": [{"hostId": {}}]})
    # Another one, which has none yet.
    other = platform.make("/app_lcm/v1/app_instances", {"appDId": DESCRIPTOR})
    return {
        **given, "apiName": "granting", "grantId": f"{operation}-grant", "APP_LCM_OP_OCC_ID": operation,
        "APP_INSTANCE_ID": other,
    }


def any_provider(platform):
    return {**orchestrator(platform), "token": "Bearer of-nobody"}


# Folders, what is given there, and what the platform's configuration has more.
FOLDERS = {
    "MEC010p2/MEO/GRANT": (grants, RUNTIME),
    "MEC010p2/MEO/PKGM": (packages, ""),
    "MEC010p2/MEPM/PKGM": (packages, ""),
    **{f"MEC011/SRV/{name}": (services, "") for name in ("APPSAQ", "CONFTASK", "DNS", "LIV", "SAQ")},
    "MEC011/SRV/APPSUB": (subscribed(
        services, f"/mec_app_support/v1/applications/{APP}/subscriptions", "AppTerminationNotificationSubscription",
        appInstanceId=APP,
    ), ""),
    "MEC011/SRV/SRVSUB": (subscribed(
        services, f"/mec_service_mgmt/v1/applications/{APP}/subscriptions",
        "SerAvailabilityNotificationSubscription",
    ), ""),
    **{f"MEC011/SRV/{name}": (services, "") for name in ("TIME", "TRAF", "TRANS")},
    "MEC012/SRV/RNIS": (subscribed(
        radio, "/rni/v2/subscriptions", "CellChangeSubscription", filterCriteriaAssocHo={},
    ), ""),
    **{f"MEC013/SRV/{name}": (location, SIMULATOR) for name in (
        "RLOCLOOK", "UEDISTLOOK", "UEINFOLOOK", "UELOCLOOK", "ZOINFOLOOK",
    )},
    **{f"MEC013/SRV/{name}": (given, SIMULATOR) for name, given in where().items()},
    "MEC014/SRV/UETAG": (identity, ""),
    "MEC015/SRV/MTS": (steering, ""),
    "MEC015/SRV/TM": (bandwidth, ""),
    **{f"MEC016/MEO/{name}": (devices, "") for name in ("UEAPPCTX", "UEAPPLOC", "UEAPPS")},
    "MEC021/SRV/AMS": (subscribed(
        mobility, "/amsi/v1/subscriptions", "MobilityProcedureSubscription", filterCriteria={"appInstanceId": APP},
    ), SIMULATOR),
    **{f"MEC028/WAI/{name}": (wireless, SIMULATOR) for name in ("AP_INFO", "EXT_SUB", "SUB")},
    "MEC028/WAI/STA_INFO": (stations, SIMULATOR),
    "MEC029/SRV/FAIS": (fixed, SIMULATOR),
    "MEC030/SRV/V2X": (vehicles, SIMULATOR),
    "MEX/ANY": (any_provider, ""),
    "MEX/LCM": (lives, RUNTIME),
    "examples/emptyschema": (devices, ""),
}
# Tests that those before them leave nothing to: each is run once more, on a platform of its own.
ALONE = {
    "MEC010p2/MEO/PKGM": ["TC_MEC_MEC010p2_MEO_PKGM_006_OK"],
    "MEC021/SRV/AMS": ["TC_MEC_MEC021_SRV_AMS_015_OK"],
    "MEC029/SRV/FAIS": ["TC_MEC_MEC029_SRV_FAIS_009_OK"],
    "MEX/LCM": [
        "Instantiate an APP instance", "Instantiate an APP instance using malformed parameters",
        "Terminate an APP instance using malformed parameters",
        "Change status of an APP instance using malformed parameters",
    ],
}

"""A copy of the suite whose missing data files are there.

Of schemas that are absent, empty or no UTF-8 it has ETSI's own, by MEC_OPENAPI and what bench/mec/judge knows of them;
bodies that are absent, empty or of an earlier version are below. The code of the tests stays as it came.
"""

import importlib.machinery
import importlib.util
import json
import os
import shutil

# By folder: the file of a standard, and its types by the names that schemas have in the suite; lists in brackets.
OF_PACKAGES = {
    "OnboardedAppPkgInfo": "AppPkgInfo", "OnboardedAppPkgInfos": ["AppPkgInfo"],
    "AppPkgSubscriptionInfo": "AppPkgSubscriptionInfo", "AppPkgNotification": "AppPkgNotification",
    "AppPkgSubscriptionLinkList": "AppPkgSubscriptionLinkList",
}
SCHEMAS = {
    "MEC010p2/MEO/GRANT": ("MEC01002_AppGrant.yaml", {"Grant": "Grant"}),
    "MEC010p2/MEO/PKGM": ("MEC01002_AppPkgMgmt.yaml", OF_PACKAGES),
    "MEC010p2/MEPM/PKGM": ("MEC01002_AppPkgMgmt.yaml", OF_PACKAGES),
    "MEC014/SRV/UETAG": ("UEidentityAPI.yaml", {"ueIdentityTagInfo": "UeIdentityTagInfo"}),
    "MEC021/SRV/AMS": ("MEC021_AppMobilityService.yaml", {
        "AppMobilityServiceInfo": "RegistrationInfo", "AppMobilityServiceInfos": ["RegistrationInfo"],
        "SubscriptionLinkList": "SubscriptionLinkList",
        "NotificationSubscription": "MobilityProcedureSubscription",
        "MobilityProcedureNotification": "MobilityProcedureNotification",
        "AdjacentAppInfoNotification": "MobilityProcedureNotification",
        "ExpiryNotification": "ExpiryNotification",
    }),
    "MEC028/WAI/AP_INFO": ("WlanInformationApi.yaml", {"ApInfo": ["ApInfo"]}),
    "MEC028/WAI/STA_INFO": ("WlanInformationApi.yaml", {"StaInfo": ["StaInfo"]}),
    "MEC029/SRV/FAIS": ("MEC029_FAI.yaml", {
        "FaInfo": ["FaInfo"], "DeviceInfo": ["DeviceInfo"], "CableLineInfo": ["CableLineInfo"],
        "PonInfo": ["PonInfo"], "SubscriptionLinkList": "SubscriptionLinkList",
        "OnuAlarmSubscription": "OnuAlarmSubscription", "DevInfoSubscription": "DevInfoSubscription",
    }),
    "MEC030/SRV/V2X": ("MEC030_V2XInformationServices.yaml", {
        "Pc5ProvisioningInfo": "Pc5ProvisioningInfo", "SubscriptionLinkList": "SubscriptionLinkList",
        "PredictedQoS": "PredictedQos",
    }),
    "MEX/LCM": ("MEC01002_AppLcm.yaml", {
        "AppInstanceInfo": "AppInstanceInfo", "AppInstanceInfos": ["AppInstanceInfo"],
        "OnboardedAppPkgInfo": "AppInstanceInfo", "AppInstanceLcmOpOcc": "AppLcmOpOcc",
        "AppInstanceLcmOpOccs": ["AppLcmOpOcc"], "AppPkgSubscriptionInfo": "AppInstSubscriptionInfo",
        "AppInstSubscriptionInfo": "AppInstSubscriptionInfo",
        "AppInstSubscriptionLinkList": "AppInstanceSubscriptionLinkList",
        "LCMNotification": "AppLcmOpOccNotification",
    }),
}
# Schemas that are there, of an earlier version.
RENEWED = {"PredictedQoS"}
CALLBACK = "http://127.0.0.1:9/"
ALARM = {
    "subscriptionType": "OnuAlarmSubscription", "callbackReference": CALLBACK,
    "filterCriteriaOnuAlarm": {"onuId": ["onu-2"]},
}
MOVES = {
    "subscriptionType": "MobilityProcedureSubscription", "callbackReference": CALLBACK,
    "filterCriteria": {"appInstanceId": "$APP_INS_ID"},
}
PACKAGES = {"callbackUri": CALLBACK, "subscriptionType": "AppPackageOnBoardingSubscription"}


def prediction(latitude, longitude):
    place = {"location": {"geoArea": {"latitude": latitude, "longitude": longitude}}}
    return {
        "locationGranularity": "10", "predictionTarget": "SINGLE_UE_PREDICTION",
        "qos": {"stream": [{"qosKpi": [{"kpiName": "bitrate", "kpiValue": "1"}]}]},
        "routes": [{"routeInfo": [place, place]}],
    }


# By folder and file; `$NAME` is that variable of the tests.
BODIES = {
    "MEC010p2/MEO/GRANT": {"jsons/grantRequest.json": {
        "appInstanceId": "$APP_INSTANCE_ID", "appLcmOpOccId": "$APP_LCM_OP_OCC_ID", "appDId": "$APPD_ID",
        "operation": "INSTANTIATE", "_links": {
            "appLcmOpOcc": {"href": "http://127.0.0.1/app_lcm/v1/app_lcm_op_occs/$APP_LCM_OP_OCC_ID"},
            "appInstance": {"href": "http://127.0.0.1/app_lcm/v1/app_instances/$APP_INSTANCE_ID"},
        },
    }},
    "MEC010p2/MEO/PKGM": {
        "AppPkg": {
            "appPkgName": "other", "appPkgVersion": "1", "appPkgPath": "other.csar",
            "checksum": {"algorithm": "SHA-256", "hash": "0" * 64},
        },
        "AppPkgSubscription": PACKAGES,
    },
    "MEC010p2/MEPM/PKGM": {"AppPkgSubscription": PACKAGES},
    "MEC011/SRV/TRAF": {"jsons/TrafficRuleUpdate.json": {
        "trafficRuleId": "$TRAFFIC_RULE_ID", "filterType": "FLOW", "priority": 1, "action": "DROP",
        "state": "ACTIVE", "trafficFilter": [{"dstAddress": ["203.0.113.10/32"]}],
    }},
    "MEC021/SRV/AMS": {
        "json/RegistrationInfo.json": {"serviceConsumerId": {"appInstanceId": "$APP_INS_ID"}},
        "json/RegistrationInfoMalformed.json": {"serviceConsumer": {}},
        "json/RegistrationInfoWithError.json": {"serviceConsumer": {}},
        "json/NotificationSubscription.json": MOVES,
        "json/NotificationSubscriptionError.json": {**MOVES, "filterCriteria": "none"},
    },
    "MEC029/SRV/FAIS": {
        "jsons/OnuAlarmSubscription.json": ALARM, "jsons/OnuAlarmSubscriptionUpdate.json": ALARM,
        "jsons/OnuAlarmSubscriptionError.json": {**ALARM, "filterCriteriaOnuAlarm": {}},
        "jsons/OnuAlarmSubscriptionUpdateError.json": {**ALARM, "filterCriteriaOnuAlarm": {}},
    },
    "MEC030/SRV/V2X": {
        "jsons/PredictedQoS.json": prediction(60.17, 24.94),
        "jsons/PredictedQoS_NF.json": prediction(40, 10),
        "jsons/V2xMsgPublication.json": {
            "msgContent": "VjJY", "msgRepresentationFormat": "base64", "msgPropertiesValues": {
                "stdOrganization": "ETSI", "msgType": "2", "msgProtocolVersion": 1,
                "locationInfo": {"geoArea": {"latitude": 60.17, "longitude": 24.94}},
            },
        },
    },
    "MEX/LCM": {
        "CreateAppInstanceRequest": {"appDId": "$APPD_ID"},
        "InstantiateAppRequest": {"selectedMECHostInfo": [{"hostId": {}}]},
        "OperateAppRequest": {"changeStateTo": "STOPPED"},
        "TerminateAppRequest": {"terminationType": "FORCEFUL"},
        "AppInstSubscriptionRequest": {
            "subscriptionType": "AppInstanceStateChangeSubscription", "callbackUri": CALLBACK,
        },
    },
}


def judge():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "judge")
    loader = importlib.machinery.SourceFileLoader("judge", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("judge", loader))
    loader.exec_module(module)
    return module


def is_readable(path):
    try:
        with open(path, encoding="utf-8") as file:
            return bool(file.read().strip())
    except (OSError, UnicodeDecodeError):
        return False


def schema(document, kind):
    """A type of a standard, with all that it refers to."""
    one = {"$ref": f"#/components/schemas/{kind if isinstance(kind, str) else kind[0]}"}
    shape = {"type": "array", "items": one} if isinstance(kind, list) else {"allOf": [one]}
    return {**shape, "components": document["components"]}


def copy(checkout, to):
    openapi = os.environ.get("MEC_OPENAPI")
    if not openapi:
        raise SystemExit("MEC_OPENAPI is missing: the folder of ETSI's files")
    shutil.copytree(checkout, to)
    with open(os.path.join(openapi, "corrections.json"), encoding="utf-8") as file:
        corrections = json.load(file)
    known = judge()
    for folder, (name, kinds) in SCHEMAS.items():
        document = known.load(openapi, name, corrections)
        os.makedirs(os.path.join(to, folder, "schemas"), exist_ok=True)
        for kind, of in kinds.items():
            path = os.path.join(to, folder, "schemas", f"{kind}.schema.json")
            if kind in RENEWED or not is_readable(path):
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(schema(document, of), file)
    return to


def write_bodies(checkout, folder, variables):
    for name, body in BODIES.get(folder, {}).items():
        text = json.dumps(body)
        for variable in sorted(variables, key=len, reverse=True):
            text = text.replace(f"${variable}", str(variables[variable]))
        path = os.path.join(checkout, folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

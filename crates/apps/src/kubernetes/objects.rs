//! What an instance is in a cluster: a pod, a service with an address of its own, what may reach it, and
//! the secret it proves itself to the platform with. All have its name.

use crate::Spec;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Label of everything that is the platform's.
const OWNER: (&str, &str) = ("app.kubernetes.io/managed-by", "freshet-mec");
/// The same, as a query selects it.
pub(super) const OURS: &str = "app.kubernetes.io/managed-by%3Dfreshet-mec";
/// Label that says of which instance something is.
pub(super) const INSTANCE: &str = "app.kubernetes.io/instance";
/// User of an app whose image names root or none: none that a machine has.
const NOBODY: u32 = 65_534;
/// How long an app may take to end that is asked to, in seconds.
pub(super) const GRACE_S: u64 = 10;
/// Slowest rate that a cluster's network holds an app to, in bits per second.
const RATE_BPS_MIN: u64 = 1000;

/// Annotations that tell a cluster's network what a pod may send, and may be sent, in bits per second.
pub(super) const RATES: [&str; 2] =
    ["kubernetes.io/egress-bandwidth", "kubernetes.io/ingress-bandwidth"];

/// Kinds of objects, in the order in which they are made.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Kind {
    Secret,
    Policy,
    Service,
    Pod,
}

/// All of them.
pub(super) const KINDS: [Kind; 4] = [Kind::Secret, Kind::Policy, Kind::Service, Kind::Pod];

impl Kind {
    /// Where objects of the kind are.
    pub(super) fn path(self, namespace: &str) -> String {
        let (group, kind) = match self {
            Self::Secret => ("/api/v1", "secrets"),
            Self::Policy => ("/apis/networking.k8s.io/v1", "networkpolicies"),
            Self::Service => ("/api/v1", "services"),
            Self::Pod => ("/api/v1", "pods"),
        };
        format!("{group}/namespaces/{namespace}/{kind}")
    }

    /// Whether more of it is looked at than what all kinds have in common: no secrets are read.
    pub(super) fn is_whole(self) -> bool {
        self == Self::Pod
    }
}

/// What pods have besides what their instances say.
#[derive(Clone, Debug, Default)]
pub struct Placing {
    /// The repository that machines of the cluster fetch images from, by digest.
    pub images: String,
    /// Name of the secret that they prove themselves to it with.
    pub pull_secret: Option<String>,
    /// Labels of machines that may run apps.
    pub nodes: BTreeMap<String, String>,
    /// Labels besides these, by the name of the host that such machines are.
    pub hosts: BTreeMap<String, BTreeMap<String, String>>,
}

fn metadata(spec: &Spec) -> Value {
    json!({ "name": spec.name, "labels": { OWNER.0: OWNER.1, INSTANCE: spec.instance } })
}

/// What the app proves itself with is no word of its pod, which more may read.
pub(super) fn secret(spec: &Spec) -> Value {
    let variables: BTreeMap<&str, &str> =
        spec.environment.iter().filter_map(|one| one.split_once('=')).collect();
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": metadata(spec), "type": "Opaque",
        "stringData": variables,
    })
}

/// The address of the instance, which is the platform's choice: its network is a part of the cluster's
/// network for services.
pub(super) fn service(spec: &Spec, ports: &[u16]) -> Value {
    let ports = ports
        .iter()
        .map(|port| json!({ "name": format!("tcp-{port}"), "port": port, "protocol": "TCP" }));
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata(spec),
        "spec": {
            "type": "ClusterIP", "clusterIP": spec.network.app.to_string(),
            "selector": { INSTANCE: spec.instance }, "ports": ports.collect::<Vec<_>>(),
        },
    })
}

/// Whoever likes reaches its ports, and nobody anything else of it. What it reaches itself is for policies of
/// the namespace to say.
pub(super) fn policy(spec: &Spec, ports: &[u16]) -> Value {
    let ports: Vec<_> =
        ports.iter().map(|port| json!({ "port": port, "protocol": "TCP" })).collect();
    // A rule without ports would be one of all ports.
    let ingress = if ports.is_empty() { json!([]) } else { json!([{ "ports": ports }]) };
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata(spec),
        "spec": {
            "podSelector": { "matchLabels": { INSTANCE: spec.instance } },
            "policyTypes": ["Ingress"], "ingress": ingress,
        },
    })
}

/// What the pod of an instance is to say of its rates, by [`RATES`].
pub(super) fn rates(spec: &Spec) -> [Option<String>; 2] {
    [spec.network.sends_bps_max, spec.network.receives_bps_max]
        .map(|bps| bps.map(|bps| bps.max(RATE_BPS_MIN).to_string()))
}

/// Has a pod that is there say these rates (RFC 7396).
pub(super) fn with_rates(uid: &str, rates: [Option<String>; 2]) -> Value {
    let annotations: Map<String, Value> = RATES
        .iter()
        .zip(rates)
        .map(|(name, rate)| ((*name).to_owned(), rate.map_or(Value::Null, Value::from)))
        .collect();
    json!({ "metadata": { "uid": uid, "annotations": annotations } })
}

/// The pod: what the platform grants, no right of the cluster and no privilege, as Kubernetes' standard
/// `restricted` wants it. It is started again by the platform, not by the machine.
pub(super) fn pod(
    spec: &Spec,
    placing: &Placing,
    digest: &str,
    user: [u32; 2],
    ports: &[u16],
) -> Value {
    let mut most = json!({
        "cpu": format!("{}m", spec.cpu_milli_max),
        "memory": format!("{}Mi", spec.memory_mib_max),
        "ephemeral-storage": format!("{}Mi", spec.disk_mib_max),
    });
    for (name, count) in &spec.accelerators {
        most[name] = count.to_string().into();
    }
    let [user, group] = user.map(|number| if number == 0 { NOBODY } else { number });
    let mut container = json!({
        "name": "app", "image": format!("{}@{digest}", placing.images), "imagePullPolicy": "IfNotPresent",
        "ports": ports.iter().map(|port| json!({ "containerPort": port, "protocol": "TCP" })).collect::<Vec<_>>(),
        "envFrom": [{ "secretRef": { "name": spec.name } }],
        "resources": { "requests": most, "limits": most },
        "securityContext": {
            "allowPrivilegeEscalation": false, "privileged": false, "capabilities": { "drop": ["ALL"] },
        },
        // The last words of its output, where it has left no others.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    });
    if let Some(port) = ports.first() {
        container["readinessProbe"] =
            json!({ "tcpSocket": { "port": port }, "periodSeconds": 1, "failureThreshold": 5 });
    }
    let mut metadata = metadata(spec);
    let rates = rates(spec);
    if rates.iter().any(Option::is_some) {
        metadata["annotations"] = RATES
            .iter()
            .zip(rates)
            .filter_map(|(name, rate)| Some(((*name).to_owned(), Value::from(rate?))))
            .collect::<Map<_, _>>()
            .into();
    }
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {
            "restartPolicy": "Never", "automountServiceAccountToken": false, "enableServiceLinks": false,
            "terminationGracePeriodSeconds": GRACE_S,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": user, "runAsGroup": group,
                "seccompProfile": { "type": "RuntimeDefault" },
                // Ports below 1024 are no privilege in a network of its own.
                "sysctls": [{ "name": "net.ipv4.ip_unprivileged_port_start", "value": "0" }],
            },
            "containers": [container],
        },
    });
    let mut nodes = placing.nodes.clone();
    nodes.extend(placing.hosts.get(&spec.host).cloned().unwrap_or_default());
    if !nodes.is_empty() {
        pod["spec"]["nodeSelector"] = json!(nodes);
    }
    if let Some(name) = &placing.pull_secret {
        pod["spec"]["imagePullSecrets"] = json!([{ "name": name }]);
    }
    pod
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Network, Package};

    fn spec() -> Spec {
        Spec {
            instance: "0123456789abcdef".to_owned(),
            name: "mec-0123456789ab".to_owned(),
            grant: "grant".into(),
            package: Package {
                sha256: String::new(),
                image: "image".into(),
                folder: "package".into(),
            },
            folder: "folder".into(),
            cpu_milli_max: 250,
            memory_mib_max: 64,
            disk_mib_max: 1024,
            host: "north".to_owned(),
            accelerators: [("nvidia.com/gpu".to_owned(), 2)].into(),
            network: Network {
                slot: 0,
                host: "10.96.8.0".parse().unwrap(),
                app: "10.96.8.1".parse().unwrap(),
                answers_for: Vec::new(),
                sends_bps_max: Some(1),
                receives_bps_max: Some(2_000_000),
                sends_apart: Vec::new(),
                wire: None,
            },
            environment: vec!["MEC_CLIENT_SECRET=a=b".to_owned()],
        }
    }

    #[test]
    fn a_pod_has_what_is_granted_and_no_more() {
        let placing = Placing {
            images: "registry.example/apps".to_owned(),
            pull_secret: Some("registry".to_owned()),
            nodes: [("zone".to_owned(), "edge".to_owned())].into(),
            hosts: ["north", "south"]
                .map(|host| (host.to_owned(), [("host".to_owned(), host.to_owned())].into()))
                .into(),
        };
        let pod = pod(&spec(), &placing, "sha256:00", [0, 7], &[80, 443]);
        let container = &pod["spec"]["containers"][0];
        let limits = json!({
            "cpu": "250m", "memory": "64Mi", "ephemeral-storage": "1024Mi", "nvidia.com/gpu": "2",
        });
        assert_eq!(container["resources"]["limits"], limits);
        assert_eq!(container["resources"]["requests"], limits);
        assert_eq!(container["image"], "registry.example/apps@sha256:00");
        assert_eq!(pod["spec"]["securityContext"]["runAsUser"], NOBODY);
        assert_eq!(pod["spec"]["securityContext"]["runAsGroup"], 7);
        assert_eq!(pod["spec"]["nodeSelector"], json!({ "zone": "edge", "host": "north" }));
        assert_eq!(pod["spec"]["imagePullSecrets"], json!([{ "name": "registry" }]));
        assert_eq!(container["readinessProbe"]["tcpSocket"]["port"], 80);
        let rates = json!({
            "kubernetes.io/egress-bandwidth": "1000", "kubernetes.io/ingress-bandwidth": "2000000",
        });
        assert_eq!(pod["metadata"]["annotations"], rates);
        assert!(!pod.to_string().contains("a=b"), "the secret is in the pod: {pod}");
        assert_eq!(secret(&spec())["stringData"]["MEC_CLIENT_SECRET"], "a=b");
    }

    #[test]
    fn rates_that_are_no_more_are_taken_from_a_pod() {
        let mut spec = spec();
        spec.network.sends_bps_max = None;
        let change = with_rates("u", rates(&spec));
        let annotations = json!({
            "kubernetes.io/egress-bandwidth": null, "kubernetes.io/ingress-bandwidth": "2000000",
        });
        assert_eq!(change["metadata"], json!({ "uid": "u", "annotations": annotations }));
        spec.network.receives_bps_max = None;
        let pod = pod(&spec, &Placing::default(), "d", [1, 1], &[]);
        assert!(pod["metadata"].get("annotations").is_none(), "{pod}");
    }

    #[test]
    fn all_that_is_made_says_whose_it_is() {
        let spec = spec();
        for object in [
            secret(&spec),
            service(&spec, &[80]),
            policy(&spec, &[80]),
            pod(&spec, &Placing::default(), "d", [1, 1], &[80]),
        ] {
            assert_eq!(object["metadata"]["labels"][OWNER.0], OWNER.1, "{object}");
            assert_eq!(object["metadata"]["labels"][INSTANCE], spec.instance.as_str());
            assert_eq!(object["metadata"]["name"], spec.name.as_str());
        }
        assert_eq!(service(&spec, &[80])["spec"]["clusterIP"], "10.96.8.1");
        assert_eq!(OURS.replace("%3D", "="), format!("{}={}", OWNER.0, OWNER.1));
    }

    #[test]
    fn one_without_ports_is_reached_by_nobody() {
        assert_eq!(policy(&spec(), &[])["spec"]["ingress"], json!([]));
        assert_eq!(policy(&spec(), &[80])["spec"]["ingress"][0]["ports"][0]["port"], 80);
    }
}

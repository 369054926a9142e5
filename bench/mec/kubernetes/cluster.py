"""A Kubernetes cluster of an API server and its store: all that is asked of a cluster, and nobody that acts on it.

What a scheduler and a kubelet would report of pods is written by `Kubelet`, through the same interface.
"""

import base64
import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import threading
import time

PATIENCE_S = 90
# The first address of the services' network is the cluster's own.
SERVICES = "10.96.0.0/16"


def free_port():
    with contextlib.closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for(what, found, within_s=PATIENCE_S):
    """Until `found` gives something; that."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        value = found()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(f"not within {within_s} s: {what}")


class Refused(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status}: {body[:300]}")
        self.status = status


class Api:
    """Asks the API server, as whoever a certificate says."""

    def __init__(self, port, folder):
        self.port, self.context = port, ssl.create_default_context(cafile=f"{folder}/ca.pem")
        self.context.load_cert_chain(f"{folder}/admin.pem", f"{folder}/admin.key")

    def ask(self, method, path, body=None, kind="application/json"):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=30)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": kind} if text else {})
            answer = connection.getresponse()
            text = answer.read().decode()
            if answer.status >= 300:
                raise Refused(answer.status, text)
            return json.loads(text) if text.startswith("{") else text
        finally:
            connection.close()

    def list(self, kind, namespace, group="/api/v1"):
        return self.ask("GET", f"{group}/namespaces/{namespace}/{kind}")["items"]

    def delete(self, path, **options):
        with contextlib.suppress(Refused):
            self.ask("DELETE", path, options or None)


class Cluster:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.store, self.server = None, None
        self.etcd_port, self.port = free_port(), free_port()
        make_certificates(folder)
        self.start()
        self.api = Api(self.port, folder)
        wait_for("the API server", self.is_ready)

    def start(self):
        self.start_store()
        self.start_server()

    def start_store(self):
        peer = free_port()
        self.store = self.run(
            "etcd", "etcd", f"--data-dir={self.folder}/etcd", "--log-level=error", "--logger=zap",
            f"--listen-client-urls=http://127.0.0.1:{self.etcd_port}",
            f"--advertise-client-urls=http://127.0.0.1:{self.etcd_port}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster=default=http://127.0.0.1:{peer}",
        )

    def start_server(self):
        of = self.folder
        self.server = self.run(
            "apiserver", self.program, f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            f"--secure-port={self.port}", "--bind-address=127.0.0.1", f"--cert-dir={of}/certificates",
            f"--tls-cert-file={of}/server.pem", f"--tls-private-key-file={of}/server.key",
            f"--client-ca-file={of}/ca.pem", "--authorization-mode=RBAC",
            f"--service-cluster-ip-range={SERVICES}", "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={of}/account.key", f"--service-account-signing-key-file={of}/account.key",
            "--service-account-max-token-expiration=24h",
        )

    def run(self, name, *command):
        log = open(f"{self.folder}/{name}.log", "a", encoding="utf-8")
        return subprocess.Popen(command, stdout=log, stderr=log)

    def is_ready(self):
        if self.server.poll() is not None:
            raise AssertionError(f"the API server ended: {self.folder}/apiserver.log says why")
        try:
            return self.api.ask("GET", "/readyz") == "ok"
        except (Refused, OSError):
            return False

    def stop_server(self):
        self.server.terminate()
        self.server.wait()

    def start_server_again(self):
        self.start_server()
        wait_for("the API server again", self.is_ready)

    def stop(self):
        for process in (self.server, self.store):
            if process and process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()


def make_certificates(folder):
    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    def issue(name, subject, extensions):
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", subject,
                "-keyout", f"{name}.key", "-out", f"{name}.csr")
        with open(f"{folder}/{name}.ext", "w", encoding="utf-8") as file:
            file.write(extensions)
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                "-days", "2", "-extfile", f"{name}.ext", "-out", f"{name}.pem")

    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=cluster",
            "-days", "2", "-keyout", "ca.key", "-out", "ca.pem")
    issue("server", "/CN=kube-apiserver",
          "subjectAltName=IP:127.0.0.1,IP:10.96.0.1,DNS:localhost\nextendedKeyUsage=serverAuth\n")
    issue("admin", "/O=system:masters/CN=admin", "extendedKeyUsage=clientAuth\n")
    openssl("genrsa", "-out", "account.key", "2048")


class Kubelet(threading.Thread):
    """Writes down of pods what a scheduler and a machine would: placed, running, ready; and has those go that
    are to. `mode` says how it is with the machine."""

    # How it is: all well; no room; the image is not there; being fetched; nobody is at home; apps end at once.
    WELL, FULL, NO_IMAGE, FETCHES, AWAY, ENDS = range(6)

    def __init__(self, api, namespace):
        super().__init__(daemon=True)
        self.api, self.namespace, self.mode = api, namespace, self.WELL
        # Pods that were told to go, in which order and with how much time: what a scenario looks at.
        self.went = []
        self.start()

    def run(self):
        while True:
            try:
                for pod in self.api.list("pods", self.namespace):
                    with contextlib.suppress(Refused):
                        self.see_to(pod)
            except (Refused, OSError, ValueError):
                pass
            time.sleep(0.05)

    def see_to(self, pod):
        name, about = pod["metadata"]["name"], pod["metadata"]
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}"
        if self.mode == self.AWAY:
            return
        if "deletionTimestamp" in about:
            self.went.append((about["uid"], about["deletionGracePeriodSeconds"]))
            self.api.delete(path, gracePeriodSeconds=0, preconditions={"uid": about["uid"]})
            return
        status = self.status_of(pod)
        if self.mode != self.FULL and not pod["spec"].get("nodeName"):
            self.api.ask("POST", f"{path}/binding", {
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                "target": {"apiVersion": "v1", "kind": "Node", "name": "machine"},
            })
        known = pod.get("status", {})
        if any(known.get(key) != value for key, value in status.items() if key != "conditions"):
            status = {**status, "startTime": "2026-01-01T00:00:00Z"}
            self.api.ask("PATCH", f"{path}/status", {"metadata": {"uid": about["uid"]}, "status": status},
                         "application/merge-patch+json")

    def status_of(self, pod):
        image = pod["spec"]["containers"][0]["image"]

        def container(**state):
            return [{"name": "app", "image": image, "imageID": image, "ready": "running" in state,
                     "restartCount": 0, "state": state}]

        if self.mode == self.FULL:
            return {"phase": "Pending", "conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": "0/1 nodes are available: 1 Insufficient cpu.",
            }]}
        if self.mode == self.NO_IMAGE:
            return {"phase": "Pending", "containerStatuses": container(waiting={
                "reason": "ImagePullBackOff", "message": "registry.example/apps: not found"})}
        if self.mode == self.FETCHES:
            return {"phase": "Pending", "containerStatuses": container(waiting={"reason": "ContainerCreating"})}
        if self.mode == self.ENDS:
            return {"phase": "Failed", "containerStatuses": container(terminated={
                "reason": "Error", "exitCode": 7, "message": "no config"})}
        return {
            "phase": "Running", "containerStatuses": container(running={"startedAt": "2026-01-01T00:00:00Z"}),
            "conditions": [{"type": "Ready", "status": "True"}],
        }


def decoded(secret):
    return {name: base64.b64decode(value).decode() for name, value in secret.get("data", {}).items()}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def exists(path):
    return os.path.exists(path)

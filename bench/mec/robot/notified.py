"""Notifications: a server that counts them, and a radio network in which there is something to tell."""

import http.server
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

# What subscriptions of MEC 012 are asked for, by the path that the suite waits at.
ASKED = {
    "": ("CellChangeSubscription", {"filterCriteriaAssocHo": {}}),
    "/rab_est": ("RabEstSubscription", {"filterCriteriaQci": {"qci": 7}}),
    "/rab_mod": ("RabModSubscription", {"filterCriteriaQci": {"erabId": 5, "qci": 8}}),
    "/rab_rel": ("RabRelSubscription", {"filterCriteriaQci": {"erabId": 6, "qci": 7}}),
    "/MeasRepUeNotification": ("MeasRepUeSubscription", {"filterCriteriaAssocTri": {}}),
    "/MeasTaNotification": ("MeasTaSubscription", {"filterCriteriaAssoc": {}}),
    "/meas_rep_ue": ("NrMeasRepUeSubscription", {"filterCriteriaNrMrs": {}}),
    "/CaReconfSubscription": ("CaReconfSubscription", {"filterCriteriaAssoc": {}}),
    "/S1BearerSubscription": (
        "S1BearerSubscription", {"eventType": [2], "S1BearerSubscriptionCriteria": {}},
    ),
}
BETWEEN_S = 6.0


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Taker(http.server.BaseHTTPRequestHandler):
    """Takes each notification and passes it on to be counted: what waits for none would have it sent again."""

    counter = None

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        fields = {"Content-Type": self.headers["Content-Type"]}
        on = urllib.request.Request(f"http://127.0.0.1:{self.counter.port}{self.path}", body, fields)
        try:
            urllib.request.urlopen(on, timeout=5).close()
        except urllib.error.HTTPError:
            pass
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


class Counter:
    """MockServer, which the suite asks how many notifications came."""

    def __init__(self, jar):
        self.port = free_port()
        taker = type("Taker", (Taker,), {"counter": self})
        self.taker = http.server.ThreadingHTTPServer(("127.0.0.1", 0), taker)
        threading.Thread(target=self.taker.serve_forever, daemon=True).start()
        command = ["java", "-Xmx256m", "-jar", jar, "-serverPort", str(self.port), "-logLevel", "ERROR"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 60
        while not self.expects():
            if time.monotonic() > until:
                raise SystemExit(f"{jar} does not answer")
            time.sleep(0.2)

    def expects(self):
        """Whether it takes what the suite says first, for which it loads most of itself."""
        body = b'{"httpRequest": {"path": "/none"}, "httpResponse": {"statusCode": 204}}'
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/expectation", body, method="PUT")
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return response.status == 201
        except OSError:
            return False

    def variables(self):
        return {
            "callback_uri": "http://127.0.0.1", "callback_port": self.port,
            "polling_interval": "1 sec", "total_polling_time": "40 sec",
        }

    def end(self):
        self.process.terminate()
        self.process.wait()


def report(is_first):
    """One of two that take turns: a client moves, its bearer and carriers change, another comes and goes, and one
    is measured in NR."""
    def client(address, cell, bearer, qci, **measured):
        ends = {"teids": [100, 200], "ends": ["10.3.0.1", "10.3.0.240"]}
        return {"address": address, "cell": cell, "bearer": {"id": bearer, "qci": qci, **ends}, **measured}

    cells = [
        {"id": f"001010{number}", "zone": "north", "position": [60.17 + number / 100, 24.94]} for number in (0, 1)
    ]
    cells.append({"id": "001010001", "zone": "north", "position": [60.17, 24.95]})
    moving = client(
        "10.45.0.2", "0010100" if is_first else "0010101", 5, 9 if is_first else 8,
        rsrpDbm=-90, rsrqDb=-10, timingAdvanceM=156 if is_first else 468,
        secondaryCells=["0010101"] if is_first else [],
    )
    in_nr = client("10.45.0.5", "001010001", 5, 9, rsrpDbm=-90, rsrqDb=-10)
    clients = [moving, client("10.45.0.4", "0010100", 5, 9), in_nr]
    if is_first:
        clients.append(client("10.45.0.3", "0010100", 6, 7))
    return {"source": "test", "plmn": ["001", "01"], "cells": cells, "clients": clients}


class Network:
    """Tells the platform of the network, again and again."""

    def __init__(self, platform, counter):
        self.platform, self.over = platform, threading.Event()
        self.tell(True)
        for path, (kind, criteria) in ASKED.items() if counter else ():
            callback = f"http://127.0.0.1:{counter.taker.server_port}/notify{path}"
            body = {"subscriptionType": kind, "callbackReference": callback, **criteria}
            platform.make("/rni/v2/subscriptions", body)
        self.thread = threading.Thread(target=self.go_on, daemon=True)
        self.thread.start()

    def tell(self, is_first):
        self.platform.say("PUT", "/mec_platform/v1/radio", report(is_first))

    def go_on(self):
        is_first = False
        while not self.over.wait(BETWEEN_S):
            self.tell(is_first)
            is_first = not is_first

    def end(self):
        self.over.set()
        self.thread.join()

"""Load by wrk and h2load, and what a server spent on it."""
import contextlib, json, os, pathlib, re, subprocess, tempfile, time
from servers import freshet_program

# A request for one of n objects, chosen evenly.
UNIFORM = """request = function()
  return wrk.format("GET", "/%(size)s/object-" .. math.random(%(objects)d)%(fields)s)
end
"""
REPORT = """done = function(summary, latency)
  local e = summary.errors
  io.write(string.format('RESULT {"us":%d,"requests":%d,"bytes":%d,"errors":%d,"p50_us":%f,"p99_us":%f}\\n', summary.duration,
    summary.requests, summary.bytes, e.connect + e.read + e.write + e.status + e.timeout, latency:percentile(50), latency:percentile(99)))
end
"""


def fill(server, size, objects):
    """Asks for every object once."""
    with tempfile.NamedTemporaryFile("w", suffix=".curl") as config:
        for number in range(1, objects + 1):
            config.write(f'url = "http://127.0.0.1:{server.clear_port}/{size}/object-{number}"\noutput = "/dev/null"\n')
        config.flush()
        subprocess.run(["curl", "-sS", "--fail", "-Z", "--parallel-max", "8", "-K", config.name], check=True,
                       stderr=subprocess.DEVNULL)


def fill_many(server, size, objects):
    """As `fill`, for so many objects that wrk has to do it: the next ones in each slice of time."""
    done = 0
    while done < objects:
        script = (f'local number = {done}\nrequest = function()\n  number = number % {objects} + 1\n'
                  f'  return wrk.format("GET", "/{size}/object-" .. number)\nend\n')
        done += run_wrk(script, 32, 4, f"http://127.0.0.1:{server.clear_port}/", "1")["requests"]


def wrk(server, scenario, seconds, processors="1"):
    script = UNIFORM % dict(size=scenario["size"], objects=scenario["objects"],
                            fields=', {["Connection"]="close"}' if scenario.get("close") else "")
    script = "init = function() math.randomseed(os.time()) end\n" + script
    if scenario.get("paced"):
        script += "delay = function() return math.random(115, 120) end\n"
    scheme, port = ("https", server.tls_port) if scenario["tls"] else ("http", server.clear_port)
    return run_wrk(script, scenario["connections"], seconds, f"{scheme}://127.0.0.1:{port}/", processors)


def run_wrk(script, connections, seconds, url, processors):
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script + REPORT)
        file.flush()
        pinned = ["taskset", "-c", processors] if processors else []
        said = subprocess.run(pinned + ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "20s", "-s", file.name, url],
                              capture_output=True, text=True)
    found = re.search(r"RESULT (\{.*\})", said.stdout)
    if not found:
        raise RuntimeError(said.stdout + said.stderr)
    return json.loads(found.group(1))


def h2load(server, scenario, seconds, processors="1"):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as targets:
        for number in range(1, scenario["objects"] + 1):
            targets.write(f"https://127.0.0.1:{server.tls_port}/{scenario['size']}/object-{number}\n")
        targets.flush()
        before = time.time()
        said = subprocess.run(["taskset", "-c", processors, "h2load", "-t1", f"-c{scenario['connections']}",
                               f"-m{scenario['streams']}", "-D", str(seconds), "-i", targets.name], capture_output=True, text=True).stdout
        spent = time.time() - before
    requests = re.search(r"requests: \d+ total, \d+ started, \d+ done, (\d+) succeeded, (\d+) failed, (\d+) errored", said)
    traffic = re.search(r"traffic: .*?\((\d+)\) total", said)
    if not requests or not traffic:
        raise RuntimeError(said)
    mean = re.search(r"time for request: +\S+ +\S+ +(\S+)", said)
    succeeded, failed, errored = (int(number) for number in requests.groups())
    # What is under way when the time is over counts as failed; only the other errors are.
    under_way = scenario["connections"] * scenario["streams"]
    return dict(us=spent * 1e6, requests=succeeded, bytes=int(traffic.group(1)),
                errors=max(0, failed + errored - under_way), mean=mean.group(1) if mean else "")


def lab(server, scenario, seconds, processors="1"):
    """Freshet's own generator, a connection and a full handshake for each request: wrk offers a ticket on its second."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "load.toml"
        file.write_text(f'[[requests]]\nclass = "object"\npath = "/{scenario["size"]}/object-{{1-{scenario["objects"]}}}"\n'
                        f'[[steps]]\nconnections = {scenario["connections"]}\nduration = "{seconds}s"\nwarmup = "0s"\nclose = true\n')
        said = subprocess.run([freshet_program(), "lab", "run", file, f"https://127.0.0.1:{server.tls_port}", "--threads", "1",
                               "--cpus", processors, "--check", "0", "--json", "--out", folder], capture_output=True, text=True)
    if not said.stdout:
        raise RuntimeError(said.stderr)
    found = json.loads(said.stdout)["steps"][0]["measured"]
    return dict(us=found["seconds"] * 1e6, requests=found["requests"], bytes=found["body_bytes"] + found["head_bytes"],
                errors=sum(found["errors"].values()))


def measure(server, scenario, seconds, processors="1"):
    """Fills, warms up for a second, and returns what a measured run cost."""
    (fill if scenario["objects"] <= 2000 else fill_many)(server, scenario["size"], scenario["objects"])
    load = h2load if "streams" in scenario else lab if scenario.get("full") else wrk
    load(server, scenario, 1, processors)
    before = server.processor_seconds()
    result = load(server, scenario, seconds, processors)
    spent = server.processor_seconds() - before
    if result["requests"] == 0 or result["bytes"] == 0:
        raise RuntimeError(f"nothing was measured: {result}")
    result.update(processor_us_per_request=spent / max(1, result["requests"]) * 1e6,
                  processor_s_per_gb=spent / max(1, result["bytes"]) * 1e9, processors_busy=spent / (result["us"] / 1e6),
                  requests_per_s=result["requests"] / result["us"] * 1e6, gbit_per_s=result["bytes"] * 8e-3 / result["us"],
                  resident_mb=server.resident_mb())
    return result


CONGESTION_CONTROL = pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control")


@contextlib.contextmanager
def congestion_control(name):
    """TCP as every server here gets it; the machine's own where `name` is None. Changing it needs root."""
    before = CONGESTION_CONTROL.read_text()
    if name:
        CONGESTION_CONTROL.write_text(name)
    try:
        yield
    finally:
        if name:
            CONGESTION_CONTROL.write_text(before)


def machine():
    """What was measured on, in a line."""
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return (f"{os.cpu_count()} x {model.group(1) if model else 'unknown processor'}, Linux {os.uname().release}, "
            f"TCP {CONGESTION_CONTROL.read_text().strip()}")

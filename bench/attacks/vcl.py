"""What a policy may do to a node: a mistake, or a file from elsewhere, costs a request or is refused."""
import asyncio, os, pathlib, resource, subprocess, time

import harness, servers, wire
from harness import attack

POLICIES = "docs/vcl.md"
BACKEND = 'vcl 4.1;\nbackend default { .host = "127.0.0.1"; .port = "ORIGIN"; }\n'
LIMIT_MB, SECONDS = 1024, 30


def refused(bed, why, text, files=(), path=None):
    """Has a node start with a policy that is none, and say why."""
    folder = pathlib.Path(bed.base)
    policy = folder / "bad.vcl"
    policy.write_text(text)
    for name, content in files:
        (folder / name).write_text(content)
    port = servers.free_port()
    command = [servers.freshet_program(), "serve", "--listen", f"127.0.0.1:{port}", "--memory", "64MB", "--vcl", str(path or policy), "--admin", "off"]

    def limit():
        # Address space is reserved and not used; data is what would be filled.
        resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_MB << 20, LIMIT_MB << 20))

    began = time.monotonic()
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS, preexec_fn=limit, cwd=folder,
                              env={**os.environ, "RUNTIME_DIRECTORY": str(folder)})
    except subprocess.TimeoutExpired:
        bed.expect(False, f"{text[:40]!r}: not refused within {SECONDS} s")
        return
    bed.exchanged()
    bed.note(f"{why}: refused after {time.monotonic() - began:.1f} s")
    bed.expect(done.returncode not in (0, -6, -9, -11, 101, 134), f"ended with {done.returncode}: {done.stdout[-200:]}")
    bed.expect("panicked" not in done.stdout and "memory allocation" not in done.stdout, f"not refused but broken: {done.stdout[-200:]}")
    bed.expect(why in done.stdout, f"it does not say {why!r}: {done.stdout[-200:]}")


@attack(promise="a subroutine that calls itself is refused", where=POLICIES)
def recursion(bed):
    backend = BACKEND.replace("ORIGIN", "1")
    refused(bed, "calls itself", backend + "sub a { call b; } sub b { call a; } sub vcl_recv { call a; }")
    deep = "".join(f"sub s{at} {{ call s{at + 1}; }}\n" for at in range(20_000)) + "sub s20000 { }\nsub vcl_recv { call s0; call s20001; }"
    refused(bed, "call one another too deeply", backend + deep)
    refused(bed, "nested too deeply", backend + "sub vcl_recv { " + "if (true) { " * 50_000 + "}" * 50_000 + " }")
    refused(bed, "nested too deeply", backend + "sub vcl_recv { set req.http.x = " + "(" * 100_000 + '"a"' + ")" * 100_000 + "; }")


@attack(promise="files that include one another are refused, and so is what is longer than 16 MiB in all", where=POLICIES)
def include_loops(bed):
    refused(bed, "includes itself", 'vcl 4.1; include "./bad.vcl";')
    refused(bed, "includes itself", 'vcl 4.1; include "./one.vcl";', [("one.vcl", 'include "./two.vcl";'), ("two.vcl", 'include "./one.vcl";')])
    doubling = [(f"f{at}.vcl", f'include "./f{at + 1}.vcl";\n' * 4 + "#" * 1000) for at in range(30)]
    refused(bed, "too large", 'vcl 4.1; include "./f0.vcl";', [*doubling, ("f30.vcl", "# end")])


@attack(promise="no more is read of a file than a policy may be long, also of a device or a pipe", where=POLICIES)
def endless_files(bed):
    for path in ("/dev/zero", "/dev/urandom"):
        refused(bed, "it has more than", "", path=path)
    refused(bed, "Cannot read file", 'vcl 4.1; include "/dev/zero";')
    backend = BACKEND.replace("ORIGIN", "1")
    refused(bed, "vcl_init failed", backend + "import std; sub vcl_init { if (std.fileread(\"/dev/zero\") ~ \"x\") { return (ok); } return (fail); }")


async def ask(bed, target, seconds=30, fields=()):
    reader, writer = await wire.connect(bed.clear_port)
    request = wire.get(target, fields=fields)
    bed.sent(len(request), connections=1)
    writer.write(request)
    began = time.monotonic()
    try:
        async with asyncio.timeout(seconds):
            status, _, _ = await wire.response(reader)
        bed.exchanged()
        return status, time.monotonic() - began
    except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
        return "none", time.monotonic() - began
    finally:
        writer.close()


def evil_requests(bed, policy, count, fields=()):
    """Asks for `/evil` that often while others go on; statuses and the longest time."""
    bed.start(policy=BACKEND + policy, memory_mb=128)

    async def attacker():
        return await asyncio.gather(*(ask(bed, f"/evil/{at}", fields=fields) for at in range(count)))

    answers = bed.run(attacker())
    statuses = sorted({str(status) for status, _ in answers})
    time.sleep(0.5)
    bed.note(f"answered with {statuses}, the last after {max(took for _, took in answers):.1f} s")
    bed.end_victim(delay_ms_max=3000)
    bed.expect(set(statuses) <= {"500", "503"}, f"answered with {statuses}")
    bed.expect_memory(connections=count)


@attack(promise="a request that restarts without end is a 503 after limits.restarts_max", where="docs/configuration.md, [limits]")
def restarts(bed):
    evil_requests(bed, 'sub vcl_recv { if (req.url ~ "^/evil") { return (restart); } }', bed.scale(500, 50))


@attack(promise="a fetch that is retried without end is a 503 after limits.retries_max", where="docs/configuration.md, [limits]")
def retries(bed):
    evil_requests(bed, 'sub vcl_backend_response { if (bereq.url ~ "^/evil") { return (retry); } }', bed.scale(500, 50))


@attack(promise="a pattern that would take for ever ends at a number of steps, and the request with it", where="crates/policy/src/regex.rs, MATCH_STEPS_MAX")
def catastrophic_patterns(bed):
    policy = """sub vcl_recv {
        if (req.url ~ "^/evil") {
            if (req.http.x ~ "^(a+)+$" || req.http.x ~ "^(a|aa)+$" || req.http.x ~ "^(.*?,){20}P") { return (synth(503)); }
            return (synth(503));
        }
    }"""
    evil_requests(bed, policy, bed.scale(200, 30), fields=[("X", "a" * 4000 + "!")])


@attack(promise="a text that grows is bounded by a request's workspace", where="crates/policy/src/runtime/task.rs, WORKSPACE_BYTES_MAX")
def growing_texts(bed):
    policy = """sub vcl_recv {
        if (req.url ~ "^/evil") {
            set req.http.x = "aaaaaaaaaaaaaaaa";
            GROW
            return (synth(200));
        }
    }""".replace("GROW", "set req.http.x = req.http.x + req.http.x;\n" * 60)
    evil_requests(bed, policy, bed.scale(200, 30))


@attack(promise="a list of 50,000 networks is loaded within seconds and asked without a delay", where=POLICIES)
def huge_lists(bed):
    count = bed.scale(50_000, 5_000)
    networks = "".join(f'"10.{at >> 16 & 255}.{at >> 8 & 255}.{at & 255}"/32;\n' for at in range(count))
    policy = BACKEND + f'acl many {{ {networks} }}\nsub vcl_recv {{ if (req.url ~ "^/evil" && client.ip !~ many) {{ return (synth(503)); }} }}'
    began = time.monotonic()
    bed.start(policy=policy, memory_mb=128)
    loaded = time.monotonic() - began

    async def attacker():
        return [await ask(bed, f"/evil/{at}") for at in range(200)]

    took = sorted(took for _, took in bed.run(attacker()))
    bed.note(f"{count} networks loaded in {loaded:.1f} s, asked in {took[100] * 1000:.1f} ms")
    bed.end_victim()
    bed.expect(loaded < 20, f"loaded in {loaded:.1f} s")
    bed.expect(took[100] < 0.05, f"asked in {took[100] * 1000:.0f} ms")
    bed.expect_memory(connections=10, more_mb=32)

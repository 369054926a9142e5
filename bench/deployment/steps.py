"""Steps in a machine, one after another, each of which says what it found."""

import json
import pathlib
import time

from machine import Failed, Machine, end

HERE = pathlib.Path(__file__).resolve().parent
STEPS = []


def step(function):
    STEPS.append(function)
    return function


def want(holds, what):
    if not holds:
        raise Failed(what)


def main_process(machine):
    return machine.run("systemctl show -P MainPID freshet").strip()


def under_load(machine, act, failed_kept_max=0):
    """Has clients ask while `act` does something; what they say. No request may fail but as many as given of
    those on connections that were kept."""
    clients = machine.beside("python3", HERE / "load.py", "clients", "80")
    want(clients.stdout.readline() == "ready\n", "the clients did not start")
    try:
        time.sleep(0.5)
        act()
        time.sleep(0.5)
    finally:
        said = json.loads(end(clients))
    failed = said["failed"]
    kept = [line for line in failed if line.startswith("kept")]
    want(len(failed) == len(kept) and len(kept) <= failed_kept_max, f"{len(failed)} failed: {failed[:5]}")
    want(said["answered"] > 100, f"only {said['answered']} requests were answered")
    return f"{said['answered']} requests under way, {len(failed)} failed"


def waits_for(machine, script, seconds=15):
    """Until a command succeeds."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        said = machine.run(script, check=False)
        if machine.status == 0:
            return said
        time.sleep(0.1)
    raise Failed(f"not within {seconds} s: {script}\n{said}")


def run_steps(prepare, keeps=False):
    """Runs all steps in a new machine, with an origin beside it; the status for the shell."""
    passed = failed = 0
    with Machine() as machine:
        prepare(machine)
        origin = machine.beside("python3", HERE / "load.py", "origin")
        try:
            want(origin.stdout.readline() == "ready\n", "the origin did not start")
            for one in STEPS:
                try:
                    print(f"  {one.__name__:20} {one(machine)}", flush=True)
                    passed += 1
                except Failed as error:
                    failed += 1
                    print(f"! {one.__name__:20} {error}", flush=True)
                    print(machine.run("journalctl -u freshet -n 20 --no-pager", check=False), flush=True)
            if keeps:
                input(f"nsenter --target {machine.leader} --all sh; Enter ends it ")
        finally:
            end(origin)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0

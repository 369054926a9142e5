"""What a program is made of, as a CycloneDX 1.6 document: each crate with its version, licence and checksum.

The crates are those that `cargo tree` says are linked with the program's features; the checksums are those
of Cargo.lock, which cargo holds what it builds against. A program's build without a network of its own
needs none here either.
"""

import datetime
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import tomllib
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[1]
# How each program is built: its crate and features.
BUILDS = {
    "freshet": ("freshet-cli", ["--no-default-features"]),
    "freshet-lab": ("freshet-cli", []),
    "varnishd": ("freshet-varnishd", []),
}
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "pkg:generic/freshet")


def document(name, program, version, epoch, target, libraries=(), more=()):
    """The document of one program, as bytes; `target` is Rust's name of what it was built for, `libraries` are components it is
    shipped with, `more` are arguments for cargo of features it has besides."""
    crate, features = BUILDS[name]
    linked = crates(crate, [*features, *more], target)
    known = metadata(target)
    packages = {package["id"]: package for package in known["packages"] if (package["name"], package["version"]) in linked}
    edges = {node["id"]: node for node in known["resolve"]["nodes"]}
    sums = checksums()
    main = {
        "type": "application", "bom-ref": f"pkg:generic/{name}@{version}", "name": name, "version": version,
        "purl": f"pkg:generic/{name}@{version}", "licenses": [{"expression": "Apache-2.0"}],
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(program.read_bytes()).hexdigest()}],
    }
    components = [component(package, sums, linked) for package in packages.values()]
    dependencies = [{"ref": reference(packages[key]), "dependsOn": sorted({reference(packages[other["pkg"]]) for other in edges[key]["deps"]
                     if other["pkg"] in packages and is_linked(other)})} for key in packages]
    top = [reference(package) for package in packages.values() if package["name"] == crate]
    dependencies.append({"ref": main["bom-ref"], "dependsOn": sorted(top + [one["bom-ref"] for one in libraries])})
    content = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {
            "timestamp": datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "tools": {"components": [{"type": "application", "name": "packaging/build", "version": version}]},
            "component": main,
        },
        "components": sorted([*components, *libraries], key=lambda one: one["bom-ref"]),
        "dependencies": sorted(dependencies, key=lambda one: one["ref"]),
    }
    # The same content has the same number.
    content["serialNumber"] = f"urn:uuid:{uuid.uuid5(NAMESPACE, json.dumps(content, sort_keys=True))}"
    return json.dumps(content, indent=1, sort_keys=True).encode() + b"\n"


def cargo(*arguments):
    return subprocess.run([os.environ.get("CARGO", "cargo"), *arguments, "--locked"], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def crates(crate, features, target):
    """Names and versions of the crates of a program, and whether each is only used while it is built."""
    lines = cargo("tree", "-p", crate, *features, "--edges", "normal", "--prefix", "none", "--format", "{p}", "--target", target).splitlines()
    found = re.findall(r"^(\S+) v(\S+)(.*)$", "\n".join(lines), re.MULTILINE)
    return {(name, version): "(proc-macro)" in rest for name, version, rest in found}


@functools.cache
def metadata(target):
    """What cargo knows of all crates that the workspace can use."""
    return json.loads(cargo("metadata", "--format-version", "1", "--all-features", "--filter-platform", target))


def checksums():
    """SHA-256 of each crate's archive, by name and version."""
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    return {(package["name"], package["version"]): package["checksum"] for package in locked if "checksum" in package}


def is_linked(dependency):
    """Whether a dependency is one of the program, and not only of its tests or its build."""
    return any(kind["kind"] is None for kind in dependency["dep_kinds"])


def reference(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, sums, linked):
    """One crate."""
    name, version = key = package["name"], package["version"]
    found = {"type": "library", "bom-ref": reference(package), "name": name, "version": version, "purl": reference(package)}
    if package["license"]:
        # An old way to write OR.
        found["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", package["license"])}]
    if key in sums:
        found["hashes"] = [{"alg": "SHA-256", "content": sums[key]}]
    if package["repository"]:
        found["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    if linked[key]:
        # A macro runs in the compiler.
        found["scope"] = "excluded"
    return found


def debian_library(path):
    """A library of the system's, by the Debian package it is from; None where dpkg does not know it."""
    for name in (path, os.path.realpath(path), path.removeprefix("/usr"), f"/usr{path}"):
        owner = subprocess.run(["dpkg", "-S", name], capture_output=True, text=True, check=False)
        if owner.returncode == 0:
            package = owner.stdout.split(": ")[0]
            version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], check=True, capture_output=True, text=True).stdout
            purl = f"pkg:deb/debian/{package.partition(':')[0]}@{version.replace('+', '%2B').replace(':', '%3A')}"
            return {"type": "library", "bom-ref": purl, "name": package.partition(":")[0], "version": version, "purl": purl}
    return None

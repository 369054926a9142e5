"""An image for containers, without a daemon: one layer with the program and the libraries it needs.

An OCI image layout (image-spec 1.1) in one archive, as `podman load`, `skopeo copy oci-archive:` and
`docker load` take it. The user is not root, and the root file system may be read-only: what a node
writes is below /run/freshet and, where it has a store, /var/cache/freshet.
"""

import datetime
import hashlib
import json
import pathlib
import re
import subprocess

import sbom
from debian import architecture
from tree import HERE, packed

USER = 10001


def build(tree):
    """Makes the image; its file."""
    root = tree.folder("image/root")
    fill(tree, root)
    layout = tree.folder("image/layout")
    layer = tree.tar(root, owners={"run/freshet": USER, "var/cache/freshet": USER})
    created = datetime.datetime.fromtimestamp(tree.epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    about = {
        "org.opencontainers.image.title": "freshet",
        "org.opencontainers.image.description": "edge cache for HTTP",
        "org.opencontainers.image.version": tree.version,
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    config = {
        "created": created,
        "architecture": architecture(),
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "ExposedPorts": {"8080/tcp": {}},
            # What is mounted there is root's, with a place in it for everybody.
            "Env": ["PATH=/usr/bin", "RUNTIME_DIRECTORY=/run/freshet/node"],
            "Entrypoint": ["/usr/bin/freshet"],
            "Cmd": ["serve", "--config", "/etc/freshet/freshet.toml"],
            "WorkingDir": "/",
            "Labels": about,
            "StopSignal": "SIGTERM",
        },
        "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
        "history": [{"created": created, "created_by": "packaging/build image"}],
    }
    layer = packed(layer)
    layer_at = blob(layout, "application/vnd.oci.image.layer.v1.tar+gzip", layer)
    config_at = blob(layout, "application/vnd.oci.image.config.v1+json", encode(config))
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config_at,
        "layers": [layer_at],
        "annotations": about,
    }
    manifest_at = blob(layout, "application/vnd.oci.image.manifest.v1+json", encode(manifest))
    manifest_at["platform"] = {"architecture": architecture(), "os": "linux"}
    manifest_at["annotations"] = {"org.opencontainers.image.ref.name": tree.version, "io.containerd.image.name": f"freshet:{tree.version}"}
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [manifest_at]}
    (layout / "index.json").write_bytes(encode(index))
    (layout / "oci-layout").write_bytes(encode({"imageLayoutVersion": "1.0.0"}))
    tree.settle(layout)
    target = tree.out / f"freshet-{tree.version}-{architecture()}.oci.tar"
    target.write_bytes(tree.tar(layout))
    return target


def fill(tree, root):
    """The files of the image."""
    program = tree.programs["freshet"]
    tree.install(root, "usr/bin/freshet", program, 0o755)
    paths = libraries(program)
    for path in paths:
        tree.install(root, path.lstrip("/"), pathlib.Path(path).resolve(), 0o755)
    known = {library["bom-ref"]: library for library in map(sbom.debian_library, paths) if library}
    tree.install(root, "usr/share/doc/freshet/freshet.cdx.json", tree.bom("freshet", tuple(known.values())))
    tree.install(root, "etc/ssl/certs/ca-certificates.crt", pathlib.Path("/etc/ssl/certs/ca-certificates.crt"))
    tree.install(root, "etc/passwd", f"root:x:0:0:root:/:/none\nfreshet:x:{USER}:{USER}:freshet:/:/none\n".encode())
    tree.install(root, "etc/group", f"root:x:0:\nfreshet:x:{USER}:\n".encode())
    tree.install(root, "etc/nsswitch.conf", b"hosts: files dns\n")
    tree.install(root, "etc/freshet/freshet.toml", HERE / "container.toml")
    tree.install(root, "usr/share/freshet/welcome.vcl", HERE / "welcome.vcl")
    for folder in ("run/freshet", "var/cache/freshet", "tmp", "proc", "sys", "dev"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    tree.settle(root)


def libraries(program):
    """The shared libraries of a program, its loader among them, as paths it looks for."""
    shown = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    return sorted(set(re.findall(r"(/\S+) \(0x", shown)))


def digest(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def encode(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def blob(layout, media_type, content):
    """Puts content into the layout; its descriptor."""
    name = digest(content)
    path = layout / "blobs" / name.replace(":", "/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return {"mediaType": media_type, "digest": name, "size": len(content)}

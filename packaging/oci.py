"""An image for containers, without a daemon: one layer with the program and the libraries it needs.

An OCI image layout (image-spec 1.1) in one archive, as `podman load`, `skopeo copy oci-archive:` and
`docker load` take it. The user is not root, and the root file system may be read-only: what a node
writes is below /run/freshet and, where it has a store, /var/cache/freshet.
"""

import datetime
import hashlib
import json
import pathlib
import tarfile

import sbom
from tree import HERE, packed

USER = 10001
INDEX = "application/vnd.oci.image.index.v1+json"


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
        "architecture": tree.architecture.name,
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
    manifest_at["platform"] = {"architecture": tree.architecture.name, "os": "linux"}
    manifest_at["annotations"] = {"org.opencontainers.image.ref.name": tree.version, "io.containerd.image.name": f"freshet:{tree.version}"}
    return finish(tree, layout, [manifest_at], f"freshet-{tree.version}-{tree.architecture.name}.oci.tar")


def join(tree, images):
    """Makes one image of several, each for another kind of processor; its file."""
    layout = tree.folder("image/joined")
    manifests = []
    for image in images:
        with tarfile.open(image) as archive:
            manifests += json.load(archive.extractfile("index.json"))["manifests"]
            archive.extractall(layout, [member for member in archive if member.name.startswith("blobs")], filter="data")
    kinds = [manifest["platform"]["architecture"] for manifest in manifests]
    if len(set(kinds)) < len(kinds):
        raise ValueError(f"there are two images for one kind of processor: {' '.join(kinds)}")
    # Who loads the archive finds one image by the version, and in it the one for its processor.
    annotations = manifests[0]["annotations"]
    for manifest in manifests:
        del manifest["annotations"]
    index_at = blob(layout, INDEX, index(manifests))
    index_at["annotations"] = annotations
    return finish(tree, layout, [index_at], f"freshet-{tree.version}.oci.tar")


def index(manifests):
    """A list of images, as bytes."""
    return encode({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests})


def finish(tree, layout, manifests, name):
    """One archive of a layout; its file."""
    (layout / "index.json").write_bytes(index(manifests))
    (layout / "oci-layout").write_bytes(encode({"imageLayoutVersion": "1.0.0"}))
    tree.settle(layout)
    target = tree.out / name
    target.write_bytes(tree.tar(layout))
    return target


def fill(tree, root):
    """The files of the image."""
    program = tree.programs["freshet"]
    tree.install(root, "usr/bin/freshet", program, 0o755)
    libraries = {path: tree.architecture.root + path for path in tree.architecture.libraries(program)}
    for path, here in libraries.items():
        tree.install(root, path.lstrip("/"), pathlib.Path(here).resolve(), 0o755)
    known = {library["bom-ref"]: library for library in map(sbom.debian_library, libraries.values()) if library}
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

"""Debian packages, by dpkg-deb alone."""

import email.utils
import hashlib
import os
import subprocess
import textwrap

from tree import HERE, packed

MAINTAINER = "The Freshet authors <freshet@packages.invalid>"

DESCRIPTION = """\
Freshet keeps what an origin serves and serves it to many: HTTP/1.1 and HTTP/2, TLS, memory and disks
as stores, policies in VCL, reloads and upgrades without losing a request."""

PACKAGES = {
    "freshet": {
        "section": "httpd",
        "summary": "edge cache for HTTP",
        "description": DESCRIPTION,
        "depends": ["systemd | systemd-standalone-sysusers", "systemd | systemd-standalone-tmpfiles"],
        "suggests": ["freshet-lab", "logrotate"],
    },
    "freshet-lab": {
        "section": "net",
        "summary": "edge cache for HTTP - load generator, planner and demonstration",
        "description": DESCRIPTION + """

This package has the program with everything in it, as freshet-lab: it also measures servers by the
methods of published studies, plans capacity, and shows the whole thing with viewers.""",
        "depends": [],
        "suggests": ["freshet"],
    },
    "freshet-varnish": {
        "section": "httpd",
        "summary": "edge cache for HTTP - started, driven and watched as Varnish is",
        "description": DESCRIPTION + """

This package has a varnishd that takes the options, commands and policies of Varnish Cache 7.1 and
is read by its tools. It is in /usr/lib/freshet, so that Varnish may stay installed beside it.""",
        "depends": [],
        "suggests": ["varnish"],
    },
}


def build(tree, package, compression="xz"):
    """Makes one package; its file."""
    folder = tree.folder(f"deb/{package}")
    if package == "freshet-varnish":
        program = tree.programs["varnishd"]
        tree.install(folder, "usr/lib/freshet/varnishd", program, 0o755)
    else:
        program = tree.programs[package]
        tree.install_program(folder, package)
    if package == "freshet":
        service(tree, folder)
    documents = f"usr/share/doc/{package}"
    tree.install(folder, f"{documents}/copyright", HERE / "debian/copyright")
    tree.install(folder, f"{documents}/changelog.gz", packed(changelog(package, tree.version, tree.epoch)))
    tree.install(folder, f"{documents}/{package}.cdx.json", tree.bom(program.name))
    tree.settle(folder)
    control(tree, folder, package, program, tree.version)
    machine = tree.architecture.name
    target = tree.out / f"{package}_{tree.version}_{machine}.deb"
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", f"-Z{compression}", "-z1" if compression == "gzip" else "-z6", "--build", folder, target],
        check=True, stdout=subprocess.DEVNULL, env={**os.environ, "SOURCE_DATE_EPOCH": str(tree.epoch)},
    )
    return target


def service(tree, folder):
    """What the service needs besides its program."""
    for name in ("freshet.service", "freshet.socket"):
        tree.install(folder, f"lib/systemd/system/{name}", HERE / name)
    tree.install(folder, "usr/lib/sysusers.d/freshet.conf", HERE / "freshet.sysusers")
    tree.install(folder, "usr/lib/tmpfiles.d/freshet.conf", HERE / "freshet.tmpfiles")
    tree.install(folder, "usr/share/freshet/welcome.vcl", HERE / "welcome.vcl")
    for name in ["alerts.yml", "dashboard.json"]:
        tree.install(folder, f"usr/share/freshet/monitoring/{name}", HERE / "monitoring" / name)
    tree.install(folder, "etc/freshet/freshet.toml", HERE / "freshet.toml")
    tree.install(folder, "etc/logrotate.d/freshet", HERE / "debian/logrotate")


def control(tree, folder, package, program, version):
    """The part that dpkg reads."""
    about = PACKAGES[package]
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    sums = "".join(f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n" for path in files)
    kilobytes = sum(-(-path.stat().st_size // 1024) for path in files)
    fields = {
        "Package": package,
        "Version": version,
        "Architecture": tree.architecture.name,
        "Maintainer": MAINTAINER,
        "Installed-Size": str(kilobytes),
        "Depends": ", ".join(libraries(tree, program) + about["depends"]),
        "Suggests": ", ".join(about["suggests"]),
        "Section": about["section"],
        "Priority": "optional",
        "Description": f"{about['summary']}\n{paragraphs(about['description'])}",
    }
    text = "".join(f"{name}: {value}\n" for name, value in fields.items())
    tree.install(folder, "DEBIAN/control", text.encode())
    tree.install(folder, "DEBIAN/md5sums", sums.encode())
    if package == "freshet":
        kept = "".join(f"/{path.relative_to(folder)}\n" for path in files if path.is_relative_to(folder / "etc"))
        tree.install(folder, "DEBIAN/conffiles", kept.encode())
        for script in ("preinst", "postinst", "prerm", "postrm"):
            tree.install(folder, f"DEBIAN/{script}", HERE / "debian" / script, 0o755)


def paragraphs(text):
    """A description as control files have it: lines indented, an empty one as a dot."""
    lines = []
    for paragraph in text.split("\n\n"):
        lines += [*textwrap.wrap(" ".join(paragraph.split()), 76), "."]
    return "\n".join(f" {line}" for line in lines[:-1])


def libraries(tree, program):
    """The packages a program's libraries are in, with the versions its symbols want."""
    folder = tree.scratch / "shlibdeps"
    (folder / "debian").mkdir(parents=True, exist_ok=True)
    (folder / "debian/control").write_text("Source: freshet\n\nPackage: freshet\nArchitecture: any\n", encoding="ascii")
    machine = tree.architecture.name
    search = [] if tree.architecture.is_own else [f"-l{tree.architecture.root}/lib"]
    shown = subprocess.run(["dpkg-shlibdeps", *search, "-O", program], cwd=folder, check=True, capture_output=True, text=True,
                           env={**os.environ, "DEB_HOST_ARCH": machine})
    found = shown.stdout.strip().removeprefix("shlibs:Depends=")
    # Libraries to build against for another kind of processor have it in the names of their packages.
    return found.replace(f":{machine}", "").replace(f"-{machine}-cross", "").split(", ")


def changelog(package, version, epoch):
    """A changelog with one entry."""
    date = email.utils.formatdate(epoch)
    return f"freshet ({version}) unstable; urgency=medium\n\n  * Package of {package}; CHANGELOG.md has what changed.\n\n -- {MAINTAINER}  {date}\n".encode()

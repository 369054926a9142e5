//! Images of apps: layers over layers, and what an image may not be.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

use aws_lc_rs::digest::{SHA256, digest};
use flate2::Compression;
use flate2::write::GzEncoder;
use freshet_package::image::{Image, unpack};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

/// An entry of a layer: its kind, its name, and what is in it or where it leads.
type Entry<'a> = (EntryType, &'a str, &'a str);

const FILE: EntryType = EntryType::Regular;
const FOLDER: EntryType = EntryType::Directory;
const LINK: EntryType = EntryType::Symlink;
const HARD_LINK: EntryType = EntryType::Link;

fn layer(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (kind, name, content) in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(if *kind == FOLDER { 0o755 } else { 0o644 });
        let ours = fs::metadata("/proc/self").unwrap();
        header.set_uid(std::os::unix::fs::MetadataExt::uid(&ours).into());
        header.set_gid(std::os::unix::fs::MetadataExt::gid(&ours).into());
        // As it is, also where it leads up: builders refuse such names.
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        if matches!(*kind, LINK | HARD_LINK) {
            header.set_link_name_literal(content).unwrap();
            header.set_size(0);
        } else {
            header.set_size(content.len() as u64);
        }
        header.set_cksum();
        let content = if header.size().unwrap() == 0 { "" } else { content };
        builder.append(&header, content.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

/// An image layout that is made.
struct Layout {
    folder: TempDir,
    layers: Vec<Value>,
    config: Value,
}

impl Layout {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("image/blobs/sha256")).unwrap();
        let config = json!({"config": {"Cmd": ["/run"]}});
        Self { folder, layers: Vec::new(), config }
    }

    fn image(&self) -> PathBuf {
        self.folder.path().join("image")
    }

    fn part(&self, kind: &str, bytes: &[u8]) -> Value {
        let hash = digest(&SHA256, bytes);
        let hex: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        fs::write(self.image().join("blobs/sha256").join(&hex), bytes).unwrap();
        let kind = format!("application/vnd.oci.image.{kind}");
        json!({"mediaType": kind, "digest": format!("sha256:{hex}"), "size": bytes.len()})
    }

    fn with(mut self, entries: &[Entry<'_>]) -> Self {
        let part = self.part("layer.v1.tar", &layer(entries));
        self.layers.push(part);
        self
    }

    /// Writes what leads to the parts.
    fn close(&self) {
        let config = self.part("config.v1+json", self.config.to_string().as_bytes());
        let manifest = json!({"config": config, "layers": self.layers});
        let manifest = self.part("manifest.v1+json", manifest.to_string().as_bytes());
        let index = json!({"manifests": [manifest]});
        fs::write(self.image().join("index.json"), index.to_string()).unwrap();
    }

    fn rootfs(&self) -> PathBuf {
        self.folder.path().join("rootfs")
    }

    fn unpack(&self) -> Result<Image, String> {
        self.close();
        let found = unpack(&self.image(), &self.rootfs()).map_err(|error| error.to_string());
        assert_eq!(found.is_ok(), self.rootfs().exists());
        assert!(!self.rootfs().with_extension("layout").exists());
        found
    }

    fn has(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.rootfs().join(name)).ok()
    }
}

#[test]
fn layers_go_over_each_other() {
    let mut layout = Layout::new().with(&[
        (FOLDER, "./", ""),
        (FOLDER, "etc/", ""),
        (FILE, "etc/passwd", "root:x:0:0::/:/\napp:x:1000:2000::/:/\n"),
        (FILE, "etc/group", "web:x:3000:\n"),
        (FILE, "a/one", "1"),
        (FILE, "a/two", "2"),
        (FILE, "b/three", "3"),
        (FILE, "b/deep/four", "4"),
        (LINK, "bin", "usr/bin"),
        (FOLDER, "usr/bin/", ""),
    ]);
    let gone = layer(&[
        (FILE, "a/.wh.one", ""),
        (FILE, "b/five", "5"),
        (FILE, "b/.wh..wh..opq", ""),
        (FILE, "bin/tool", "t"),
        // A file in a folder's place, and a folder in a file's.
        (FILE, "usr/lib", "l"),
        (FOLDER, "a/two/", ""),
        (HARD_LINK, "usr/hard", "usr/lib"),
    ]);
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(&gone).unwrap();
    let part = layout.part("layer.v1.tar+gzip", &packed.finish().unwrap());
    layout.layers.push(part);
    layout.config = json!({"config": {
        "Entrypoint": ["/usr/bin/tool"], "Cmd": ["-x"], "Env": ["A=1"], "User": "app:web", "WorkingDir": "/a",
        "ExposedPorts": {"8443/tcp": {}, "80": {}, "53/udp": {}}, "StopSignal": "SIGQUIT",
    }});
    let image = layout.unpack().unwrap();
    assert_eq!(image.command, ["/usr/bin/tool", "-x"]);
    let index = fs::read_to_string(layout.image().join("index.json")).unwrap();
    let index: Value = serde_json::from_str(&index).unwrap();
    assert_eq!(image.digest, index["manifests"][0]["digest"].as_str().unwrap());
    assert_eq!((image.user, image.ports.as_slice()), ([1000, 3000], &[80, 8443][..]));
    assert_eq!((image.folder.as_str(), image.stop_signal.as_str()), ("/a", "SIGQUIT"));
    assert_eq!(
        (layout.has("a/one"), layout.has("b/three"), layout.has("b/deep/four")),
        (None, None, None)
    );
    assert_eq!(layout.has("b/five").as_deref(), Some("5"));
    assert_eq!(layout.has("usr/bin/tool").as_deref(), Some("t"));
    assert_eq!(layout.has("usr/hard").as_deref(), Some("l"));
    assert!(layout.rootfs().join("a/two").is_dir());
    // The same as one archive.
    let archive = layout.folder.path().join("image.tar");
    let mut builder = Builder::new(fs::File::create(&archive).unwrap());
    builder.append_dir_all(".", layout.image()).unwrap();
    builder.finish().unwrap();
    let other = layout.folder.path().join("other");
    assert_eq!(unpack(&archive, &other).unwrap(), image);
    assert!(other.join("b/five").exists() && !layout.folder.path().join("other.layout").exists());
}

#[test]
fn a_layer_may_lack_what_fills_its_last_block() {
    // As umoci's `insert` writes them.
    let whole = layer(&[(FILE, "run", "program")]);
    let mut layout = Layout::new();
    layout.layers.push(layout.part("layer.v1.tar", &whole[..512 + "program".len()]));
    layout.layers.push(layout.part("layer.v1.tar", &layer(&[(FILE, ".wh.none", "")])[..512]));
    layout.unpack().unwrap();
    assert_eq!(layout.has("run").as_deref(), Some("program"));
    // But not an end of its file, nor of its head.
    for length in [512 + 3, 512, 300] {
        let mut layout = Layout::new();
        layout.layers.push(layout.part("layer.v1.tar", &whole[..length]));
        layout.unpack().unwrap_err();
    }
}

#[test]
fn layers_may_be_packed_by_zstd() {
    let plain = layer(&[(FILE, "run", &"program ".repeat(50_000))]);
    let pack = |plain: &[u8], level: i32| {
        let mut packed = vec![0; zstd_safe::compress_bound(plain.len())];
        let length = zstd_safe::compress(&mut packed[..], plain, level).unwrap();
        packed.truncate(length);
        packed
    };
    let (first, second) = plain.split_at(100_000);
    // Of several frames, one of which says nothing, as those that may be read in parts have.
    let mut frames = pack(first, 3);
    frames.extend([0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4]);
    frames.extend(pack(second, 19));
    for kind in ["layer.v1.tar+zstd", "layer.nondistributable.v1.tar+zstd"] {
        let mut layout = Layout::new();
        layout.layers.push(layout.part(kind, &frames));
        layout.unpack().unwrap();
        assert_eq!(layout.has("run").map(|text| text.len()), Some(400_000));
    }
    for broken in [&frames[..frames.len() - 9], &plain, &[]] {
        let mut layout = Layout::new();
        layout.layers.push(layout.part("layer.v1.tar+zstd", broken));
        layout.unpack().unwrap_err();
    }
}

#[test]
fn an_archive_of_docker_before_it_wrote_layouts_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("image.tar");
    let entries = [(FILE, "manifest.json", "[]"), (LINK, "1/layer.tar", "../2/layer.tar")];
    fs::write(&archive, layer(&entries)).unwrap();
    let rootfs = folder.path().join("rootfs");
    let said = unpack(&archive, &rootfs).unwrap_err().to_string();
    assert!(said.contains("skopeo copy docker-archive:"), "{said}");
    assert!(!rootfs.exists() && !folder.path().join("rootfs.layout").exists());
}

#[test]
fn what_leads_out_of_an_image_is_refused_and_leaves_nothing() {
    let outside = tempfile::tempdir().unwrap();
    let out = outside.path().to_str().unwrap();
    fs::write(outside.path().join("kept"), "kept").unwrap();
    let up = format!("..{out}/x");
    let through = [(LINK, "door", out), (FILE, "door/x", "x")];
    let chained = [(LINK, "a", "b"), (LINK, "b", out), (FILE, "a/x", "x")];
    let gone = [(LINK, "door", out), (FILE, "door/.wh.kept", "")];
    let all_gone = [(LINK, "door", out), (FILE, "door/.wh..wh..opq", "")];
    let hard = format!("{out}/kept");
    let linked = [(HARD_LINK, "mine", hard.as_str())];
    let device = [(EntryType::Char, "null", "")];
    let pipe = [(EntryType::Fifo, "pipe", "")];
    for (entries, what) in [
        (&[(FILE, up.as_str(), "x")][..], "leads out"),
        (&[(FILE, "a/../../x", "x")], "leads out"),
        (&through, "leads out"),
        (&chained, "leads out"),
        (&gone, "leads out"),
        (&all_gone, "leads out"),
        (&linked, "cannot be unpacked"),
        (&device, "neither a file, a folder nor a link"),
        (&pipe, "neither a file, a folder nor a link"),
    ] {
        let layout = Layout::new().with(&[(FILE, "run", "")]).with(entries);
        let said = layout.unpack().unwrap_err();
        assert!(said.contains(what), "{entries:?}: {said}");
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1, "{entries:?}");
    }
    // A folder in place of a link to one changes the link, not what it leads to.
    let before = fs::metadata(outside.path()).unwrap().permissions();
    let layout = Layout::new().with(&[(LINK, "door", out)]).with(&[(FOLDER, "door", "")]);
    layout.unpack().unwrap();
    assert!(fs::symlink_metadata(layout.rootfs().join("door")).unwrap().is_dir());
    assert_eq!(fs::metadata(outside.path()).unwrap().permissions(), before);
    // Names of users are the image's own, whatever its files lead to.
    let mut layout =
        Layout::new().with(&[(FOLDER, "etc/", ""), (LINK, "etc/passwd", "/etc/passwd")]);
    layout.config["config"]["User"] = "daemon".into();
    assert!(layout.unpack().unwrap_err().contains("daemon"));
}

/// What a layer says is gone is a child of its folder, never the folder, one above, or what is beside the image.
#[test]
fn names_of_what_is_gone_lead_nowhere_else() {
    for name in [".wh.", ".wh..", ".wh...", "a/.wh.", "a/.wh..", "a/.wh...", "a/b/.wh..."] {
        let layout = Layout::new()
            .with(&[(FILE, "a/b/kept", "kept"), (FILE, "run", "x")])
            .with(&[(FILE, name, "")]);
        let beside = layout.folder.path().join("beside");
        fs::write(&beside, "kept").unwrap();
        let said = layout.unpack().unwrap_err();
        assert!(said.contains("says that nothing is gone"), "{name}: {said}");
        assert!(beside.exists() && layout.image().join("index.json").exists(), "{name}");
    }
    // A link that is gone is the link.
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("kept"), "kept").unwrap();
    let layout = Layout::new()
        .with(&[(LINK, "door", outside.path().to_str().unwrap()), (LINK, "a/up", "..")])
        .with(&[(FILE, ".wh.door", ""), (FILE, "a/.wh.up", "")]);
    layout.unpack().unwrap();
    assert!(outside.path().join("kept").exists());
    assert!(fs::symlink_metadata(layout.rootfs().join("door")).is_err());
    // A name need not be text.
    let mut layout = Layout::new().with(&[(FILE, "run", "x")]);
    let mut bytes = layer(&[(FILE, "odd", "x")]);
    bytes[2] = 0xff;
    let mut gone = layer(&[(FILE, ".wh.odd", "")]);
    gone[6] = 0xff;
    for bytes in [&mut bytes, &mut gone] {
        bytes[148..156].fill(b' ');
        let sum: u32 = bytes[..512].iter().map(|byte| u32::from(*byte)).sum();
        bytes[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let part = layout.part("layer.v1.tar", bytes);
        layout.layers.push(part);
    }
    layout.unpack().unwrap();
    let left = fs::read_dir(layout.rootfs()).unwrap().map(|one| one.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["run"]);
}

/// Layers say of layers below that something is gone, and of themselves nothing, in whatever order.
#[test]
fn what_a_layer_has_itself_is_not_gone() {
    let below = [
        (FILE, "a/old", "1"),
        (FILE, "a/deep/old", "1"),
        (FILE, "b/old", "1"),
        (FILE, "b/deep/old", "1"),
        (FILE, "c", "1"),
        (FILE, "d/old", "1"),
    ];
    let own = [
        (FILE, "a/deep/new", "2"),
        (FILE, "a/new", "2"),
        (FOLDER, "b/", ""),
        (FOLDER, "b/deep/", ""),
        (FILE, "b/deep/new", "2"),
        (FILE, "c", "2"),
        (FILE, "d", "2"),
    ];
    let gone = [
        (FILE, "a/.wh..wh..opq", ""),
        (FILE, ".wh.b", ""),
        (FILE, ".wh.c", ""),
        (FILE, ".wh.d", ""),
    ];
    for entries in [[&own[..], &gone].concat(), [&gone[..], &own].concat()] {
        let layout = Layout::new().with(&below).with(&entries);
        layout.unpack().unwrap();
        for (name, content) in [
            ("a/old", None),
            ("a/deep/old", None),
            ("b/old", None),
            ("b/deep/old", None),
            ("a/deep/new", Some("2")),
            ("a/new", Some("2")),
            ("b/deep/new", Some("2")),
            ("c", Some("2")),
            ("d", Some("2")),
        ] {
            assert_eq!(layout.has(name).as_deref(), content, "{name}: {entries:?}");
        }
    }
}

#[test]
fn parts_that_are_not_what_they_are_called_are_refused() {
    let good = || Layout::new().with(&[(FILE, "run", "x")]);
    let damaged = |layout: &Layout, part: &Value| {
        let path = part["digest"].as_str().unwrap().replace("sha256:", "blobs/sha256/");
        layout.image().join(path)
    };
    let layout = good();
    let path = damaged(&layout, &layout.layers[0]);
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    assert!(layout.unpack().unwrap_err().contains("is not what its digest says"));
    let layout = good();
    fs::remove_file(damaged(&layout, &layout.layers[0])).unwrap();
    assert!(layout.unpack().unwrap_err().contains("is not there"));
    for (change, what) in [
        (json!({"digest": "sha256:../../../etc/passwd"}), "it must be SHA-256"),
        (json!({"digest": "md5:00"}), "it must be SHA-256"),
        (
            json!({"mediaType": "application/vnd.oci.image.layer.v1.tar+xz"}),
            "tar+gzip and tar+zstd",
        ),
        (json!({"mediaType": "application/vnd.oci.image.layer.v1.tar+zstd"}), "zstd: "),
    ] {
        let mut layout = good();
        let members = change.as_object().unwrap().clone();
        layout.layers[0].as_object_mut().unwrap().extend(members);
        let said = layout.unpack().unwrap_err();
        assert!(said.contains(what), "{said}");
    }
    let mut layout = good();
    layout.config = json!({"config": {}});
    assert!(layout.unpack().unwrap_err().contains("says no command"));
    let mut layout = good();
    layout.layers.clear();
    assert!(layout.unpack().unwrap_err().contains("0 layers"));
    let layout = good();
    layout.close();
    let elsewhere = json!({"manifests": [{"platform": {"architecture": "mips", "os": "linux"}}]});
    fs::write(layout.image().join("index.json"), elsewhere.to_string()).unwrap();
    let said = unpack(&layout.image(), &layout.rootfs()).unwrap_err().to_string();
    assert!(said.contains("has no image for linux/"), "{said}");
    let is_left = |path: &Path| fs::read_dir(path).is_ok();
    assert!(!is_left(&layout.rootfs()));
    // Nor is a tree filled that is there already.
    let layout = good();
    layout.close();
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), layout.rootfs()).unwrap();
    assert!(unpack(&layout.image(), &layout.rootfs()).is_err());
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

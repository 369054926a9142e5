//! Packages as makers make them, and as attackers do: real archives, signed by openssl.

#![allow(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

use aws_lc_rs::digest::{SHA256, digest};
use freshet_package::limits::{ENTRIES_MAX, NAME_PART_BYTES_MAX, RATIO_FREE_BYTES};
use freshet_package::{Package, PackageError, Trust, unpack};
use serde_json::json;
use std::fmt::Write as _;
use std::fs;
use std::io::{Cursor, Write};
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

#[path = "../../../tests/skip.rs"]
mod skip;

const META: &str = "TOSCA-Meta-File-Version: 1.0\nCSAR-Version: 1.1\nCreated-By: test\n\
                    Entry-Definitions: Definitions/appd.json\nETSI-Entry-Manifest: cache.mf\n";

/// A package that is being made: its files, the manifest aside.
struct Maker {
    files: Vec<(String, Vec<u8>)>,
}

impl Maker {
    fn new() -> Self {
        let descriptor = json!({
            "appDId": "cache-d", "appName": "cache", "appProvider": "freshet", "appSoftVersion": "1",
            "appDVersion": "1", "mecVersion": "3.1.1", "appDescription": "a caching node",
            "swImageDescriptor": [{"id": "i", "name": "node", "version": "1", "swImage": "Artifacts/image"}],
        });
        let files = vec![
            ("TOSCA-Metadata/TOSCA.meta".to_owned(), META.as_bytes().to_vec()),
            ("Definitions/appd.json".to_owned(), descriptor.to_string().into_bytes()),
            ("Artifacts/image/index.json".to_owned(), vec![7; 100_000]),
        ];
        Self { files }
    }

    fn manifest(&self) -> String {
        let mut text = "metadata:\n  app_product_name: cache\n\n".to_owned();
        for (name, bytes) in &self.files {
            let hash: String =
                digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(text, "Source: {name}\nAlgorithm: SHA-256\nHash: {hash}\n").unwrap();
        }
        text
    }

    fn archive(&self, manifest: &str) -> Vec<u8> {
        let mut files = self.files.clone();
        files.push(("cache.mf".to_owned(), manifest.as_bytes().to_vec()));
        archive(&files)
    }
}

fn archive(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        zip.start_file(name.as_str(), SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Unpacks bytes in a folder of their own; what is refused must leave nothing.
fn open(bytes: &[u8], trust: &Trust, now_s: u64) -> Result<Package, PackageError> {
    let folder = TempDir::new().unwrap();
    let (path, into) = (folder.path().join("a.csar"), folder.path().join("unpacked"));
    fs::write(&path, bytes).unwrap();
    let result = unpack(&path, &into, trust, now_s);
    match &result {
        Ok(package) => {
            assert!(package.files.iter().all(|name| into.join(name).is_file()), "{package:?}");
        }
        Err(_) => assert!(!into.exists()),
    }
    // Nor beside it.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1 + usize::from(result.is_ok()));
    result
}

fn refused(bytes: &[u8]) -> String {
    open(bytes, &Trust::anybody(), now_s()).unwrap_err().to_string()
}

#[test]
fn a_package_is_unpacked_as_it_was_made() {
    let maker = Maker::new();
    let package = open(&maker.archive(&maker.manifest()), &Trust::anybody(), now_s()).unwrap();
    assert_eq!(package.descriptor["appName"], "cache");
    assert_eq!((package.files.len(), package.signer), (4, None));
}

#[test]
fn names_may_be_said_as_find_says_them() {
    let mut maker = Maker::new();
    for name in ["TOSCA-Metadata/TOSCA.meta", "Definitions/appd.json"] {
        let (_, bytes) = maker.files.iter_mut().find(|(known, _)| known == name).unwrap();
        let text = String::from_utf8(bytes.clone()).unwrap();
        let said = ["Definitions/", "cache.mf", "Artifacts/"];
        let said = said.iter().fold(text, |text, name| text.replace(name, &format!("./{name}")));
        assert!(said.contains("./"), "{said}");
        *bytes = said.into_bytes();
    }
    let manifest = maker.manifest().replace("Source: ", "Source: ./");
    let package = open(&maker.archive(&manifest), &Trust::anybody(), now_s()).unwrap();
    assert_eq!(package.files.len(), 4);
    let climbing = manifest.replace("./Artifacts", "./../Artifacts");
    assert!(refused(&maker.archive(&climbing)).contains("does not have Artifacts"));
}

#[test]
fn what_the_manifest_does_not_say_so_is_refused() {
    let maker = Maker::new();
    let good = maker.manifest();
    for (manifest, what) in [
        (good.replace("Hash: ", "Hash: 0"), "is not what the manifest says"),
        (good.replace("SHA-256", "MD5"), "has MD5"),
        (
            good.replace("Source: Artifacts/image/index.json", "Source: other"),
            "does not have Artifacts",
        ),
        (format!("{good}Source: other\nAlgorithm: SHA-256\nHash: 00\n"), "has other, which is not"),
        ("metadata:\n".to_owned(), "does not have TOSCA-Metadata"),
    ] {
        let said = refused(&maker.archive(&manifest));
        assert!(said.contains(what), "{said}");
    }
    let mut changed = Maker::new();
    changed.files[2].1[50] = 8;
    assert!(refused(&changed.archive(&good)).contains("Artifacts/image/index.json: is not what"));
    for index in 0..3 {
        let mut lacking = Maker::new();
        lacking.files.remove(index);
        let said = refused(&lacking.archive(&lacking.manifest()));
        assert!(said.contains("is missing") || said.contains("not in the package"), "{said}");
    }
    let mut other = Maker::new();
    other.files[1].1 = b"{\"appDId\": \"x\"}".to_vec();
    assert!(refused(&other.archive(&other.manifest())).contains("lacks appName"));
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    for name in ["../evil", "/tmp/evil", "a/../../evil", "a\\..\\evil", "c:evil", "a//evil"] {
        let mut maker = Maker::new();
        maker.files.push(("AAAA".to_owned(), b"x".to_vec()));
        let mut padded = name.to_owned();
        while padded.len() < 12 {
            padded.push('l');
        }
        // The library that makes archives would mend the name: it is put into both places of it.
        maker.files.last_mut().unwrap().0 = "A".repeat(padded.len());
        let bytes = maker.archive(&maker.manifest());
        let bytes = replaced(&bytes, "A".repeat(padded.len()).as_bytes(), padded.as_bytes());
        let said = refused(&bytes);
        assert!(said.contains("leads out") || said.contains("signs"), "{name}: {said}");
    }
}

/// Bytes with each place of `from` changed.
fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = bytes.to_vec();
    let mut count = 0;
    for at in 0..=bytes.len() - from.len() {
        if bytes[at..].starts_with(from) {
            bytes[at..at + from.len()].copy_from_slice(to);
            count += 1;
        }
    }
    assert!(count >= 2, "{count}");
    bytes
}

#[test]
fn links_devices_and_names_that_are_there_twice_are_refused() {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    zip.add_symlink("link", "/etc/passwd", SimpleFileOptions::default()).unwrap();
    assert!(refused(&zip.finish().unwrap().into_inner()).contains("link: is neither"));
    let two =
        archive(&[("same-1".to_owned(), b"a".to_vec()), ("same-2".to_owned(), b"b".to_vec())]);
    assert!(refused(&replaced(&two, b"same-2", b"same-1")).contains("has a name twice"));
    assert!(refused(&replaced(&two, b"same-2", b"SAME-1")).contains("is there twice"));
    let below =
        archive(&[("same-1".to_owned(), b"a".to_vec()), ("same-1/b".to_owned(), b"b".to_vec())]);
    assert!(refused(&below).contains("same-1/b: is there twice, or is below a file"));
    let above = archive(&[("Same/b".to_owned(), vec![]), ("same".to_owned(), vec![])]);
    assert!(refused(&above).contains("same: is there twice"));
    let long = "a".repeat(NAME_PART_BYTES_MAX + 1);
    assert!(refused(&archive(&[(format!("b/{long}"), vec![])])).contains("is too long"));
}

#[test]
fn bombs_are_refused_before_they_go_off() {
    let zeros = vec![0; 64 * RATIO_FREE_BYTES as usize];
    assert!(refused(&archive(&[("bomb".to_owned(), zeros)])).contains("bomb: is packed too well"));
    let many: Vec<(String, Vec<u8>)> =
        (0..=ENTRIES_MAX).map(|index| (index.to_string(), Vec::new())).collect();
    assert!(refused(&archive(&many)).contains("entries"));
    // One that says it is small: where its length is, beside its name in the directory at the end.
    let bytes = archive(&[("liar".to_owned(), vec![1; 5000])]);
    let honest = 5000_u32.to_le_bytes();
    refused(&replaced(&bytes, &honest, &10_u32.to_le_bytes()));
}

#[test]
fn what_is_no_archive_is_refused_and_damage_never_panics() {
    refused(b"");
    refused(b"PK\x05\x06");
    refused(&[b'x'; 100]);
    let maker = Maker::new();
    let good = maker.archive(&maker.manifest());
    assert!(refused(&[&good[..], b"x"].concat()).contains("after its end"));
    let folder = TempDir::new().unwrap();
    for at in (0..good.len()).step_by(7) {
        for change in [0xff_u8, 0x01] {
            let mut bytes = good.clone();
            bytes[at] ^= change;
            let (path, into) = (folder.path().join("a"), folder.path().join("b"));
            fs::write(&path, &bytes).unwrap();
            // A bit that counts for nothing may pass; what is refused leaves nothing.
            if unpack(&path, &into, &Trust::anybody(), now_s()).is_ok() {
                fs::remove_dir_all(&into).unwrap();
            }
            assert!(!into.exists());
        }
    }
}

/// Runs openssl; `None` where it is not on this machine.
fn openssl(folder: &Path, arguments: &[&str]) -> Option<()> {
    let output = Command::new("openssl").args(arguments).current_dir(folder).output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(())
}

/// A signer: a key and a certificate of its own, by its name.
fn signer(folder: &Path, name: &str, key: &[&str]) -> Option<String> {
    let (key_file, certificate) = (format!("{name}.key"), format!("{name}.pem"));
    let subject = format!("/CN={name}");
    let mut arguments = vec![
        "req",
        "-x509",
        "-nodes",
        "-days",
        "30",
        "-subj",
        &subject,
        "-keyout",
        &key_file,
        "-out",
        &certificate,
        "-newkey",
    ];
    arguments.extend(key);
    openssl(folder, &arguments)?;
    Some(fs::read_to_string(folder.join(certificate)).unwrap())
}

fn signed(folder: &Path, manifest: &str, name: &str) -> String {
    fs::write(folder.join("in.mf"), manifest).unwrap();
    let (key, certificate) = (format!("{name}.key"), format!("{name}.pem"));
    openssl(
        folder,
        &[
            "cms",
            "-sign",
            "-binary",
            "-md",
            "sha256",
            "-outform",
            "PEM",
            "-in",
            "in.mf",
            "-out",
            "out.cms",
            "-signer",
            &certificate,
            "-inkey",
            &key,
        ],
    )
    .unwrap();
    format!("{manifest}{}", fs::read_to_string(folder.join("out.cms")).unwrap())
}

#[test]
fn a_signature_says_whose_a_package_is() {
    let folder = TempDir::new().unwrap();
    let at = folder.path();
    let Some(maker) = signer(at, "maker", &["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]) else {
        return skip::skip("there is no openssl");
    };
    let old = signer(at, "old", &["rsa:2048"]).unwrap();
    signer(at, "stranger", &["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]).unwrap();
    let trust = Trust::signers(&[maker, old]).unwrap();
    let package = Maker::new();
    let manifest = package.manifest();
    for name in ["maker", "old"] {
        let bytes = package.archive(&signed(at, &manifest, name));
        let opened = open(&bytes, &trust, now_s()).unwrap();
        assert_eq!(opened.signer, Some(format!("CN={name}")));
        assert!(
            open(&bytes, &trust, now_s() + 31 * 86_400)
                .unwrap_err()
                .to_string()
                .contains("does not hold now")
        );
        // Without trust in somebody, the signature is no file of the package.
        open(&bytes, &Trust::anybody(), now_s()).unwrap();
    }
    let of_maker = signed(at, &manifest, "maker");
    let signature = &of_maker[manifest.len()..];
    let of_stranger = signed(at, &manifest, "stranger");
    for (manifest, what) in [
        (manifest.clone(), "is not signed"),
        (of_stranger, "by nobody whose packages are taken"),
        (format!("# more\n{of_maker}"), "not of it"),
        (format!("{of_maker}Source: more"), "something after its signature"),
        (format!("{manifest}{}", signature.replace('M', "N")), "cache.mf: "),
        (format!("{manifest}-----BEGIN CMS-----\nAAAA\n-----END CMS-----\n"), "no CMS"),
        (format!("{manifest}{}", signature.replace("CMS", "CERTIFICATE")), "is not signed"),
    ] {
        let said = open(&package.archive(&manifest), &trust, now_s()).unwrap_err().to_string();
        assert!(said.contains(what), "{what}: {said}");
    }
    assert!(Trust::signers(&["none".to_owned()]).is_err());
}

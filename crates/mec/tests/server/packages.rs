//! Archives of packages over HTTP, and what of them is on the disk.

use crate::support::Running;
use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{Cursor, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

const CONFIG: &str = "[packages]\nunsigned = true\n[client.operator]\nscopes = [\"app_pkgm\"]\n\
    secret_sha256 = \"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\"\n";
const PACKAGES: &str = "/app_pkgm/v1/onboarded_app_packages";

fn sha256(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in digest(&SHA256, bytes).as_ref() {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

/// A package with an image of so many bytes that do not pack.
fn package(image_bytes: usize) -> Vec<u8> {
    let descriptor = json!({
        "appDId": "cache-d", "appName": "cache", "appProvider": "freshet", "appSoftVersion": "1",
        "appDVersion": "1", "mecVersion": "3.1.1", "appDescription": "", "appExtCpd": [],
        "swImageDescriptor": [{
            "id": "i", "name": "node", "version": "1", "containerFormat": "DOCKER", "swImage": "image",
        }],
    });
    let mut random = 1_u64;
    let image = std::iter::repeat_with(|| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 56) as u8
    });
    let meta = "Entry-Definitions: appd.json\nETSI-Entry-Manifest: cache.mf\n";
    let mut files = vec![
        ("TOSCA-Metadata/TOSCA.meta", meta.as_bytes().to_vec()),
        ("appd.json", descriptor.to_string().into_bytes()),
        ("image", image.take(image_bytes).collect()),
    ];
    let mut manifest = String::new();
    for (name, bytes) in &files {
        writeln!(manifest, "Source: {name}\nAlgorithm: SHA-256\nHash: {}\n", sha256(bytes))
            .unwrap();
    }
    files.push(("cache.mf", manifest.into_bytes()));
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(&bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Sends or asks for bytes, as much of them as is wanted; gives status and body.
fn transfer(
    running: &Running,
    method: &str,
    target: &str,
    token: &str,
    length: usize,
    sent: &[u8],
) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(running.address).unwrap();
    write!(
        stream,
        "{method} {target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/zip\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    // Whoever is refused before the end is not read to it.
    let _ = stream.write_all(sent);
    if sent.len() < length {
        return (0, Vec::new());
    }
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let status = std::str::from_utf8(&answer[9..12]).unwrap().parse().unwrap();
    (status, answer[end..].to_vec())
}

fn name(running: &Running, token: &str, bytes: &[u8]) -> String {
    let body = json!({
        "appPkgName": "cache", "appPkgVersion": "1", "appPkgPath": "cache.csar",
        "checksum": {"algorithm": "SHA-256", "hash": sha256(bytes)},
    });
    let made = running.ask("POST", PACKAGES, token, &body.to_string());
    assert_eq!(made.status, 201, "{}", made.body);
    format!("{PACKAGES}/{}", made.json()["id"].as_str().unwrap())
}

fn folder(running: &Running) -> PathBuf {
    running.folder.path().join("state/packages")
}

fn left(running: &Running) -> usize {
    std::fs::read_dir(folder(running)).unwrap().count()
}

#[test]
fn an_archive_comes_in_is_checked_and_given_on_as_it_came() {
    let running = Running::start(CONFIG);
    let token = running.token("operator");
    // Longer than any other body may be.
    let bytes = package(3 << 20);
    let place = name(&running, &token, &bytes);
    let content = format!("{place}/package_content");
    let (status, said) = transfer(&running, "PUT", &content, &token, bytes.len(), &bytes);
    assert_eq!(status, 202, "{}", String::from_utf8_lossy(&said));
    let known: Value = running.ask("GET", &place, &token, "").json();
    assert_eq!(known["onboardingState"], "ONBOARDED");
    let image = folder(&running).join(place.rsplit('/').next().unwrap()).join("unpacked/image");
    assert_eq!(std::fs::metadata(image).unwrap().len(), 3 << 20);
    let (status, given) = transfer(&running, "GET", &content, &token, 0, &[]);
    assert!(status == 200 && given == bytes);
    let head = running.ask("HEAD", &content, &token, "").head;
    assert!(head.contains(&format!("content-length: {}", bytes.len())), "{head}");
    assert_eq!(running.ask("DELETE", &place, &token, "").status, 204);
    assert_eq!(left(&running), 0);
}

#[test]
fn what_is_refused_leaves_nothing() {
    let running = Running::start(CONFIG);
    let token = running.token("operator");
    let good = package(1000);
    let mut broken = good.clone();
    broken[200] ^= 1;
    for (said, sent, what) in [
        (&good, &broken, "not that of /checksum"),
        (&broken, &broken, "detail"),
        (&b"none".to_vec(), &b"none".to_vec(), "is no ZIP"),
    ] {
        let place = name(&running, &token, said);
        let content = format!("{place}/package_content");
        let (status, body) = transfer(&running, "PUT", &content, &token, sent.len(), sent);
        let body = String::from_utf8_lossy(&body).into_owned();
        assert!(status == 422 && body.contains(what), "{status} {body}");
        assert_eq!(running.ask("GET", &place, &token, "").json()["onboardingState"], "CREATED");
        assert_eq!(left(&running), 0);
    }
    let place = name(&running, &token, &good);
    let content = format!("{place}/package_content");
    let viewer = running.token("viewer");
    assert_eq!(transfer(&running, "PUT", &content, &viewer, good.len(), &good).0, 403);
    assert_eq!(transfer(&running, "PUT", &content, "none", good.len(), &good).0, 401);
    let stranger = format!("{PACKAGES}/..%2F..%2Fx/package_content");
    assert_eq!(transfer(&running, "PUT", &stranger, &token, good.len(), &good).0, 404);
    // A client that leaves in the middle may come again.
    transfer(&running, "PUT", &content, &token, good.len(), &good[..500]);
    let mut status = 409;
    while status == 409 {
        status = transfer(&running, "PUT", &content, &token, good.len(), &good).0;
    }
    assert_eq!((status, left(&running)), (202, 1));
}

#[test]
fn a_start_removes_what_a_crash_left_and_keeps_what_was_promised() {
    let running = Running::start(CONFIG);
    let token = running.token("operator");
    let bytes = package(1000);
    let place = name(&running, &token, &bytes);
    let content = format!("{place}/package_content");
    assert_eq!(transfer(&running, "PUT", &content, &token, bytes.len(), &bytes).0, 202);
    for half in ["0123.incoming", "0123"] {
        std::fs::create_dir_all(folder(&running).join(half).join("unpacked")).unwrap();
    }
    let running = running.again(CONFIG);
    assert_eq!(left(&running), 1);
    let token = running.token("operator");
    assert_eq!(transfer(&running, "GET", &content, &token, 0, &[]), (200, bytes));
}

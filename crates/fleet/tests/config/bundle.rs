//! Bundles: from a folder to bytes that servers keep, and back.

use aws_lc_rs::digest::{SHA256, digest};
use freshet_fleet::config::{
    Bundle, BundleError, CONFIGURATION_FILE, Folder, Memory, Release, Secret, SecretError, Version,
};
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn bundle(files: &[(&str, &str)]) -> Bundle {
    Bundle::read(folder(files).path()).unwrap()
}

fn texts(bundle: &Bundle) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    bundle.files().map(|(name, bytes)| (name.to_owned(), text(bytes))).collect()
}

/// The name of a plain bundle.
fn name_of(plain: &[u8]) -> String {
    digest(&SHA256, plain).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_folder_becomes_a_bundle_and_the_bundle_the_same_files() {
    let files = [("freshet.toml", "vcl = \"a.vcl\"\n"), ("tls/key", "key")];
    let folder = folder(&files);
    fs::write(folder.path().join(".git"), "no").unwrap();
    let read = Bundle::read(folder.path()).unwrap();
    assert_eq!(texts(&read), files.map(|(name, text)| (name.to_owned(), text.to_owned())));
    let (name, kept) = read.pack(None);
    assert_eq!(Bundle::unpack(&name, kept, None).unwrap(), read);
    let alone = Bundle::read(&folder.path().join("tls/key")).unwrap();
    assert_eq!(texts(&alone), [("freshet.toml".to_owned(), "key".to_owned())]);
    fs::remove_file(folder.path().join("freshet.toml")).unwrap();
    assert!(matches!(Bundle::read(folder.path()), Err(BundleError::ConfigMissing)));
}

#[test]
fn what_is_sealed_is_opened_by_its_secret_alone() {
    let (ours, other) = (Secret::random().unwrap(), Secret::random().unwrap());
    let ours = Secret::parse(&format!("{}\n", ours.text())).unwrap();
    let plain = bundle(&[("freshet.toml", "memory = \"1GiB\"\n")]);
    let (name, kept) = plain.pack(Some(&ours));
    assert!(!String::from_utf8_lossy(&kept).contains("memory"));
    assert_eq!(Bundle::unpack(&name, kept.clone(), Some(&ours)).unwrap(), plain);
    let refused =
        |name: &str, kept: &[u8], secret| match Bundle::unpack(name, kept.to_vec(), secret)
            .unwrap_err()
        {
            BundleError::Secret(error) => error,
            other => panic!("{other}"),
        };
    assert_eq!(refused(&name, &kept, None), SecretError::ConfigMissing);
    assert_eq!(refused(&name, &kept, Some(&other)), SecretError::PeerUnsealed);
    assert_eq!(refused(&"0".repeat(64), &kept, Some(&ours)), SecretError::PeerUnsealed);
    let mut changed = kept.clone();
    *changed.last_mut().unwrap() ^= 1;
    assert_eq!(refused(&name, &changed, Some(&ours)), SecretError::PeerUnsealed);
    // Who has a secret takes nothing that anybody could have made.
    let (open_name, open) = plain.pack(None);
    assert_eq!(refused(&open_name, &open, Some(&ours)), SecretError::PeerUnsealed);
    assert_eq!(refused(&name, &open, None), SecretError::PeerName);
    assert!(Secret::parse("abc").is_err() && Secret::parse(&"é".repeat(32)).is_err());
}

#[test]
fn what_a_newer_version_wrote_is_refused_in_clear_words() {
    let text = b"{\"format\":7,\"parts\":{}}\n".to_vec();
    let error = Bundle::unpack(&name_of(&text), text, None).unwrap_err().to_string();
    assert!(error.contains("newer version") && error.contains("upgrade"), "{error}");
}

#[test]
fn names_lead_nowhere_else() {
    let with = |name: &str| {
        let files = [("freshet.toml", 0), (name, 0)];
        let header = serde_json::json!({"format": 1, "files": files});
        let text = format!("{header}\n").into_bytes();
        Bundle::unpack(&name_of(&text), text, None)
    };
    for good in ["a", "a/b.pem", "sites/www.example/a b"] {
        assert!(with(good).is_ok(), "{good}");
    }
    for wrong in ["", "/a", "../a", "a/../b", "a//b", "./a", "a/", "a\0"] {
        assert!(matches!(with(wrong), Err(BundleError::ConfigName(_))), "{wrong}");
    }
}

#[test]
fn a_node_s_folder_has_what_was_remembered_and_no_bundle_besides() {
    let place = tempfile::tempdir().unwrap();
    let bundle = bundle(&[("freshet.toml", "memory = \"1GiB\"\n"), ("tls/key", "key")]);
    let folder = Folder::new(&place.path().join("config"));
    assert_eq!(folder.memory().unwrap(), Memory::default());
    let version = |name: &str| Version { number: 1, bundle: name.into() };
    for name in ["a", "b", "a", "b"] {
        folder.unpack(&version(name), &bundle).unwrap();
    }
    assert_eq!(Bundle::read(&folder.bundle(&version("a"))).unwrap(), bundle);
    let key = fs::metadata(folder.bundle(&version("a")).join("tls/key")).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    let memory = Memory { kept: Some(version("b")), ..Memory::default() };
    folder.remember(&memory).unwrap();
    assert_eq!(folder.memory().unwrap(), memory);
    assert!(!folder.bundle(&version("a")).exists() && folder.bundle(&version("b")).exists());
    let state: &Path = &place.path().join("config/state.json");
    fs::write(state, "{\"format\":9,\"other\":[]}").unwrap();
    assert!(folder.memory().unwrap_err().to_string().contains("newer version"));
    fs::write(state, "{\"for").unwrap();
    assert!(folder.memory().is_err());
}

#[test]
fn a_document_leads_to_no_other_folder() {
    let with = |bundle: &str| {
        let version = Version { number: 1, bundle: bundle.into() };
        Release::decode(&Release { stable: Some(version), ..Release::default() }.encode())
    };
    assert!(with("0a9").is_ok());
    for wrong in ["", ".", "..", "../../other", "/etc", "a/b", "a\0"] {
        assert!(with(wrong).unwrap_err().contains("is no name of a bundle"), "{wrong}");
    }
}

proptest! {
    #[test]
    fn anything_may_come(kept in prop::collection::vec(any::<u8>(), 0..200), header in ".{0,80}") {
        for kept in [kept.clone(), [header.as_bytes(), b"\n", &kept].concat()] {
            if let Ok(bundle) = Bundle::unpack(&name_of(&kept), kept, None) {
                prop_assert!(bundle.file(CONFIGURATION_FILE).is_some());
            }
        }
    }

    #[test]
    fn all_files_come_back(files in prop::collection::btree_map("[a-z]{1,4}", "[a-z\n]{0,20}", 0..6)) {
        let files: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let bundle = bundle(&[files, vec![("freshet.toml", "")]].concat());
        let (name, kept) = bundle.pack(None);
        prop_assert_eq!(Bundle::unpack(&name, kept, None).unwrap(), bundle);
    }
}

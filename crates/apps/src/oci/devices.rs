//! Accelerators of this machine: which files in `/dev` each one is, and whose it is.
//!
//! An app has those it was given until its files are removed: they say so, to the process after this one as well.

use super::Spec;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

/// In the folder of an instance: the places of its accelerators in the configuration, by name.
const TAKEN: &str = "accelerators.json";
/// What an app may do with the files: they are its own.
const MODE: u32 = 0o666;

type Taken = BTreeMap<String, BTreeSet<usize>>;

/// By name, the files of each whole one.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(transparent)]
pub struct Devices(BTreeMap<String, Vec<Vec<PathBuf>>>);

impl Devices {
    /// Whether they may be given to containers.
    ///
    /// # Errors
    /// Which file is none in `/dev`.
    pub fn check(&self) -> Result<(), String> {
        let is_device = |path: &&PathBuf| {
            path.starts_with("/dev/") && !path.components().any(|part| part == Component::ParentDir)
        };
        for (name, all) in &self.0 {
            if all.iter().any(Vec::is_empty) {
                return Err(format!("accelerators.{name}: each must have files"));
            }
            if let Some(path) = all.iter().flatten().find(|path| !is_device(path)) {
                let path = path.display();
                return Err(format!("accelerators.{name}: `{path}` must be a file in /dev"));
            }
        }
        Ok(())
    }

    /// Gives an instance as many as it was granted, and what its container has in `/dev` for them.
    ///
    /// # Errors
    /// There are too few that no other instance has, or a file is no device.
    pub(super) fn give(&self, spec: &Spec) -> Result<Vec<Value>, String> {
        let say = |error: io::Error| format!("{}: {error}", spec.folder.display());
        let own = self.choose(spec).map_err(say)??;
        if !own.is_empty() {
            let text = serde_json::to_vec(&own).expect("numbers and names are plain data");
            let (beside, path) = (spec.folder.join("accelerators.new"), spec.folder.join(TAKEN));
            fs::write(&beside, text).and_then(|()| fs::rename(&beside, path)).map_err(say)?;
        }
        let files = own.iter().flat_map(|(name, places)| {
            places.iter().flat_map(move |place| self.0[name][*place].iter())
        });
        let files: BTreeSet<&PathBuf> = files.collect();
        files.into_iter().map(|path| node(path)).collect()
    }

    /// Those an instance has already, or that nobody has.
    fn choose(&self, spec: &Spec) -> io::Result<Result<Taken, String>> {
        if spec.accelerators.values().all(|count| *count == 0) {
            return Ok(Ok(Taken::new()));
        }
        let had = taken(&spec.folder).unwrap_or_default();
        let mut others = Taken::new();
        for entry in fs::read_dir(spec.folder.parent().unwrap_or(&spec.folder))? {
            let folder = entry?.path();
            if folder != spec.folder {
                for (name, places) in taken(&folder).unwrap_or_default() {
                    others.entry(name).or_default().extend(places);
                }
            }
        }
        let mut own = Taken::new();
        for (name, count) in &spec.accelerators {
            let all = self.0.get(name).map_or(0, Vec::len);
            let is_free =
                |place: &usize| !others.get(name).is_some_and(|others| others.contains(place));
            let had = had.get(name).into_iter().flatten().copied().filter(|place| *place < all);
            let places = had.chain(0..all).filter(is_free);
            let mut chosen = BTreeSet::new();
            for place in places {
                if chosen.len() as u64 == *count {
                    break;
                }
                chosen.insert(place);
            }
            if (chosen.len() as u64) < *count {
                let left = chosen.len();
                return Ok(Err(format!(
                    "it was granted {count} {name}, and {left} of {all} are left: `[accelerators]` of the host says which it has"
                )));
            }
            own.insert(name.clone(), chosen);
        }
        Ok(Ok(own))
    }
}

/// What an instance has, by its folder.
fn taken(folder: &Path) -> Option<Taken> {
    serde_json::from_slice(&fs::read(folder.join(TAKEN)).ok()?).ok()
}

/// A file in `/dev`, as a container is given it (OCI runtime specification 1.0, `linux.devices`).
fn node(path: &Path) -> Result<Value, String> {
    let shown = path.display();
    let about = fs::metadata(path).map_err(|error| format!("{shown}: {error}"))?;
    let kind = about.file_type();
    let kind = match (kind.is_char_device(), kind.is_block_device()) {
        (true, _) => "c",
        (_, true) => "b",
        _ => return Err(format!("{shown}: is no device")),
    };
    let device = about.rdev();
    Ok(json!({
        "path": path, "type": kind, "fileMode": MODE, "uid": 0, "gid": 0,
        "major": rustix::fs::major(device), "minor": rustix::fs::minor(device),
    }))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{Network, Package};

    pub(in crate::oci) fn spec(apps: &Path, instance: &str, count: u64) -> Spec {
        let folder = apps.join(instance);
        fs::create_dir_all(&folder).unwrap();
        Spec {
            instance: instance.to_owned(),
            name: instance.to_owned(),
            grant: String::new(),
            package: Package {
                sha256: String::new(),
                image: String::new(),
                folder: PathBuf::new(),
            },
            folder,
            cpu_milli_max: 1,
            memory_mib_max: 1,
            disk_mib_max: 1,
            host: String::new(),
            accelerators: [("example.com/fpga".to_owned(), count)].into(),
            network: Network {
                slot: 0,
                host: [10, 99, 0, 1].into(),
                app: [10, 99, 0, 2].into(),
                answers_for: Vec::new(),
                sends_bps_max: None,
                receives_bps_max: None,
                sends_apart: Vec::new(),
                wire: None,
            },
            environment: Vec::new(),
        }
    }

    fn devices(text: &str) -> Devices {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn each_has_its_own_until_its_files_are_gone() {
        let apps = tempfile::tempdir().unwrap();
        let known = devices(
            r#"{"example.com/fpga": [["/dev/null", "/dev/full"], ["/dev/zero", "/dev/full"]]}"#,
        );
        let paths = |given: Result<Vec<Value>, String>| -> Vec<String> {
            given.unwrap().iter().map(|one| one["path"].as_str().unwrap().to_owned()).collect()
        };
        let (first, second) = (spec(apps.path(), "a", 1), spec(apps.path(), "b", 1));
        assert_eq!(paths(known.give(&first)), ["/dev/full", "/dev/null"]);
        assert_eq!(paths(known.give(&second)), ["/dev/full", "/dev/zero"]);
        // Whoever is started again has what it had.
        assert_eq!(paths(known.give(&second)), ["/dev/full", "/dev/zero"]);
        let third = spec(apps.path(), "c", 1);
        assert!(known.give(&third).unwrap_err().contains("0 of 2 are left"));
        fs::remove_dir_all(&first.folder).unwrap();
        assert_eq!(paths(known.give(&third)), ["/dev/full", "/dev/null"]);
        let null = &known.give(&third).unwrap()[1];
        assert_eq!(
            (&null["type"], &null["major"], &null["minor"]),
            (&json!("c"), &json!(1), &json!(3))
        );
        assert_eq!(known.give(&spec(apps.path(), "d", 0)), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_device_is_said() {
        for (text, what) in [
            (r#"{"a": [["/etc/passwd"]]}"#, "accelerators.a: `/etc/passwd` must be"),
            (r#"{"a": [["/dev/../etc/passwd"]]}"#, "accelerators.a: `/dev/../etc/passwd` must be"),
            (r#"{"a": [[]]}"#, "accelerators.a: each must have files"),
        ] {
            assert!(devices(text).check().unwrap_err().starts_with(what));
        }
        let apps = tempfile::tempdir().unwrap();
        let folder = devices(r#"{"example.com/fpga": [["/dev/shm"]]}"#);
        assert_eq!(
            folder.give(&spec(apps.path(), "a", 1)),
            Err("/dev/shm: is no device".to_owned())
        );
    }
}

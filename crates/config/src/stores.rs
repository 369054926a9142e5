//! `[[store]]` and `[[storage]]`: disks, and what goes where.

use super::document::Row;
use super::mistake::{Mistake, Place};
use super::values::{beginning, optional, size};
use crate::storage::Storage;
use freshet_cache::Objective;
use freshet_device::WriteLife;
use freshet_disk::Discard;
use freshet_media::Class;
use std::path::PathBuf;
use std::time::Duration;

/// `[[store]]`
#[derive(Clone, Debug, PartialEq)]
pub struct Store {
    /// File or block device.
    pub path: PathBuf,
    /// Length of a file that is made.
    pub bytes: Option<u64>,
    /// Share of new content; by length where this is `None`.
    pub weight: Option<f64>,
    /// Drive writes a day.
    pub drive_writes: f64,
    /// Mean length of what is stored.
    pub object_bytes: Option<u64>,
    /// Keep what was used.
    pub keep_used: bool,
    /// Whether the drive is told what it need not keep.
    pub discard: Discard,
    /// How long most of what is written stays, as the drive is told.
    pub write_life: WriteLife,
    /// What rules and policies call it, and others beside it.
    pub class: String,
    /// Shortest lifetime of what goes there, where that is longer than `stores.ttl_min`.
    pub ttl_min: Duration,
    /// Lengths of what goes there.
    pub object_bytes_min: u64,
    /// The same, at most.
    pub object_bytes_max: u64,
    /// Where its path is written.
    pub place: Place,
}

/// The class of a store that is given no other.
pub const STORE_CLASS: &str = "disk";

/// What a rule calls wherever there is room.
const ANY_CLASS: &str = "any";

/// The longest name of a file, and what a path is shorter than, as the kernel has it (`NAME_MAX`, `PATH_MAX`).
const NAME_BYTES_MAX: usize = 255;
const PATH_BYTES_MAX: usize = 4096;

/// `[[storage]]`
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StorageRule {
    /// What a request's path begins with.
    pub path: String,
    /// What kind of presentation it is of; `None` for all there is.
    pub media: Option<Class>,
    /// Where its response may be kept, unless a policy says otherwise.
    pub storage: Storage,
    /// What memory is to have the most of there; `None` for `cache.objective`.
    pub objective: Option<Objective>,
    /// Where its class is written.
    pub place: Place,
}

/// What a class means that no store may have.
pub(super) fn means_other(class: &str) -> Option<&'static str> {
    match class {
        ANY_CLASS => Some("anywhere"),
        class => (Storage::named(class) == Storage::Memory).then_some("memory"),
    }
}

pub(super) fn store(row: &Row<'_>, wrong: &mut Vec<Mistake>) -> Option<Store> {
    let text = |path: &str| row.value(path).text();
    let Some(path) = optional(text("store[].path")) else {
        let message = "store.path is missing: give a file or a block device";
        wrong.push(Mistake::error(row.at("store[].path"), message));
        return None;
    };
    if let Some((message, help)) = no_path(&path) {
        wrong.push(Mistake::error(row.at("store[].path"), message).help(help));
        return None;
    }
    let class = text("store[].class");
    if let Some(means) = means_other(&class) {
        let message =
            format!("store.class is `{class}`, which means {means} in rules and policies");
        let help = "give it another name, or leave it out";
        wrong.push(Mistake::error(row.at("store[].class"), message).help(help));
        return None;
    }
    let drive_writes = text("store[].drive_writes");
    let drive_writes = match drive_writes.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => number,
        _ => {
            let message = format!("store.drive_writes is a number above 0, not `{drive_writes}`");
            wrong.push(Mistake::error(row.at("store[].drive_writes"), message));
            return None;
        }
    };
    let mut sizes = ["size", "object_size", "object_min", "object_max"].into_iter().map(|key| {
        let path = format!("store[].{key}");
        optional(text(&path)).map(|_| size(row, &path, wrong))
    });
    let mut next = || sizes.next().flatten();
    let (bytes, object_bytes, least, most) = (next(), next(), next(), next());
    let (object_bytes_min, object_bytes_max) = (least.unwrap_or(0), most.unwrap_or(u64::MAX));
    if object_bytes_min > object_bytes_max {
        let message = "store.object_min is above store.object_max: nothing would fit";
        wrong.push(Mistake::error(row.at("store[].object_min"), message));
        return None;
    }
    Some(Store {
        bytes,
        object_bytes,
        path: path.into(),
        weight: Some(row.value("store[].weight").number() as f64).filter(|weight| *weight > 0.0),
        drive_writes,
        keep_used: row.value("store[].keep_used").bool(),
        discard: match text("store[].discard").as_str() {
            "always" => Discard::Always,
            "never" => Discard::Never,
            _ => Discard::Devices,
        },
        write_life: match text("store[].write_life").as_str() {
            "short" => WriteLife::Short,
            "medium" => WriteLife::Medium,
            "long" => WriteLife::Long,
            "extreme" => WriteLife::Extreme,
            _ => WriteLife::Unsaid,
        },
        class,
        ttl_min: row.value("store[].ttl_min").span(),
        object_bytes_min,
        object_bytes_max,
        place: row.at("store[].path"),
    })
}

/// Why a path is none as it is meant, and what to write.
fn no_path(path: &str) -> Option<(String, String)> {
    if path.split('/').next().is_some_and(|first| first.starts_with('~')) {
        let message = format!("store.path: `~` is not expanded, as in `{path}`");
        return Some((message, "write all of the path, from `/` on".to_owned()));
    }
    if let Some((scheme, rest)) = path.split_once("://") {
        let message = format!("store.path is a path, and no URL of `{scheme}`");
        return Some((message, format!("`{rest}`, or wherever the file is to be")));
    }
    if path.len() >= PATH_BYTES_MAX || path.split('/').any(|name| name.len() > NAME_BYTES_MAX) {
        let message = format!(
            "store.path is too long: a name in it has {NAME_BYTES_MAX} bytes at most, and all of it less \
             than {PATH_BYTES_MAX}"
        );
        return Some((message, "give a shorter one".to_owned()));
    }
    None
}

pub(super) fn objective(text: &str) -> Option<Objective> {
    [Objective::Requests, Objective::Bytes].into_iter().find(|one| one.code() == text)
}

pub(super) fn storage_rule(row: &Row<'_>, wrong: &mut Vec<Mistake>) -> Option<StorageRule> {
    Some(StorageRule {
        path: beginning(row, "storage[].path", "/live/", wrong)?,
        media: {
            let name = row.value("storage[].media").text();
            [Class::Live, Class::Dvr, Class::Vod].into_iter().find(|class| class.name() == name)
        },
        storage: match row.value("storage[].class").text().as_str() {
            ANY_CLASS => Storage::Configured,
            class => Storage::named(class),
        },
        objective: objective(&row.value("storage[].objective").text()),
        place: row.at("storage[].class"),
    })
}

//! The databases that say where clients are, opened.

use freshet_config::geo::GeoFile;
use freshet_config::{Mistake, Settings};
use freshet_geo::{File, Geo};
use std::sync::Arc;

/// Those that settings name.
///
/// # Errors
/// What is wrong with each that cannot be used.
pub(crate) fn open(settings: &Settings) -> Result<Arc<Geo>, Vec<Mistake>> {
    let mut wrong = Vec::new();
    let mut open = |file: &Option<GeoFile>, key: &str| {
        let file = file.as_ref()?;
        let opened = File::open(&file.path).map_err(|error| {
            let mistake = Mistake::error(file.place, format!("geo.{key}: {error}"));
            wrong.push(mistake.help(error.help()));
        });
        opened.ok()
    };
    let geo = Geo {
        country: open(&settings.geo.country, "country"),
        city: open(&settings.geo.city, "city"),
        asn: open(&settings.geo.asn, "asn"),
    };
    if wrong.is_empty() { Ok(Arc::new(geo)) } else { Err(wrong) }
}

/// What may not be meant: a database that cannot answer what it is named for, as one of autonomous
/// systems among those of countries, of which nobody would ever see more than that no rule fits.
pub(crate) fn examine(settings: &Settings, geo: &Geo) -> Vec<Mistake> {
    let files = &settings.geo;
    let named: [(_, _, _, &[&str]); 3] = [
        ("country", &files.country, &geo.country, &["country", "iso_code"]),
        ("city", &files.city, &geo.city, &["city", "names"]),
        ("asn", &files.asn, &geo.asn, &["autonomous_system_number"]),
    ];
    let examine =
        |(key, named, file, path): (&str, &Option<GeoFile>, &Option<Arc<File>>, &[&str])| {
            let (named, database) = (named.as_ref()?, file.as_ref()?.database());
            if database.tells(path) {
                return None;
            }
            let (file, kind, path) = (named.path.display(), database.kind(), path.join("/"));
            let message = format!("geo.{key}: {file}, a `{kind}`, has no `{path}` of anybody");
            let help = format!("give a database that is made for `{key}`");
            Some(Mistake::warning(named.place, message).help(help))
        };
    named.into_iter().filter_map(examine).collect()
}

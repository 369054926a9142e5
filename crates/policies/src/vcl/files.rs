//! Files and names, for the compiler.

use freshet_base::file;
use freshet_vcl::{NoFiles, SOURCE_BYTES_MAX, Source, Sources};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

/// Files of one glob; more is a mistake in the pattern.
const GLOB_FILES_MAX: usize = 1000;
/// Of the list of services; the usual one has 13 KB.
const SERVICES_BYTES_MAX: u64 = 1 << 20;

/// The world of a policy in the file system: includes are looked for beside the including file
/// where their names begin with `./`, else in these folders.
#[derive(Clone, Debug)]
pub struct Files {
    /// Folders, first come first served.
    pub folders: Vec<PathBuf>,
}

impl Default for Files {
    fn default() -> Self {
        Self { folders: vec!["/etc/freshet".into(), "/etc/varnish".into()] }
    }
}

impl Files {
    /// Reads a policy's main file, and looks for its includes beside it first.
    ///
    /// # Errors
    /// Which file could not be read, and why.
    pub fn open(path: &Path) -> Result<(Source, Self), String> {
        let text = file::read_text(path, SOURCE_BYTES_MAX as u64)
            .map_err(|error| format!("{} could not be read: {error}", path.display()))?;
        let mut files = Self::default();
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            files.folders.insert(0, folder.into());
        } else {
            files.folders.insert(0, ".".into());
        }
        Ok((Source { name: path.display().to_string(), text }, files))
    }

    fn places(&self, name: &str, from: &str) -> Result<Vec<PathBuf>, String> {
        let path = Path::new(name);
        if path.is_absolute() {
            return Ok(vec![path.into()]);
        }
        if let Some(rest) = name.strip_prefix("./") {
            let from = Path::new(from);
            if !from.is_file() {
                return Err(format!("'{name}' needs absolute filename of including file."));
            }
            let folder = from.parent().unwrap_or_else(|| Path::new("."));
            return Ok(vec![folder.join(rest)]);
        }
        Ok(self.folders.iter().map(|folder| folder.join(path)).collect())
    }
}

impl Sources for Files {
    fn include(&self, name: &str, from: &str, glob: bool) -> Result<Vec<Source>, String> {
        let places = self.places(name, from)?;
        // What the files of one pattern may have left, as the compiler takes no more of all.
        let mut left = SOURCE_BYTES_MAX as u64;
        let mut read = |path: &Path| {
            let text = file::read_text(path, left)
                .map_err(|error| format!("Cannot read file '{}': {error}", path.display()))?;
            left -= text.len() as u64;
            Ok(Source { name: path.display().to_string(), text })
        };
        if glob {
            let found = places.iter().map(|place| matching(place)).find(|found| !found.is_empty());
            let Some(found) = found else {
                return Err(format!("glob pattern matched no files.\n'{name}'"));
            };
            return found.iter().map(|path| read(path)).collect();
        }
        match places.iter().find(|place| place.is_file()) {
            Some(place) => Ok(vec![read(place)?]),
            None => {
                let looked: Vec<_> =
                    places.iter().map(|place| place.display().to_string()).collect();
                // Why, as the system says it and Varnish's compiler with it; a folder is there.
                let is_there = places.iter().any(|place| place.exists());
                let why = if is_there { "" } else { " (No such file or directory)" };
                Err(format!("Cannot read file '{name}'{why}\nlooked for {}", looked.join(", ")))
            }
        }
    }

    fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
        let found = (host, port).to_socket_addrs().map_err(|error| error.to_string())?;
        let mut found: Vec<_> = found.collect();
        found.sort();
        found.dedup();
        Ok(found)
    }

    fn service(&self, name: &str) -> Option<u16> {
        let known = file::read_text(Path::new("/etc/services"), SERVICES_BYTES_MAX).ok();
        known.and_then(|text| port_of_service(&text, name)).or_else(|| NoFiles.service(name))
    }
}

/// The port of a service over TCP in a text as services(5) describes it.
fn port_of_service(text: &str, name: &str) -> Option<u16> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or(""));
    lines.map(str::split_whitespace).find_map(|mut words| {
        let service = words.next()?;
        let port = words.next()?.strip_suffix("/tcp")?;
        let is_it = service == name || words.any(|alias| alias == name);
        is_it.then(|| port.parse().ok()).flatten()
    })
}

/// The files a pattern stands for: `*`, `?` and `[…]` in the last part of a path.
fn matching(pattern: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some(name)) = (pattern.parent(), pattern.file_name()) else {
        return Vec::new();
    };
    let name = name.to_string_lossy();
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<_> = entries
        .flatten()
        .filter(|entry| fits(name.as_bytes(), entry.file_name().to_string_lossy().as_bytes()))
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .take(GLOB_FILES_MAX)
        .collect();
    found.sort();
    found
}

fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => (0..=name.len()).any(|skip| fits(rest, &name[skip..])),
        (Some((b'?', rest)), Some((_, tail))) => fits(rest, tail),
        (Some((b'[', rest)), Some((byte, tail))) => {
            match rest.iter().position(|end| *end == b']') {
                Some(end) if end > 0 => {
                    in_class(&rest[..end], *byte) && fits(&rest[end + 1..], tail)
                }
                _ => false,
            }
        }
        (Some((a, rest)), Some((b, tail))) if a == b => fits(rest, tail),
        _ => false,
    }
}

/// Whether a byte is one of `[abc]`, `[a-c]`, or none of them as in `[!abc]`.
fn in_class(class: &[u8], byte: u8) -> bool {
    let (negated, mut rest) = match class.split_first() {
        Some((b'!' | b'^', rest)) => (true, rest),
        _ => (false, class),
    };
    let mut found = false;
    while let Some((first, more)) = rest.split_first() {
        match more {
            [b'-', last, more @ ..] => {
                found |= (*first..=*last).contains(&byte);
                rest = more;
            }
            _ => {
                found |= *first == byte;
                rest = more;
            }
        }
    }
    found != negated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_no_policy() {
        let folder = tempfile::tempdir().unwrap();
        let error = Files::open(Path::new("/dev/zero")).unwrap_err();
        assert!(error.starts_with("/dev/zero could not be read: it has more"), "{error}");
        let main = folder.path().join("main.vcl");
        std::fs::write(&main, "vcl 4.1;").unwrap();
        let (_, files) = Files::open(&main).unwrap();
        let error = files.include("/dev/zero", "", false).unwrap_err();
        assert!(error.contains("Cannot read file '/dev/zero'"), "{error}");
        for at in 0..3 {
            let half = vec![b' '; SOURCE_BYTES_MAX / 2];
            std::fs::write(folder.path().join(format!("{at}.long")), half).unwrap();
        }
        let error = files.include("*.long", "", true).unwrap_err();
        assert!(error.contains("it has more than"), "{error}");
    }

    #[test]
    fn ports_are_known_by_the_names_of_services() {
        let text = "# comment\nhttp\t80/tcp\twww # WorldWideWeb\ndomain 53/udp\ndomain 53/tcp\nbad x/tcp\n";
        let port = |name| port_of_service(text, name);
        assert_eq!((port("http"), port("www"), port("domain")), (Some(80), Some(80), Some(53)));
        assert_eq!((port("bad"), port("WorldWideWeb"), port("")), (None, None, None));
    }

    #[test]
    fn includes_are_found_beside_the_file_and_in_folders() {
        let folder = tempfile::tempdir().unwrap();
        let main = folder.path().join("main.vcl");
        std::fs::write(&main, "vcl 4.1;").unwrap();
        for name in ["a.vcl", "b.vcl", "c.txt"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        let (source, files) = Files::open(&main).unwrap();
        let one = files.include("./a.vcl", &source.name, false).unwrap();
        assert_eq!(one[0].text, "a.vcl");
        assert_eq!(files.include("b.vcl", "<inline>", false).unwrap()[0].text, "b.vcl");
        let all = files.include("./?.vcl", &source.name, true).unwrap();
        assert_eq!(all.len(), 2);
        let names = |pattern: &str| files.include(pattern, &source.name, true).map(|all| all.len());
        assert_eq!((names("./[ab].vcl"), names("./[!a].vcl")), (Ok(2), Ok(1)));
        assert_eq!((names("./[b-z].vcl"), names("./[ab]*").is_ok()), (Ok(1), true));
        let error = files.include("./a.vcl", "<inline>", false).unwrap_err();
        assert!(error.contains("needs absolute filename"), "{error}");
        assert!(files.include("x*.vcl", "", true).unwrap_err().contains("matched no files"));
        let error = files.include("x.vcl", "", false).unwrap_err();
        let why = "Cannot read file 'x.vcl' (No such file or directory)\nlooked for ";
        assert!(error.starts_with(why), "{error}");
        std::fs::create_dir(folder.path().join("x.vcl")).unwrap();
        let error = files.include("x.vcl", "", false).unwrap_err();
        assert!(error.starts_with("Cannot read file 'x.vcl'\nlooked for "), "{error}");
    }
}

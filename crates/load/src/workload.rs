//! What is asked for: sessions of requests, their paths made from templates.
//!
//! A session is what one client does in a row on one connection: a single request, or all objects of
//! a segment. Its variables are drawn once, so that its requests belong together; what stands in a
//! template as a range is drawn for each request.
//!
//! ```
//! use freshet_load::workload::Workload;
//!
//! let workload = Workload::single("1MB", "/1MB/.file?live={1-140400}")?;
//! assert_eq!(workload.classes(), ["1MB"]);
//! # Ok::<(), freshet_load::LabError>(())
//! ```

use super::random::Random;
use crate::error::{LabError, require};
use std::io::Write as _;

/// Variables of a session at most; a session keeps their values in place.
pub const VARIABLES_MAX: usize = 4;

/// Requests of a session at most; its place in them is 16 bits wide.
pub const SESSION_REQUESTS_MAX: usize = 10_000;

/// Longest path that is sent, templates filled in; servers here take 8 KB heads.
pub const PATH_BYTES_MAX: usize = 4096;

/// Ranks that a popularity may have: its table takes 8 bytes each.
const RANKS_MAX: u64 = 10_000_000;

/// How the value of a variable is drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Draw {
    /// Each number from `first` to `last` is as likely.
    Uniform {
        /// The lowest.
        first: u64,
        /// The highest.
        last: u64,
    },
    /// 1 to the length of the table; the n-th has the share up to its entry, which ascend to 1.
    Popularity(Vec<f64>),
    /// Letters and digits that nobody has asked for before.
    Random,
    /// `first + (n / divide) % modulo` for the n-th session of all: to ask for each thing once.
    Sequence {
        /// The lowest.
        first: u64,
        /// How many sessions have the same value in a row, at least 1.
        divide: u64,
        /// How many values there are, at least 1.
        modulo: u64,
    },
}

impl Draw {
    /// The n-th of `count` ranks is asked for `1/n^exponent` as often as the first (Zipf).
    ///
    /// # Errors
    /// [`LabError::ConfigSetting`] when there are no ranks or more than ten million.
    pub fn zipf(count: u64, exponent: f64) -> Result<Self, LabError> {
        require((1..=RANKS_MAX).contains(&count), "popularity", count, "1 to 10000000 ranks")?;
        require(exponent.is_finite() && exponent >= 0.0, "exponent", exponent, "0 or more")?;
        let mut table: Vec<f64> = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        let mut sum = 0.0;
        for rank in 1..=count {
            sum += (rank as f64).powf(-exponent);
            table.push(sum);
        }
        for share in &mut table {
            *share /= sum;
        }
        Ok(Self::Popularity(table))
    }

    fn value(&self, random: &mut Random, sequence: u64) -> u64 {
        match self {
            Self::Uniform { first, last } => random.between(*first, *last),
            Self::Popularity(table) => {
                let point = random.unit();
                let rank = table.partition_point(|share| *share <= point);
                rank.min(table.len().saturating_sub(1)) as u64 + 1
            }
            Self::Random => random.unknown(),
            Self::Sequence { first, divide, modulo } => {
                first + (sequence / (*divide).max(1)) % (*modulo).max(1)
            }
        }
    }
}

/// A part of a path.
#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Literal(Vec<u8>),
    /// Drawn for each request.
    Range(u64, u64),
    /// Letters and digits, drawn for each request.
    Random,
    /// The value of a variable, in digits or in letters.
    Variable {
        index: usize,
        letters: bool,
    },
}

/// A request of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Index of the class it is counted under.
    pub(super) class: u16,
    pieces: Vec<Piece>,
}

impl Request {
    /// Appends the path for a session with these values.
    pub(super) fn write_path(&self, values: &Values, random: &mut Random, out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Literal(bytes) => out.extend_from_slice(bytes),
                Piece::Range(first, last) => write_digits(random.between(*first, *last), out),
                Piece::Random => write_letters(random.unknown(), out),
                Piece::Variable { index, letters } => {
                    let value = values.get(*index).copied().unwrap_or(0);
                    if *letters { write_letters(value, out) } else { write_digits(value, out) }
                }
            }
        }
    }
}

/// The values of a session's variables.
pub(super) type Values = [u64; VARIABLES_MAX];

/// What one client does in a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    pub(super) requests: Vec<Request>,
    /// Whether the connection is closed behind it.
    pub(super) close: bool,
}

/// All that a load asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    classes: Vec<String>,
    variables: Vec<(String, Draw)>,
    sessions: Vec<Session>,
    /// Ascending shares of the sessions; the last is the sum.
    shares: Vec<f64>,
}

impl Workload {
    /// Sessions of one request each, all after one template.
    ///
    /// # Errors
    /// As [`Workload::session`].
    pub fn single(class: &str, path: &str) -> Result<Self, LabError> {
        Self::default().session(1.0, false, &[(class, path)])
    }

    /// Adds a variable that templates of later sessions can name.
    ///
    /// # Errors
    /// [`LabError::ConfigSetting`] for one too many, or a name that is taken.
    pub fn variable(mut self, name: &str, draw: Draw) -> Result<Self, LabError> {
        let count = self.variables.len();
        require(count < VARIABLES_MAX, "variables", count + 1, "at most 4")?;
        let is_free = self.variables.iter().all(|(other, _)| other != name);
        require(is_free, "variable", name, "a name that is not taken")?;
        self.variables.push((name.to_owned(), draw));
        Ok(self)
    }

    /// Adds a kind of session that is chosen in proportion to `weight`: requests given as class and
    /// path template. In a template `{1-500}` is a random number, `{random}` are random letters and
    /// `{name}` is a variable.
    ///
    /// # Errors
    /// [`LabError::ConfigTemplate`] where a template cannot be read, [`LabError::ConfigSetting`] for
    /// a weight or a number of requests out of bounds.
    pub fn session(
        mut self,
        weight: f64,
        close: bool,
        requests: &[(&str, &str)],
    ) -> Result<Self, LabError> {
        require(weight.is_finite() && weight > 0.0, "weight", weight, "more than 0")?;
        let count = requests.len();
        let fine = (1..=SESSION_REQUESTS_MAX).contains(&count);
        require(fine, "requests of a session", count, "1 to 10000")?;
        let mut session = Session { requests: Vec::with_capacity(count), close };
        for (class, path) in requests {
            let class = self.class(class)?;
            session.requests.push(Request { class, pieces: self.pieces(path)? });
        }
        self.sessions.push(session);
        self.shares.push(self.shares.last().copied().unwrap_or(0.0) + weight);
        Ok(self)
    }

    /// The names under which requests are counted, in order of appearance.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Whether its sessions are numbered over all connections.
    pub fn is_sequential(&self) -> bool {
        self.variables.iter().any(|(_, draw)| matches!(draw, Draw::Sequence { .. }))
    }

    /// Whether any connection is closed on purpose.
    pub fn closes(&self) -> bool {
        self.sessions.iter().any(|session| session.close)
    }

    /// Longest session, in requests.
    pub fn session_requests_max(&self) -> usize {
        self.sessions.iter().map(|session| session.requests.len()).max().unwrap_or(0)
    }

    /// Requests of a session, mean over their kinds by weight.
    pub(super) fn session_requests_mean(&self) -> f64 {
        let before = std::iter::once(&0.0).chain(&self.shares);
        let weights = self.shares.iter().zip(before).map(|(sum, before)| sum - before);
        let all: f64 = self
            .sessions
            .iter()
            .zip(weights)
            .map(|(s, weight)| s.requests.len() as f64 * weight)
            .sum();
        all / self.shares.last().copied().unwrap_or(1.0)
    }

    pub(super) fn get(&self, session: u16) -> Option<&Session> {
        self.sessions.get(usize::from(session))
    }

    /// Chooses a kind of session and draws its variables. `sequence` numbers it among all.
    pub(super) fn choose(&self, random: &mut Random, sequence: u64) -> (u16, Values) {
        let kind = match self.shares.last() {
            Some(sum) if self.shares.len() > 1 => {
                let point = random.unit() * sum;
                let kind = self.shares.partition_point(|share| *share <= point);
                kind.min(self.shares.len() - 1)
            }
            _ => 0,
        };
        let mut values = [0; VARIABLES_MAX];
        for (value, (_, draw)) in values.iter_mut().zip(&self.variables) {
            *value = draw.value(random, sequence);
        }
        (kind as u16, values)
    }

    fn class(&mut self, name: &str) -> Result<u16, LabError> {
        let index = match self.classes.iter().position(|class| class == name) {
            Some(index) => index,
            None => {
                self.classes.push(name.to_owned());
                self.classes.len() - 1
            }
        };
        require(index < 64, "classes", index + 1, "at most 64")?;
        Ok(index as u16)
    }

    fn pieces(&self, path: &str) -> Result<Vec<Piece>, LabError> {
        let refuse =
            |why: &str| LabError::ConfigTemplate { path: path.to_owned(), why: why.to_owned() };
        if !path.starts_with('/') {
            return Err(refuse("a path begins with /"));
        }
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) || path.len() > PATH_BYTES_MAX / 2 {
            return Err(refuse("a path has up to 2048 visible ASCII characters and no spaces"));
        }
        let mut pieces = Vec::new();
        let mut rest = path;
        while let Some((literal, after)) = rest.split_once('{') {
            if !literal.is_empty() {
                pieces.push(Piece::Literal(literal.into()));
            }
            let (inner, after) = after.split_once('}').ok_or_else(|| refuse("a { has no }"))?;
            pieces.push(self.piece(inner).ok_or_else(|| {
                refuse(&format!(
                    "`{inner}` is neither a range such as 1-500, nor random, nor the name of a variable"
                ))
            })?);
            rest = after;
        }
        if rest.contains('}') {
            return Err(refuse("a } has no {"));
        }
        if !rest.is_empty() {
            pieces.push(Piece::Literal(rest.into()));
        }
        Ok(pieces)
    }

    fn piece(&self, inner: &str) -> Option<Piece> {
        if inner == "random" {
            return Some(Piece::Random);
        }
        if let Some(index) = self.variables.iter().position(|(name, _)| name == inner) {
            let letters = matches!(self.variables.get(index)?.1, Draw::Random);
            return Some(Piece::Variable { index, letters });
        }
        let (first, last) = inner.split_once('-')?;
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last).then_some(Piece::Range(first, last))
    }
}

fn write_digits(number: u64, out: &mut Vec<u8>) {
    // Writing into a Vec cannot fail.
    let _ = write!(out, "{number}");
}

/// Thirteen letters and digits, in which every number differs.
fn write_letters(mut number: u64, out: &mut Vec<u8>) {
    const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    for _ in 0..13 {
        out.push(LETTERS[(number % 36) as usize]);
        number /= 36;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(workload: &Workload, random: &mut Random, sequence: u64, request: usize) -> String {
        let (kind, values) = workload.choose(random, sequence);
        let mut out = Vec::new();
        let request = &workload.get(kind).unwrap().requests[request];
        request.write_path(&values, random, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn templates_are_filled_in() {
        let mut random = Random::new(1);
        let workload = Workload::single("a", "/x{5-5}/{random}?v={7-7}").unwrap();
        let first = path(&workload, &mut random, 0, 0);
        let second = path(&workload, &mut random, 0, 0);
        assert!(first.starts_with("/x5/") && first.ends_with("?v=7"), "{first}");
        assert_eq!(first.len(), "/x5/".len() + 13 + "?v=7".len());
        assert_ne!(first, second);
    }

    #[test]
    fn what_is_unknown_is_so_in_another_run_of_the_same_seed() {
        let workload = Workload::default().variable("nobody", Draw::Random).unwrap();
        let workload =
            workload.session(1.0, false, &[("a", "/{1-1000}/{nobody}/{random}")]).unwrap();
        let of_run = |run: u64| path(&workload, &mut Random::new(7).of_run(run), 0, 0);
        let (first, second) = (of_run(1), of_run(2));
        let parts = |text: &str| text.split('/').map(str::to_owned).collect::<Vec<_>>();
        let (first, second) = (parts(&first), parts(&second));
        assert_eq!(first[1], second[1], "what is known is chosen by the seed");
        assert_ne!(first[2], second[2]);
        assert_ne!(first[3], second[3]);
        assert_eq!(of_run(1), of_run(1));
    }

    #[test]
    fn the_requests_of_a_session_share_its_variables() {
        let workload = Workload::default()
            .variable("channel", Draw::Uniform { first: 1, last: 1_000_000 })
            .unwrap()
            .session(1.0, true, &[("a", "/{channel}/a"), ("b", "/{channel}/b")])
            .unwrap();
        let mut random = Random::new(1);
        let (kind, values) = workload.choose(&mut random, 0);
        let session = workload.get(kind).unwrap();
        let written: Vec<String> = session
            .requests
            .iter()
            .map(|request| {
                let mut out = Vec::new();
                request.write_path(&values, &mut random, &mut out);
                String::from_utf8(out).unwrap()
            })
            .collect();
        assert_eq!(written[0].trim_end_matches('a'), written[1].trim_end_matches('b'));
        assert_eq!(workload.classes(), ["a", "b"]);
        assert!(workload.closes());
    }

    #[test]
    fn sessions_have_a_mean_length_by_their_weights() {
        let workload = Workload::default()
            .session(3.0, false, &[("a", "/")])
            .unwrap()
            .session(1.0, false, &[("a", "/"); 5])
            .unwrap();
        assert_eq!(workload.session_requests_mean(), 2.0);
    }

    #[test]
    fn a_sequence_names_each_thing_once() {
        let workload = Workload::default()
            .variable("channel", Draw::Sequence { first: 1, divide: 3, modulo: 2 })
            .unwrap()
            .variable("segment", Draw::Sequence { first: 1, divide: 1, modulo: 3 })
            .unwrap()
            .session(1.0, false, &[("a", "/{channel}/{segment}")])
            .unwrap();
        assert!(workload.is_sequential());
        let mut random = Random::new(1);
        let paths: Vec<String> = (0..6).map(|n| path(&workload, &mut random, n, 0)).collect();
        assert_eq!(paths, ["/1/1", "/1/2", "/1/3", "/2/1", "/2/2", "/2/3"]);
    }

    #[test]
    fn kinds_of_sessions_have_their_weights_and_ranks_their_popularity() {
        let workload = Workload::default()
            .session(85.0, false, &[("known", "/k")])
            .unwrap()
            .session(15.0, false, &[("random", "/r")])
            .unwrap();
        let mut random = Random::new(3);
        let known = (0..10_000).filter(|_| workload.choose(&mut random, 0).0 == 0).count();
        assert!((8300..8700).contains(&known), "{known}");
        let draw = Draw::zipf(10, 1.0).unwrap();
        let mut counts = [0; 11];
        for _ in 0..20_000 {
            counts[draw.value(&mut random, 0) as usize] += 1;
        }
        assert_eq!(counts[0], 0);
        let ratio = f64::from(counts[1]) / f64::from(counts[2]);
        assert!((1.8..2.2).contains(&ratio), "{counts:?}");
    }

    #[test]
    fn templates_that_make_no_sense_are_refused_with_a_reason() {
        for (path, why) in [
            ("a", "begins with /"),
            ("/{", "has no }"),
            ("/}", "has no {"),
            ("/{5-1}", "a range"),
            ("/{nobody}", "a range"),
            ("/a b", "no spaces"),
        ] {
            let error = Workload::single("a", path).unwrap_err().to_string();
            assert!(error.contains(why), "{path}: {error}");
        }
        let error = Workload::default().session(0.0, false, &[("a", "/")]).unwrap_err();
        assert!(error.to_string().contains("weight"), "{error}");
    }
}

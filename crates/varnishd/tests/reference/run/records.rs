//! What a server logs, put together again: sessions, their requests, and what those caused. Numbers
//! of transactions and what is measured are left out.

use std::collections::BTreeMap;
use std::collections::HashMap;

#[derive(Clone, Debug)]
pub(super) struct Record {
    id: u64,
    tag: String,
    text: String,
}

impl Record {
    /// A line of `varnishlog -g raw`; none where it is of no transaction.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let line = line.trim_start();
        let (id, rest) = line.split_once(' ')?;
        let id = id.parse().ok().filter(|id| *id != 0)?;
        let (tag, rest) = rest.trim_start().split_once(' ')?;
        let text = rest.trim_start().get(1..)?;
        Some(Self {
            id,
            tag: tag.to_owned(),
            text: text.strip_prefix(' ').unwrap_or(text).to_owned(),
        })
    }
}

#[derive(Default)]
pub(super) struct Records {
    of: BTreeMap<u64, Vec<Record>>,
    /// When each began, and its number.
    sessions: Vec<(f64, u64)>,
    requests: Vec<u64>,
    ended: Vec<u64>,
    linked: Vec<u64>,
    fetches: Vec<u64>,
}

impl Records {
    pub(super) fn push(&mut self, record: Record) {
        let words: Vec<&str> = record.text.split(' ').collect();
        match (&*record.tag, &*words) {
            ("SessOpen", [.., since, _]) => {
                self.sessions.push((since.parse().unwrap_or(0.0), record.id))
            }
            ("Begin", ["req", _, "rxreq"]) => self.requests.push(record.id),
            // A session that goes on in another form, or waits for the next request.
            ("Link", ["bereq", id, why]) if *why != "pipe" => {
                self.fetches.extend(id.parse::<u64>().ok());
            }
            ("Link", [_, id, ..]) => self.linked.extend(id.parse::<u64>().ok()),
            ("End", _) => self.ended.push(record.id),
            _ => {}
        }
        self.of.entry(record.id).or_default().push(record);
    }

    pub(super) fn are_complete(&self, sessions: usize, requests: usize) -> bool {
        let ended = |ids: &[u64]| ids.iter().filter(|id| self.ended.contains(id)).count();
        let of_sessions: Vec<u64> = self.sessions.iter().map(|(_, id)| *id).collect();
        ended(&of_sessions) >= sessions
            && ended(&self.requests) >= requests
            && ended(&self.fetches) == self.fetches.len()
            && (sessions == 0 || ended(&self.linked) == self.linked.len())
    }

    /// A line for each record, what a transaction caused below where it says so.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut numbers = HashMap::new();
        let mut out = Vec::new();
        let mut sessions = self.sessions.clone();
        sessions.sort_by(|one, other| one.0.total_cmp(&other.0));
        for (_, id) in sessions {
            self.transaction(id, 0, &mut numbers, &mut out);
        }
        out
    }

    fn transaction(
        &self,
        id: u64,
        depth: usize,
        numbers: &mut HashMap<u64, usize>,
        out: &mut Vec<String>,
    ) {
        let next = numbers.len();
        numbers.entry(id).or_insert(next);
        let mut is_sending = false;
        for record in self.of.get(&id).into_iter().flatten() {
            // What is said of a response behind its policy is seen in the response.
            match (&*record.tag, &*record.text) {
                ("VCL_call", state) => is_sending = matches!(state, "DELIVER" | "SYNTH"),
                (tag, _) if is_sending && tag.starts_with("Resp") => {
                    let has_left = out.iter().rev().find(|line| line.contains("VCL_"));
                    if has_left.is_some_and(|line| line.contains("VCL_return")) {
                        continue;
                    }
                }
                _ => {}
            }
            let linked = (record.tag == "Link")
                .then(|| record.text.split(' ').nth(1)?.parse().ok())
                .flatten();
            if let Some(linked) = linked {
                let next = numbers.len();
                numbers.entry(linked).or_insert(next);
            }
            if let Some(text) = plain(record, numbers) {
                let line = format!("{:depth$}{} {text}", "", record.tag);
                // In which order fields are means nothing.
                if line.ends_with("VCL_return fail") {
                    // Varnish still does what a statement would have done.
                    while out.last().is_some_and(|line| is_change(line)) {
                        out.pop();
                    }
                    // And says what else is wrong.
                    let first = out.iter().rposition(|line| !line.contains("VCL_Error "));
                    out.truncate(first.map_or(0, |at| at + 2));
                }
                // Nor does in which order those of a response come and go before its policy.
                let is_early = !is_sending && matches!(&*record.tag, "RespHeader" | "RespUnset");
                let is_field =
                    is_early || (record.tag.ends_with("Header") && !record.tag.starts_with("Bogo"));
                let tags = if is_early { ["RespHeader", "RespUnset"] } else { [&*record.tag; 2] };
                let starts = tags.map(|tag| format!("{:depth$}{tag} ", ""));
                let is_beside =
                    |before: &String| starts.iter().any(|start| before.starts_with(start));
                let from = out.iter().rposition(|before| !is_beside(before));
                let from = from.map_or(0, |at| at + 1);
                let place = out[from..].partition_point(|before| *before < line);
                out.insert(if is_field { from + place } else { out.len() }, line);
            }
            let is_pipe = record.text.ends_with(" pipe");
            if let Some(linked) = linked.filter(|_| !is_pipe) {
                self.transaction(linked, depth + 1, numbers, out);
            }
        }
    }
}

/// Whether a record tells of connections, bodies and times, and not of what a policy does.
fn is_of_transport(tag: &str) -> bool {
    let names = ["Timestamp", "Storage", "Fetch_Body", "FetchError", "Filters", "Length", "Error"];
    names.contains(&tag) || ["Acct", "Close", "Open", "Gzip"].iter().any(|end| tag.ends_with(end))
}

/// Whether a record tells of something a policy changed.
fn is_change(line: &str) -> bool {
    let tag = line.trim_start().split(' ').next().unwrap_or("");
    ["Header", "Unset", "Method", "URL", "Status", "Reason", "TTL"]
        .iter()
        .any(|end| tag.ends_with(end))
}

/// A record's text without what is only this time's; none where nothing can be compared.
fn plain(record: &Record, numbers: &HashMap<u64, usize>) -> Option<String> {
    let shows_all = std::env::var_os("FRESHET_WHOLE_LOG").is_some();
    if !shows_all && is_of_transport(&record.tag) {
        return None;
    }
    let words: Vec<&str> = record.text.split(' ').collect();
    let text = match (&*record.tag, &*words) {
        (tag, [name, ..]) if tag.ends_with("Header") && super::is_framing(name) => return None,
        // How what is sent is framed is counted as well.
        ("ReqAcct", [head, body, all, ..]) => format!("{head} {body} {all}"),
        ("BereqAcct", [_, body, ..]) => (*body).to_owned(),
        ("VCL_use", _) => return None,
        ("Debug" | "WorkThread" | "Witness", _) => return None,
        ("TTL", ["HFP", ..]) | ("Link", [_, _, "pipe"]) if !shows_all => return None,
        // Of a packed page that is put together only Varnish says that it is packed again, and the
        // places it names are those of what it has packed.
        ("BerespUnset" | "BerespHeader", ["Content-Encoding:", "gzip"]) if !shows_all => {
            return None;
        }
        ("ESI_xmlerror", [level, "after" | "at", _, rest @ ..]) if !shows_all => {
            format!("{level} {}", rest.join(" "))
        }
        // What is asked of the origin in the end is seen there.
        ("BereqMethod" | "BereqProtocol", _) => return None,
        ("Timestamp", [label, ..]) => (*label).to_owned(),
        ("SessOpen" | "ReqStart", [address, ..]) => (*address).to_owned(),
        ("SessClose", [reason, ..]) => (*reason).to_owned(),
        ("BackendOpen", [_, name, ..]) => (*name).to_owned(),
        ("BackendClose", [_, rest @ ..]) => rest.join(" "),
        ("TTL", _) => words.iter().map(|word| moment(word)).collect::<Vec<_>>().join(" "),
        // How much of a body has come by then is chance.
        ("Hit", [id, ttl, grace, keep, ..]) => {
            let (grace, keep) = (hundredths(grace), hundredths(keep));
            format!("{} {} {grace} {keep}", number(id, numbers), whole_seconds(ttl))
        }
        ("HitMiss" | "HitPass", [id, ttl, ..]) => {
            format!("{} {}", number(id, numbers), whole_seconds(ttl))
        }
        ("Begin" | "Link", [kind, id, rest @ ..]) => {
            format!("{kind} {} {}", number(id, numbers), rest.join(" "))
        }
        ("ExpBan", [id, rest @ ..]) => format!("{} {}", number(id, numbers), rest.join(" ")),
        ("Gzip", [what @ .., _, _, _, _, _]) => what.join(" "),
        _ => super::plain_line(&record.text),
    };
    Some(text)
}

/// A lifetime of which little has gone by, or which begins in a moment.
fn whole_seconds(ttl: &str) -> f64 {
    (ttl.parse().unwrap_or(0.0_f64) - 0.25).ceil()
}

/// A lifetime, which is kept in whole milliseconds here, and there as a number of seven digits.
fn hundredths(span: &str) -> String {
    format!("{:.2}", span.parse().unwrap_or(0.0_f32))
}

/// A word of a `TTL` record, without a point in time.
fn moment(word: &str) -> &str {
    match word.parse::<u64>() {
        Ok(number) if number > 1_700_000_000 => "now",
        _ if word == "-0" => "0",
        _ => word,
    }
}

/// What a transaction is called: its place among those of this policy.
fn number(id: &str, numbers: &HashMap<u64, usize>) -> String {
    let known = id.parse().ok().and_then(|id: u64| numbers.get(&id));
    known.map_or_else(|| "other".to_owned(), |number| format!("#{number}"))
}

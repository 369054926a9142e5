//! Directors of every kind over some of the backends, and requests and fetches that go by them.

use super::Grammar;
use freshet_vcl::State;

/// What a director is called, and its class. Later ones may have earlier ones as members.
const DIRECTORS: [(&str, &str); 5] =
    [("rr", "round_robin"), ("fb", "fallback"), ("rd", "random"), ("hs", "hash"), ("sh", "shard")];
/// What a key is made of.
const KEYS: [&str; 5] = [".url", ".http.A", ".http.Host", ".http.Cookie + \"x\"", ".method"];
/// How a shard director goes about it, for a fetch.
const SHARDED: [&str; 9] = [
    "",
    "by=URL",
    "by=HASH",
    "by=URL, alt=1",
    "by=HASH, alt=bereq.retries",
    "by=URL, healthy=IGNORE",
    "by=URL, alt=1, healthy=ALL",
    "by=URL, warmup=0.5",
    "by=KEY, key=sh.key(bereq.url)",
];

impl Grammar {
    /// Makes some directors.
    pub(super) fn directors(&mut self) {
        let mut members = self.backends.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        for (object, class) in DIRECTORS {
            if !self.draw.once_in(2) {
                continue;
            }
            let sticky =
                if class == "fallback" && self.draw.once_in(3) { "sticky=true" } else { "" };
            self.line(&format!("new {object} = directors.{class}({sticky});"));
            self.objects.push((object, "directors", class));
            // Some have all there are, and some none.
            let most = 1 + self.draw.below(4);
            for member in members.clone() {
                if self.draw.below(4) < most {
                    self.member(object, class, &member);
                }
            }
            if class == "shard" {
                let replicas = self.draw.of(&["", "25", "replicas=200"]);
                self.line(&format!("sh.reconfigure({replicas});"));
            } else if class != "hash" && self.draw.once_in(2) {
                members.push(format!("{object}.backend()"));
            }
        }
    }

    fn member(&mut self, object: &str, class: &str, member: &str) {
        let weights: &[&str] = match class {
            "hash" | "random" => &[", 1.0", ", 2.5", ", 0.5", ", 0.0"],
            "shard" => &["", ", ident=\"SEED\" + b0", ", weight=2.0", ", rampup=0s"],
            _ => &[""],
        };
        let weight = self.draw.of(weights);
        self.line(&format!("{object}.add_backend({member}{weight});"));
    }

    /// Has a request or a fetch go where a director says, or changes which there are. False where there is none.
    pub(super) fn goes_by_director(&mut self) -> bool {
        let directors: Vec<_> =
            self.objects.iter().filter(|(_, module, _)| *module == "directors").copied().collect();
        if directors.is_empty() {
            return false;
        }
        let (object, _, class) = directors[self.draw.below(directors.len())];
        let (message, variable) = match self.state {
            State::Recv | State::Miss | State::Pass => ("req", "req.backend_hint"),
            State::BackendFetch => ("bereq", "bereq.backend"),
            _ => return false,
        };
        if self.draw.once_in(8) && class != "shard" {
            let (number, backend) = (self.draw.below(4), self.draw.of(&["b0", "b1"]));
            let weight = if matches!(class, "hash" | "random") { ", 3.0" } else { "" };
            let change = match self.draw.below(2) {
                0 => format!("remove_backend({backend})"),
                _ => format!("add_backend({backend}{weight})"),
            };
            self.line(&format!("if ({message}.http.R == \"{number}\") {{ {object}.{change}; }}"));
            return true;
        }
        let arguments = match class {
            "hash" => format!("{message}{}", self.draw.of(&KEYS)),
            "shard" if message == "bereq" => self.draw.of(&SHARDED).to_owned(),
            _ => String::new(),
        };
        let choice = format!("{object}.backend({arguments})");
        match self.draw.below(6) {
            0 => self.line(&format!("set {message}.http.A = std.healthy({choice});")),
            1 => self.line(&format!("set {message}.http.A = \"\" + {choice};")),
            _ => self.line(&format!("set {variable} = {choice};")),
        }
        true
    }
}

//! Commands that talk to a running node: purge, explain, stat, log, origins.

use crate::client::{NodeArguments, encode};
use crate::form::FormArguments;
use crate::text::{COLUMNS, columns, cut, micros, percent, print, thousands, wrap, wrap_at};
use anyhow::{Result, bail};
use clap::Args;
use freshet_admin::ban_below;
use freshet_base::units::format_bytes;
use freshet_node::stats::HitCounts;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;

/// `freshet purge`
#[derive(Args)]
#[command(
    override_usage = "freshet purge [OPTIONS] <URL>...\n       freshet purge [OPTIONS] --tag <TAG>\n       \
                             freshet purge [OPTIONS] --all"
)]
#[command(after_help = "Examples:\n  freshet purge http://localhost:8000/a.mp4\n  \
                        freshet purge --tag news --soft\n  freshet purge --all")]
pub(crate) struct PurgeArguments {
    /// URLs as clients ask for them, host and port included.
    #[arg(value_name = "URL", required_unless_present_any = ["tag", "all"])]
    urls: Vec<String>,
    /// Everything the origin sent with this Surrogate-Key or Cache-Tag; repeatable.
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Everything.
    #[arg(long, conflicts_with_all = ["urls", "tag"])]
    all: bool,
    /// With --tag or --all: of this site only.
    #[arg(long, value_name = "NAME", conflicts_with = "urls")]
    site: Option<String>,
    /// Keep it as stale, to be served while it is refreshed.
    #[arg(long)]
    soft: bool,
    /// Its place in an order of purges that other nodes carry out as well, as `news.17`.
    #[arg(long, value_name = "ORDER.NUMBER")]
    sequence: Option<String>,
    #[command(flatten)]
    form: FormArguments,
    #[command(flatten)]
    node: NodeArguments,
}

/// Purges and says how much that was.
///
/// # Errors
/// When the node cannot be asked or refuses.
pub(crate) fn purge(arguments: PurgeArguments) -> Result<ExitCode> {
    let (soft, site) = (arguments.soft, &arguments.site);
    let urls = arguments
        .urls
        .iter()
        .map(|url| ("/v1/purge", url.as_str(), json!({"url": url, "soft": soft})));
    let tags = arguments.tag.iter().map(|tag| {
        ("/v1/purge/tag", tag.as_str(), json!({"tag": tag, "soft": soft, "site": site}))
    });
    let what = site.as_deref().unwrap_or("everything");
    let all = arguments.all.then(|| ("/v1/purge/all", what, json!({"soft": soft, "site": site})));
    let all: Vec<_> = urls.chain(tags).chain(all).collect();
    let last = all.len().saturating_sub(1);
    for (index, (path, what, mut body)) in all.into_iter().enumerate() {
        // All of them together are one place in the order.
        if let Some(sequence) = arguments.sequence.as_deref().filter(|_| index == last) {
            body["sequence"] = sequence.into();
        }
        let answer = arguments.node.post(path, &body)?.json()?;
        if arguments.form.is_json() {
            say!("{answer}")?;
            continue;
        }
        let took = micros(answer["took_us"].as_u64().unwrap_or(0));
        let done = if soft { "made stale" } else { "purged" };
        let result = match answer["purged"].as_u64().unwrap_or(0) {
            0 => format!("nothing was stored ({took})"),
            1 => format!("1 object {done} in {took}"),
            count => format!("{} objects {done} in {took}", thousands(count)),
        };
        let away = if answer["durable"] == false { "; not durable yet" } else { "" };
        let result = result + away;
        say!("{}: {result}", cut(what, COLUMNS - result.chars().count() - 2))?;
        if let Some(ban) = ban_below(what).filter(|_| path == "/v1/purge" && answer["purged"] == 0)
        {
            tell!("  a purge is of one URL; for all below it: freshet ban '{ban}'\n");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `freshet explain`
#[derive(Args)]
pub(crate) struct ExplainArguments {
    /// URL as clients ask for it, host and port included.
    url: String,
    /// Method of the request.
    #[arg(long, default_value = "GET")]
    method: String,
    /// A field of the request, as "Accept-Encoding: br"; repeatable.
    #[arg(short = 'H', long, value_name = "FIELD")]
    header: Vec<String>,
    #[command(flatten)]
    form: FormArguments,
    #[command(flatten)]
    node: NodeArguments,
}

/// Says why a URL is a hit or a miss.
///
/// # Errors
/// When the node cannot be asked or refuses.
pub(crate) fn explain(arguments: ExplainArguments) -> Result<ExitCode> {
    let mut path =
        format!("/v1/explain?url={}&method={}", encode(&arguments.url), encode(&arguments.method));
    for header in &arguments.header {
        let _ = write!(path, "&header={}", encode(header));
    }
    let answer = arguments.node.get(&path)?;
    if arguments.form.is_json() {
        print(&answer.body)?;
        print("\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    let answer = answer.json()?;
    let mut out = String::new();
    wrap(answer["verdict"].as_str().unwrap_or(""), 0, &mut out);
    for fact in list(&answer["facts"]) {
        let label = fact["label"].as_str().unwrap_or("");
        let _ = write!(out, "{label:<8}");
        wrap(fact["text"].as_str().unwrap_or(""), 8, &mut out);
    }
    print(&out)?;
    Ok(ExitCode::SUCCESS)
}

/// `freshet stat`
#[derive(Args)]
pub(crate) struct StatArguments {
    #[command(flatten)]
    form: FormArguments,
    #[command(flatten)]
    node: NodeArguments,
}

/// Shows the figures of a node since its start.
///
/// # Errors
/// When the node cannot be asked or refuses.
pub(crate) fn stat(arguments: StatArguments) -> Result<ExitCode> {
    let answer = arguments.node.get("/v1/stats")?;
    arguments.form.print(&answer, |answer| figures(answer, columns()))
}

/// Figures in lines of so many columns.
fn figures(stats: &Value, columns: usize) -> String {
    let count = |path: &str| stats.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    let counter = |name: &str| count(&format!("/counters/{name}"));
    // Nothing was answered in no time: there is no figure yet.
    let time = |path: &str| match count(path) {
        0 => "-".to_owned(),
        us => micros(us),
    };
    let hits = HitCounts::of(counter);
    let uptime = stats["uptime_s"].as_f64().unwrap_or(0.0);
    let head = format!(
        "freshet {}, up {}, {} workers, {} connections{}",
        stats["version"].as_str().unwrap_or("?"),
        uptime_text(uptime),
        count("/workers"),
        thousands(count("/connections")),
        if stats["draining"] == true { ", draining" } else { "" },
    );
    let mut out = String::new();
    wrap_at(columns, &head, 4, &mut out);
    let mut lines = vec![
        (
            "hits",
            format!(
                "{} of requests, {} of body bytes",
                percent(hits.hits, hits.requests),
                percent(hits.spared_body_bytes(), hits.body_bytes)
            ),
        ),
        (
            "first byte",
            format!(
                "hit p50 {} p99 {}, else p50 {} p99 {}",
                time("/hit_first_byte/p50_us"),
                time("/hit_first_byte/p99_us"),
                time("/miss_first_byte/p50_us"),
                time("/miss_first_byte/p99_us")
            ),
        ),
        (
            "cache",
            format!(
                "{} objects, {}, {} evicted, {} purged",
                thousands(count("/cache/objects")),
                format_bytes(count("/cache/bytes")),
                thousands(count("/cache/evicted")),
                thousands(count("/cache/purged"))
            ),
        ),
        (
            "memory",
            format!(
                "{} of {} for objects, {} in RAM altogether",
                format_bytes(count("/memory/committed_bytes") + count("/memory/metadata_bytes")),
                format_bytes(count("/memory/limit_bytes")),
                format_bytes(count("/resident_bytes"))
            ),
        ),
        ("statuses", join(&stats["statuses"])),
    ];
    if stats["lower_memory"].is_object() {
        let lower = |name: &str| count(&format!("/lower_memory/{name}"));
        let held = format!(
            "{} of {} in {} objects, {} hits",
            format_bytes(lower("used_bytes")),
            format_bytes(lower("limit_bytes")),
            thousands(lower("objects")),
            thousands(lower("hits")),
        );
        let moved = format!(
            "{} moved down, {} back, {} evicted",
            thousands(lower("demoted")),
            thousands(lower("promoted")),
            thousands(lower("evicted")),
        );
        lines.extend([("lower class", held), ("", moved)]);
    }
    let groups = stats["groups"].as_array().into_iter().flatten();
    lines.extend(groups.enumerate().map(|(at, group)| {
        let figure = |name: &str| group[name].as_u64().unwrap_or(0);
        let text = format!(
            "{}: {} of {} in {} objects, {} hits, {} of copies, {} of others",
            figure("group"),
            format_bytes(figure("memory_used_bytes")),
            format_bytes(figure("memory_limit_bytes")),
            thousands(figure("objects")),
            thousands(figure("hits")),
            thousands(figure("hits_of_copies")),
            thousands(figure("hits_of_others")),
        );
        (if at == 0 { "groups" } else { "" }, text)
    }));
    for (label, text) in lines {
        let _ = write!(out, "{label:<12}");
        wrap_at(columns, &text, 12, &mut out);
    }
    out.push('\n');
    counters(&stats["counters"], columns, &mut out);
    out
}

/// Counters that are not zero, two to a line where they are short enough for that.
fn counters(counters: &Value, columns: usize, out: &mut String) {
    let Value::Object(counters) = counters else { return };
    let shown: Vec<_> = counters
        .iter()
        .filter_map(|(name, value)| Some((name, value.as_u64().filter(|value| *value > 0)?)))
        .map(|(name, value)| (name, thousands(value)))
        .collect();
    let fits = |(name, value): &(&String, String)| name.len() + 1 + value.len() <= CELL_WIDTH;
    let on_a_line = if columns >= CELL_WIDTH * 2 + 2 && shown.iter().all(fits) { 2 } else { 1 };
    for pair in shown.chunks(on_a_line) {
        let cell = |(name, value): &(&String, String)| {
            let rest = CELL_WIDTH.saturating_sub(name.len());
            format!("{name}{value:>rest$}")
        };
        let cells: Vec<_> = pair.iter().map(cell).collect();
        let _ = writeln!(out, "{}", cells.join("  "));
    }
}

/// Columns of a counter where two are on a line.
const CELL_WIDTH: usize = 39;

fn join(counts: &Value) -> String {
    let Value::Object(counts) = counts else { return String::new() };
    let counts = counts.iter().filter_map(|(name, value)| {
        let value = value.as_u64().filter(|value| *value > 0)?;
        Some(format!("{} {name}", thousands(value)))
    });
    counts.collect::<Vec<_>>().join(", ")
}

/// A time since a start.
pub(crate) fn uptime_text(seconds: f64) -> String {
    match seconds as u64 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

/// `freshet origins`
#[derive(Args)]
#[command(after_help = "Examples:\n  freshet origins\n  freshet origins a.example down\n  \
                        freshet origins a.example auto")]
pub(crate) struct OriginsArguments {
    /// Origin to change.
    #[arg(requires = "state")]
    name: Option<String>,
    /// What it is to be: auto leaves it to health checks.
    #[arg(value_parser = ["auto", "up", "down"])]
    state: Option<String>,
    #[command(flatten)]
    form: FormArguments,
    #[command(flatten)]
    node: NodeArguments,
}

/// Lists origins, or takes one out and puts it in.
///
/// # Errors
/// When the node cannot be asked or refuses.
pub(crate) fn origins(arguments: OriginsArguments) -> Result<ExitCode> {
    let answer = match (&arguments.name, &arguments.state) {
        (Some(name), Some(state)) => {
            let path = format!("/v1/origins/{}", encode(name));
            arguments.node.post(&path, &json!({"state": state}))?
        }
        (None, None) => arguments.node.get("/v1/origins")?,
        _ => bail!("to change an origin give its name and auto, up or down"),
    };
    if arguments.form.is_json() {
        print(&answer.body)?;
        print("\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    let origins = match answer.json()? {
        Value::Array(origins) => origins,
        one => vec![one],
    };
    let mut out = format!(
        "{:<26}{:<9}{:<6}{:>10}{:>10}{:>7}{:>10}\n",
        "origin", "health", "said", "requests", "failures", "open", "answers"
    );
    for origin in &origins {
        let text = |name: &str| origin[name].as_str().unwrap_or("");
        let count = |name: &str| thousands(origin[name].as_u64().unwrap_or(0));
        let _ = writeln!(
            out,
            "{:<26}{:<9}{:<6}{:>10}{:>10}{:>7}{:>10}",
            cut(text("name"), 25),
            text("health"),
            text("said"),
            count("requests"),
            count("failures"),
            count("connections"),
            micros((origin["first_byte_ms"].as_f64().unwrap_or(0.0) * 1e3) as u64),
        );
    }
    print(&out)?;
    Ok(ExitCode::SUCCESS)
}

/// The members of an array; none of anything else.
pub(crate) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_fit_the_terminal() {
        let stats = json!({
            "version": "0.1.0", "uptime_s": 200_000.0, "workers": 128, "connections": 100_000,
            "counters": {"requests": u64::MAX / 1024, "connections_accepted": u64::MAX / 1024, "hits": 5},
            "statuses": {"2xx": 1_000_000_000_u64, "3xx": 1_000_000_000_u64, "4xx": 1_000_000_000_u64, "5xx": 7},
        });
        for columns in [50, COLUMNS] {
            let text = figures(&stats, columns);
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
        }
        let text = figures(&stats, COLUMNS);
        assert!(text.starts_with("freshet 0.1.0, up 2 d, 128 workers, 100,000 connections\n"));
        let stats =
            json!({"counters": {"requests_without_password": 12, "hits": 5, "misses": 1000}});
        let text = figures(&stats, COLUMNS);
        let (one, other) = (format!("hits{:>35}", 5), format!("misses{:>33}", "1,000"));
        assert!(
            text.ends_with(&format!("{one}  {other}\nrequests_without_password{:>14}\n", 12)),
            "{text}"
        );
    }
}

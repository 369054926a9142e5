//! `freshet router`: local breakout in front of a 4G or 5G core.

pub(crate) mod demo;

use crate::form::FormArguments;
use crate::text;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use freshet_router::kernel::config::{self, Config};
use freshet_router::kernel::{Running, detach};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// How long an answer may take: rules are compiled and swapped.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Break out a mobile network's traffic at its edge.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Needs root. docs/router.md says how to set it up."
)]
pub(crate) struct Arguments {
    /// Configuration of the router to run.
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Subcommand)]
enum What {
    /// Check a configuration and its rules, and touch nothing.
    Check(ConfigOption),
    /// Take the programs off the wire; the bridge goes on alone.
    Detach(ConfigOption),
    /// How a running router is.
    Status(Ask),
    /// Its rules with their counts, or set them anew.
    Rules(RulesOptions),
    /// Clients' sessions; have one, forget one, tag a client.
    Sessions(SessionsOptions),
    /// What would become of a packet, and why.
    Trace(TraceOptions),
    /// What happened lately.
    Events(EventsOptions),
    /// Show it: a mobile network on this machine, and the caching node at its edge.
    Demo(DemoOptions),
    /// Cores that are guaranteed to be fast: list them, hold them there.
    Cores(CoresOptions),
}

#[derive(Args)]
struct ConfigOption {
    /// Configuration.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// How a running router is asked.
#[derive(Args)]
struct Ask {
    /// Its socket.
    #[arg(long, value_name = "PATH", default_value = "/run/freshet/router.sock")]
    socket: PathBuf,
    #[command(flatten)]
    form: FormArguments,
}

#[derive(Args)]
struct RulesOptions {
    #[command(flatten)]
    ask: Ask,
    /// Replace all rules by this JSON list of TrafficRule, or none of them.
    #[arg(long, value_name = "FILE")]
    set: Option<PathBuf>,
}

#[derive(Args)]
struct SessionsOptions {
    #[command(flatten)]
    ask: Ask,
    /// Only this client: its address, in a network that has a name ADDRESS@NETWORK.
    #[arg(long, value_name = "CLIENT")]
    client: Option<String>,
    /// How many at most.
    #[arg(long, default_value_t = 100, value_name = "N")]
    limit: usize,
    /// Have a session: JSON as in docs/router.md.
    #[arg(long, value_name = "JSON", conflicts_with_all = ["client", "remove", "tag"])]
    add: Option<String>,
    /// Forget this client's session.
    #[arg(long, value_name = "CLIENT", conflicts_with_all = ["client", "tag"])]
    remove: Option<String>,
    /// Set a client's tags: CLIENT=TAG,TAG; none removes them.
    #[arg(long, value_name = "CLIENT=TAGS", conflicts_with = "client")]
    tag: Option<String>,
}

#[derive(Args)]
struct TraceOptions {
    #[command(flatten)]
    ask: Ask,
    /// The client: its address, in a network that has a name ADDRESS@NETWORK.
    client: String,
    /// The other end's address.
    server: IpAddr,
    /// Number of the protocol: 6 is TCP, 17 UDP.
    #[arg(long, default_value_t = 6, value_name = "N")]
    protocol: u8,
    /// Ports of client and server.
    #[arg(long, value_name = "CLIENT:SERVER", default_value = "40000:80")]
    ports: String,
    /// A packet to the client, not from it.
    #[arg(long)]
    downlink: bool,
}

#[derive(Args)]
struct EventsOptions {
    #[command(flatten)]
    ask: Ask,
    /// Only those after this number.
    #[arg(long, default_value_t = 0, value_name = "N")]
    after: u64,
    /// And what happens from now on, until Ctrl-C.
    #[arg(long)]
    follow: bool,
}

#[derive(Args)]
struct DemoOptions {
    /// Ask as the client without a rule and with one, and end.
    #[arg(long)]
    once: bool,
}

#[derive(Args)]
struct CoresOptions {
    /// Say what of the published set-up this machine has.
    #[arg(long)]
    check: bool,
    /// Set frequencies.
    #[arg(long, value_enum, value_name = "MODE")]
    mode: Option<ModeOption>,
    /// Put this interface's interrupts on fast cores; repeatable.
    #[arg(long, value_name = "INTERFACE")]
    port: Vec<String>,
    /// Show what would be written, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Where sys and proc are.
    #[arg(long, value_name = "FOLDER", default_value = "/", hide = true)]
    root: PathBuf,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ModeOption {
    /// Each core at its guaranteed frequency.
    Guaranteed,
    /// Fast cores from theirs up to turbo, the others at theirs.
    Mixed,
    /// As the hardware has it.
    Free,
}

/// Runs a router, or asks one.
///
/// # Errors
/// What is to be changed, or what the router said.
pub(crate) fn run(arguments: Arguments) -> Result<ExitCode> {
    match arguments.what {
        None => start(&arguments.config.context("--config is missing")?)?,
        Some(What::Check(option)) => {
            let config = read(&option.config)?;
            check(&config)?;
            say!("{}: good", option.config.display())?;
        }
        Some(What::Detach(option)) => {
            let taken = detach(&read(&option.config)?)?;
            say!("{taken} programs taken off; the bridge carries the wire")?;
        }
        Some(What::Status(ask)) => status(&ask)?,
        Some(What::Rules(options)) => rules(&options)?,
        Some(What::Sessions(options)) => sessions(&options)?,
        Some(What::Trace(options)) => trace(&options)?,
        Some(What::Cores(options)) => cores(&options)?,
        Some(What::Demo(options)) => demo::run(options.once)?,
        Some(What::Events(options)) => events(&options)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Result<Config> {
    let shown = path.display();
    let text = text::read(path)?;
    config::read(&text).map_err(|what| anyhow::anyhow!("{shown}: {what}"))
}

fn check(config: &Config) -> Result<()> {
    use freshet_router::app::{Apps, Numbered};
    use freshet_router::rule::check;
    let Some(path) = &config.rules else { return Ok(()) };
    let text = text::read(path)?;
    let value = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
    let apps = Apps::restored(config.apps.clone(), &Numbered::default())?;
    let checked = check::read(value).and_then(|rules| check::check(&rules, &apps, &config.names()));
    if let Err(mistakes) = checked {
        let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
        bail!("{}:\n{}", path.display(), lines.join("\n"));
    }
    Ok(())
}

fn start(path: &Path) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("the router needs root: it puts programs on network interfaces");
    }
    let config = read(path)?;
    let mut router =
        Running::start(config).context("the router did not start; the wire is untouched")?;
    tell!("the router is on the wire\n");
    sd_notify::notify(&[sd_notify::NotifyState::Ready]).ok();
    router.run().context("the router stopped; what is on the wire goes on")
}

/// Asks; prints the answer where it is wanted as it is.
fn ask(options: &Ask, question: &Value) -> Result<Value> {
    let answer = next_answer(options, &mut put(options, question)?)?;
    let shown = options.socket.display();
    answer.with_context(|| format!("{shown}: no answer"))
}

/// Puts a question; its answer is to be read.
fn put(options: &Ask, question: &Value) -> Result<BufReader<UnixStream>> {
    let shown = options.socket.display();
    let stream = UnixStream::connect(&options.socket)
        .with_context(|| format!("{shown}: does a router run, and with this socket?"))?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let mut question = question.clone();
    question["version"] = json!(freshet_router::kernel::protocol::VERSION);
    (&stream).write_all(format!("{question}\n").as_bytes())?;
    Ok(BufReader::new(stream))
}

/// The next answer, until the router hangs up; prints it where it is wanted as it is.
fn next_answer(options: &Ask, from: &mut BufReader<UnixStream>) -> Result<Option<Value>> {
    let shown = options.socket.display();
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let answer: Value =
        serde_json::from_str(&line).with_context(|| format!("{shown}: no answer"))?;
    if let Some(error) = answer["error"].as_str() {
        let mistakes = answer["mistakes"].as_array().into_iter().flatten();
        let mistakes: String = mistakes
            .map(|one| format!("\n  {}: {}", word(&one["place"]), word(&one["what"])))
            .collect();
        bail!("{error}{mistakes}");
    }
    if options.form.is_json() {
        say!("{}", answer["answer"])?;
    }
    Ok(Some(answer["answer"].clone()))
}

fn events(options: &EventsOptions) -> Result<()> {
    let show = |event: &Value| {
        if !options.ask.form.is_json() {
            let what = word(&event["what"]);
            let line = format!(
                "{:>6}  {what:<12} {}\n",
                number(&event["number"]),
                word(&event["subject"])
            );
            text::print(&line)?;
        }
        Ok::<_, anyhow::Error>(())
    };
    if !options.follow {
        let answer = ask(&options.ask, &json!({ "ask": "events", "after": options.after }))?;
        return answer.as_array().into_iter().flatten().try_for_each(show);
    }
    let mut from = put(&options.ask, &json!({ "ask": "follow", "after": options.after }))?;
    from.get_ref().set_read_timeout(None)?;
    while let Some(event) = next_answer(&options.ask, &mut from)? {
        show(&event)?;
    }
    bail!("the router hung up")
}

fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn status(options: &Ask) -> Result<()> {
    let status = ask(options, &json!({ "ask": "status" }))?;
    if options.form.is_json() {
        return Ok(());
    }
    say!("wire      {} - {}", word(&status["ports"][0]), word(&status["ports"][1]))?;
    if let Some(why) = status["off_wire"].as_str() {
        say!("          goes on untouched: {why}")?;
    }
    say!("rules     {}, generation {}", status["rules"], status["generation"])?;
    say!("sessions  {}", status["sessions"])?;
    for (name, alive) in status["apps"].as_object().into_iter().flatten() {
        say!("app       {name}: {}", if *alive == json!(true) { "alive" } else { "dead" })?;
    }
    for (port, reasons) in status["counters"].as_object().into_iter().flatten() {
        for (reason, count) in reasons.as_object().into_iter().flatten() {
            say!(
                "{port:<8}  {reason:<16}{:>14} packets{:>18} bytes",
                number(&count["packets"]),
                number(&count["bytes"])
            )?;
        }
    }
    Ok(())
}

fn rules(options: &RulesOptions) -> Result<()> {
    if let Some(path) = &options.set {
        let shown = path.display();
        let text = text::read(path)?;
        let rules: Value = serde_json::from_str(&text).with_context(|| shown.to_string())?;
        let answer = ask(&options.ask, &json!({ "ask": "set-rules", "rules": rules }))?;
        if !options.ask.form.is_json() {
            say!("generation {} is in force", answer["generation"])?;
        }
        return Ok(());
    }
    let answer = ask(&options.ask, &json!({ "ask": "rules" }))?;
    if !options.ask.form.is_json() {
        for rule in answer.as_array().into_iter().flatten() {
            let state = if rule["active"] == json!(true) { "active" } else { "inactive" };
            let count = &rule["count"];
            say!(
                "{:<32}{state:<10}{:>12} packets{:>16} bytes",
                word(&rule["id"]),
                number(&count["packets"]),
                number(&count["bytes"])
            )?;
        }
    }
    Ok(())
}

fn sessions(options: &SessionsOptions) -> Result<()> {
    let question = if let Some(text) = &options.add {
        let mut told: Value = serde_json::from_str(text).context("--add")?;
        if !told.is_object() {
            bail!("--add: must be a JSON object");
        }
        told["ask"] = json!("add-session");
        told
    } else if let Some(client) = &options.remove {
        json!({ "ask": "remove-session", "client": client })
    } else if let Some(text) = &options.tag {
        let (client, tags) = text.split_once('=').context("--tag: write it as CLIENT=TAG,TAG")?;
        let tags: Vec<&str> = tags.split(',').filter(|tag| !tag.is_empty()).collect();
        json!({ "ask": "tag", "client": client, "tags": tags })
    } else {
        json!({ "ask": "sessions", "limit": options.limit, "client": options.client })
    };
    let answer = ask(&options.ask, &question)?;
    if options.ask.form.is_json() {
        return Ok(());
    }
    if answer.as_object().is_some_and(|answer| !answer.is_empty()) {
        say!("{answer}")?;
    }
    for session in answer.as_array().into_iter().flatten() {
        say!(
            "{:<24}{:<10}{} ({}) - {} ({})  {}",
            word(&session["client"]),
            word(&session["authority"]),
            word(&session["ends"][0]),
            session["teids"][1],
            word(&session["ends"][1]),
            session["teids"][0],
            session["tags"]
                .as_array()
                .into_iter()
                .flatten()
                .map(word)
                .collect::<Vec<_>>()
                .join(",")
        )?;
    }
    Ok(())
}

fn trace(options: &TraceOptions) -> Result<()> {
    let ports = options.ports.split_once(':').and_then(|(client, server)| {
        Some([client.parse::<u16>().ok()?, server.parse::<u16>().ok()?])
    });
    let ports = ports.context("--ports: write them as CLIENT:SERVER, such as 40000:443")?;
    let has_ports = matches!(options.protocol, 6 | 17 | 132);
    let answer = ask(
        &options.ask,
        &json!({
            "ask": "trace", "client": options.client, "server": options.server,
            "protocol": options.protocol, "ports": has_ports.then_some(ports),
            "downlink": options.downlink,
        }),
    )?;
    if !options.ask.form.is_json() {
        for step in answer["steps"].as_array().into_iter().flatten() {
            say!("{}", word(step))?;
        }
        say!("reason: {}", word(&answer["reason"]))?;
    }
    Ok(())
}

fn cores(options: &CoresOptions) -> Result<()> {
    use freshet_router::cores::{Machine, Mask, Mode};
    let machine = Machine::read(&options.root).map_err(anyhow::Error::msg)?;
    let fast = machine.fast();
    let list: Vec<String> = fast.iter().map(ToString::to_string).collect();
    say!("fast CPUs  {}", if fast.is_empty() { "none" } else { "" }.to_owned() + &list.join(","))?;
    say!("mask       {}", Mask(&fast))?;
    if options.check {
        for check in machine.checks() {
            let found = check.found.as_deref().unwrap_or("not shown by the system");
            let verdict =
                check.is_good.map_or("look in the BIOS", |is| if is { "good" } else { "WRONG" });
            say!("{:<26}{:<16}{found:<26}{verdict}", check.what, check.wanted)?;
        }
    }
    let mut writes = match options.mode {
        Some(mode) => machine.frequencies(match mode {
            ModeOption::Guaranteed => Mode::Guaranteed,
            ModeOption::Mixed => Mode::Mixed,
            ModeOption::Free => Mode::Free,
        }),
        None => Vec::new(),
    };
    if !options.port.is_empty() {
        writes.extend(machine.interrupts(&options.port).map_err(anyhow::Error::msg)?);
    }
    for write in &writes {
        if options.dry_run {
            say!("{} = {}", write.path.display(), write.value)?;
        } else {
            write.apply().with_context(|| write.path.display().to_string())?;
        }
    }
    Ok(())
}

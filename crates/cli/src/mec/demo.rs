//! `freshet mec demo`: the platform with a simulated radio network and three apps. As root, in a program
//! with the edge router, also a mobile network in namespaces, whose client's requests an app breaks out by
//! its traffic rule.

#[cfg(feature = "router")]
use crate::router::demo::Stage;
use anyhow::{Context, Result, anyhow, bail};
use freshet_mec::serve;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// The secret of every client here, who all are on this machine.
const SECRET: &str = "demo";
const SECRET_SHA256: &str = "2a97516c354b68848cdbd8f54a226a0a55b21ed138e207ad6c5cbb9c00aa5aea";
/// Name of the folder of a demonstration, before the number of its process.
const FOLDER: &str = "freshet-mec-";
const APPS: [&str; 3] = ["edge", "camera", "viewer"];
const RULE: &str = "/mec_app_support/v1/applications/edge/traffic_rules/film";

/// Shows it until Ctrl-C; `once`, does what the text says by itself and ends.
///
/// # Errors
/// What this machine lacks or refused.
pub(super) fn run(once: bool) -> Result<()> {
    #[cfg(feature = "router")]
    let stage = match freshet_router::kernel::namespace::missing() {
        None => Some(
            Stage::build().context("the mobile network did not start; nothing of it is left")?,
        ),
        Some(missing) => {
            say!("Without a mobile network to break out of: {missing}.\n")?;
            None
        }
    };
    #[cfg(feature = "router")]
    let socket = stage.as_ref().map(|stage| stage.file("router.sock"));
    #[cfg(not(feature = "router"))]
    let socket: Option<PathBuf> = None;
    let folder = Folder::new()?;
    let platform = Platform::start(&folder.0, socket.as_deref())?;
    platform.begin_apps()?;
    platform.introduce()?;
    #[cfg(feature = "router")]
    if let Some(stage) = &stage {
        stage.introduce_client()?;
    }
    if !once {
        say!("Ctrl-C ends it and leaves nothing.")?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(crate::stop::told_to_end());
        return Ok(());
    }
    platform.show()?;
    #[cfg(feature = "router")]
    if let Some(stage) = &stage {
        show_breakout(stage, &platform)?;
    }
    Ok(())
}

/// Asks as the client: before the app's rule is active, after, and when it is not any more. The rule is
/// answered when packets meet it, so that nothing here waits.
#[cfg(feature = "router")]
fn show_breakout(stage: &Stage, platform: &Platform) -> Result<()> {
    stage.app_is_alive()?;
    for (state, who) in [("INACTIVE", "core"), ("ACTIVE", "edge"), ("INACTIVE", "core")] {
        let mut rule = platform.ask("GET", RULE, "edge", &Value::Null)?;
        rule["state"] = state.into();
        platform.ask("PUT", RULE, "edge", &rule)?;
        let answered = stage.who_answers()?;
        say!("the rule is {state}: answered by {answered}")?;
        if answered != who {
            bail!("the client should have been answered by {who}");
        }
    }
    Ok(())
}

/// A folder that goes with the demonstration.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let within = std::env::temp_dir();
        Self::sweep(&within);
        let path = within.join(format!("{FOLDER}{}", std::process::id()));
        fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(Self(path))
    }

    /// Removes what demonstrations of this user have left that were killed.
    fn sweep(within: &Path) {
        let user = rustix::process::geteuid().as_raw();
        for entry in fs::read_dir(within).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.strip_prefix(FOLDER)?.parse::<u32>().ok());
            let is_over = id.is_some_and(|id| !Path::new("/proc").join(id.to_string()).exists());
            if is_over && entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user)
            {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The platform, in a thread.
struct Platform {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Platform {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Platform {
    fn start(folder: &Path, socket: Option<&Path>) -> Result<Self> {
        let config = serve::read(&config(folder, socket)).map_err(anyhow::Error::msg)?;
        let bound = serve::bind(config).map_err(anyhow::Error::msg)?;
        let freshet_net::address::Address::Tcp(address) = *bound.address() else {
            bail!("the platform has no address");
        };
        let (stop, stopped) = oneshot::channel();
        let over = async {
            let _: Result<(), _> = stopped.await;
        };
        let work = move || {
            if let Err(error) = bound.run(over) {
                tell!("freshet: the platform ended: {error}\n");
            }
        };
        let thread = std::thread::Builder::new().name("mec".into()).spawn(work)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Has the apps do what apps do first: they say that they are ready, and the camera offers its service.
    fn begin_apps(&self) -> Result<()> {
        let ready = json!({ "indication": "READY" });
        for app in APPS {
            let confirm = format!("/mec_app_support/v1/applications/{app}/confirm_ready");
            self.ask("POST", &confirm, app, &ready)?;
        }
        let service = json!({
            "serName": "detector", "version": "1.0", "state": "ACTIVE", "transportId": "rest", "serializer": "JSON",
        });
        self.ask("POST", "/mec_service_mgmt/v1/applications/camera/services", "camera", &service)?;
        Ok(())
    }

    fn introduce(&self) -> Result<()> {
        let api = format!("http://{}", self.address);
        say!(
            "A platform for apps at the edge, {api}, with a simulated radio network of twelve clients\n\
             and the apps edge, camera and viewer; the secret of each, and of operator, is {SECRET}.\n\n\
             a token              token=$(curl -s -u edge:{SECRET} -d grant_type=client_credentials {api}/oauth2/token | sed 's/.*\"access_token\":\"\\([^\"]*\\).*/\\1/')\n\
             who is where         curl -s -H \"Authorization: Bearer $token\" {api}/location/v3/queries/users\n\
             wireless networks    curl -s -H \"Authorization: Bearer $token\" {api}/wai/v2/queries/ap/ap_information\n\
             bearers              curl -s -H \"Authorization: Bearer $token\" {api}/rni/v2/queries/rab_info\n\
             services             curl -s -H \"Authorization: Bearer $token\" {api}/mec_service_mgmt/v1/services\n\
             its traffic rule     curl -s -H \"Authorization: Bearer $token\" {api}{RULE}\n\
             all interfaces       curl -s {api}/\n\
             a page of all of it  {api}/console, as operator\n"
        )
    }

    fn show(&self) -> Result<()> {
        let mut zones = self.ask("GET", "/location/v3/queries/zones", "viewer", &Value::Null);
        // The simulator's first report is under way.
        while zones.is_err() && self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            zones = self.ask("GET", "/location/v3/queries/zones", "viewer", &Value::Null);
        }
        for zone in zones?["zoneList"]["zone"].as_array().into_iter().flatten() {
            say!("zone {}: {} clients", zone["zoneId"], zone["numberOfUsers"])?;
        }
        let found = self.ask(
            "GET",
            "/mec_service_mgmt/v1/services?ser_name=detector",
            "viewer",
            &Value::Null,
        )?;
        say!("the viewer finds the camera's service {}", found[0]["serInstanceId"])?;
        Ok(())
    }

    /// Asks as a client, with a token of its own.
    fn ask(&self, method: &str, target: &str, client: &str, body: &Value) -> Result<Value> {
        let form =
            format!("grant_type=client_credentials&client_id={client}&client_secret={SECRET}");
        let token = self.exchange("POST", "/oauth2/token", "", &form)?;
        let token = token["access_token"].as_str().context("there is no token")?.to_owned();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.exchange(method, target, &format!("Authorization: Bearer {token}\r\n"), &body)
    }

    fn exchange(&self, method: &str, target: &str, fields: &str, body: &str) -> Result<Value> {
        let mut stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let length = body.len();
        write!(
            stream,
            "{method} {target} HTTP/1.1\r\nHost: {}\r\n{fields}Content-Type: application/json\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}",
            self.address
        )?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        let (head, body) = text.split_once("\r\n\r\n").context("no answer")?;
        let status = head.split(' ').nth(1).unwrap_or_default();
        if !status.starts_with('2') {
            return Err(anyhow!("{method} {target}: {status} {body}"));
        }
        // Some answers say that it is done, and no more.
        let body = if body.is_empty() { "null" } else { body };
        serde_json::from_str(body).with_context(|| format!("{method} {target}"))
    }
}

/// What the platform is told.
fn config(folder: &Path, socket: Option<&Path>) -> String {
    let router =
        socket.map_or_else(String::new, |path| format!("router = \"{}\"\n", path.display()));
    let client = |name: &str, app: &str| {
        format!(
            "[client.{name}]\n{app}secret_sha256 = \"{SECRET_SHA256}\"\n\
             scopes = [\"mec_app_support\", \"mec_service_mgmt\", \"rni\", \"location\", \"wai\", \"fai\", \"vis\"{}]\n",
            if app.is_empty() { ", \"mec_platform\", \"app_lcm\"" } else { "" }
        )
    };
    let apps = APPS.map(|name| client(name, &format!("app = \"{name}\"\n")));
    format!(
        "listen = \"127.0.0.1:0\"\nstate = \"{}\"\ncallbacks_allowed = [\"127.0.0.1\"]\n{router}\
         [simulator]\nseed = 1\nclients = 12\n{}{}[app.camera]\n[app.viewer]\n\
         [[app.edge.traffic_rules]]\ntrafficRuleId = \"film\"\nfilterType = \"FLOW\"\npriority = 1\n\
         trafficFilter = [{{ dstAddress = [\"203.0.113.10/32\"], dstPort = [\"80\"], protocol = [\"TCP\"] }}]\n\
         action = \"FORWARD_DECAPSULATED\"\nstate = \"INACTIVE\"\n\
         dstInterface = {{ interfaceType = \"IP\", dstIpAddress = \"10.99.0.2\" }}\n",
        folder.join("state").display(),
        client("operator", ""),
        apps.concat(),
    )
}

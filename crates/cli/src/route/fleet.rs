//! What the nodes of a fleet say of themselves, for a router.

use freshet_fleet::identity::Identity;
use freshet_fleet::nats::{FleetError, Link, LinkSettings, Report};
use freshet_route::config::FleetSettings;
use freshet_route::live::Told;
use freshet_route::serve::Router;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::sleep;

/// How long nodes may take to say how they are.
const REPORTS_WITHIN: Duration = Duration::from_secs(2);
/// Time between two questions.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Questions in a row that a node leaves unanswered before it is doubted: one may be lost.
const SILENCES_MAX: u32 = 2;

/// Tells a router how the nodes of a fleet are. Servers that cannot be reached are waited for; until then
/// the router's own checks decide alone.
///
/// # Errors
/// Names and files that cannot be used.
pub(super) async fn follow(router: &Router, fleet: FleetSettings) -> Result<(), FleetError> {
    let identity = fleet.identity.as_deref().map(Identity::new);
    let shown = identity.as_ref().map(Identity::certificate);
    let issuer = identity.as_ref().map(Identity::ca);
    let settings = LinkSettings {
        servers: fleet.servers,
        fleet: fleet.name,
        credentials: fleet.credentials,
        ca: fleet.ca.or_else(|| issuer.clone()),
        certificate: fleet.certificate.or_else(|| shown.map(|shown| (shown.clone(), shown))),
        issuer,
        ..LinkSettings::default()
    };
    let link = Link::connect(&settings, true).await?;
    let (mut silences, mut is_away) = (HashMap::new(), false);
    loop {
        match ask(&link).await {
            Ok((names, reports)) => {
                if is_away {
                    tracing::info!("the fleet can be asked again");
                }
                is_away = false;
                router.tell(&told(&names, &reports, &mut silences));
            }
            Err(error) => {
                if !is_away {
                    tracing::warn!(%error, "the fleet cannot be asked: the router's checks decide alone");
                }
                is_away = true;
                router.tell(&HashMap::new());
            }
        }
        sleep(ASK_EVERY).await;
    }
}

async fn ask(link: &Link) -> Result<(Vec<String>, Vec<Report>), FleetError> {
    Ok((link.nodes().await?, link.reports(REPORTS_WITHIN).await?.reports))
}

/// What is to be thought of each node of the fleet.
fn told(
    names: &[String],
    reports: &[Report],
    silences: &mut HashMap<String, u32>,
) -> HashMap<String, Told> {
    silences.retain(|name, _| names.contains(name));
    let mut out = HashMap::new();
    for name in names {
        let report = reports.iter().find(|report| report.node == *name);
        let silence = silences.entry(name.clone()).or_default();
        *silence = if report.is_some() { 0 } else { silence.saturating_add(1) };
        let told = match report {
            Some(report) if report.fenced || report.leaves() => Told::Doubtful,
            Some(report) => Told::Well { load_percent: report.load_percent.unwrap_or(0) },
            // Where nobody answers, it is not the nodes.
            None if *silence >= SILENCES_MAX && !reports.is_empty() => Told::Doubtful,
            None => Told::Nothing,
        };
        out.insert(name.clone(), told);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(node: &str, fenced: bool) -> Report {
        let load_percent = Some(40);
        Report {
            node: node.into(),
            sequence: 1,
            fenced,
            version: "1".into(),
            load_percent,
            config: None,
            process: None,
            before: None,
            standing: None,
            drained: false,
            refused: Vec::new(),
            not_meant: Vec::new(),
        }
    }

    #[test]
    fn who_is_silent_twice_while_others_are_not_is_doubted() {
        let (names, mut silences) = (["a", "b"].map(str::to_owned), HashMap::new());
        let well = Told::Well { load_percent: 40 };
        let mut told = |reports: &[Report]| {
            let told = told(&names, reports, &mut silences);
            (told["a"], told["b"])
        };
        assert_eq!(told(&[report("a", false), report("b", true)]), (well, Told::Doubtful));
        assert_eq!(told(&[report("a", false)]), (well, Told::Nothing));
        assert_eq!(told(&[report("a", false)]), (well, Told::Doubtful));
        assert_eq!(told(&[]), (Told::Nothing, Told::Nothing));
        assert_eq!(told(&[report("b", false)]), (Told::Doubtful, well));
        let drained = Report { drained: true, ..report("a", false) };
        assert_eq!(told(&[drained, report("b", false)]), (Told::Doubtful, well));
    }
}

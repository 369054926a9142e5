//! The certificates of a configuration, read for each site by itself, and for the top level: one that cannot be used
//! is a matter of its site, or of the top level's certificates, and of nobody else.

use freshet_base::clock::UnixMillis;
use freshet_config::listeners::Certificate as Row;
use freshet_config::mistake::Mistake;
use freshet_config::{Settings, SiteSettings};
use freshet_net::NetError;
use freshet_net::tls::certificate::{Certificate, CertificateSource, CertificateStore};
use freshet_net::tls::validity::Validity;
use freshet_site::snapshot::{Snapshot, Stayed};
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::thread;

/// What was read, in the order of the file, the top level's first: what is shown to clients that name no host is the
/// first of all.
pub(crate) struct Certificates(Vec<OfSite>);

/// What was read of one site, or of the top level, which has no name.
struct OfSite {
    name: Box<str>,
    read: Vec<Certificate>,
    wrong: Vec<Mistake>,
    due: Vec<Mistake>,
}

impl Certificates {
    /// Reads those of all sites, where a listener wants any. What is wrong with one is kept for
    /// [`Certificates::wrong`]; whatever else is wrong, and what is due, goes to `found`.
    pub(crate) fn read(settings: &Settings, found: &mut Vec<Mistake>) -> Option<Self> {
        let wants = settings.listeners.iter().find(|listener| listener.tls)?;
        if settings.acme.is_none() && settings.certified().all(|site| site.certificates.is_empty())
        {
            let message = "a TLS listener needs --cert and --key, or [[certificate]]";
            found.push(Mistake::error(wants.place, message));
            return None;
        }
        let mut all = read_all(&settings.certified().collect::<Vec<_>>());
        all.iter_mut().for_each(|of| found.append(&mut of.due));
        // Who asks for no name that is known is shown the first.
        let rows = settings.certified().flat_map(|site| &site.certificates);
        let places: HashMap<_, _> = rows.map(|row| (source(row), row.place)).collect();
        let others = all.iter().flat_map(|of| &of.read).skip(1);
        for one in others.filter(|one| !one.names_hosts()) {
            let place = places.get(one.source()).copied().unwrap_or_default();
            let shown = one.source().certificate.display();
            let message =
                format!("{shown}: names no host (subjectAltName), so no client is shown it");
            let help = "get one with the hosts as DNS names in it, or put it first";
            found.push(Mistake::warning(place, message).help(help));
        }
        Some(Self(all))
    }

    /// What is wrong with those of each site of which something is, and with the top level's, which has no name.
    pub(crate) fn wrong(&self) -> HashMap<&str, &[Mistake]> {
        let wrong = self.0.iter().filter(|of| !of.wrong.is_empty());
        wrong.map(|of| (&*of.name, &*of.wrong)).collect()
    }

    /// A store of them. What stays as it was has those that it had `before`, read anew where that can be. Where the top
    /// level's stay, no name loses its certificate: a site may have given up its own for one that cannot be used.
    pub(crate) fn store(
        self,
        stayed: &[Stayed],
        before: Option<&InForce<'_>>,
    ) -> Arc<CertificateStore> {
        let stayed: HashSet<&str> = stayed.iter().map(|one| one.name().unwrap_or("")).collect();
        let before = before.filter(|_| !stayed.is_empty());
        let shown = before.and_then(|before| before.certificates);
        let shown = shown.map_or_else(Vec::new, CertificateStore::configured);
        let by_source: HashMap<_, _> = shown.iter().map(|one| (one.source(), one)).collect();
        let had = |of: &OfSite| {
            let rows = before.map_or(&[][..], |before| before.rows(&of.name));
            let one = |source: CertificateSource| {
                let read = of.read.iter().find(|one| *one.source() == source);
                read.or_else(|| by_source.get(&source).copied()).cloned()
            };
            rows.iter().filter_map(|row| one(source(row))).collect()
        };
        let of_each = self.0.into_iter().map(|of| match stayed.contains(&*of.name) {
            true => had(&of),
            false => of.read,
        });
        let mut all: Vec<_> = of_each.flatten().collect();
        if stayed.contains("") {
            let now = CertificateStore::of(all.clone());
            let is_left = |one: &&Certificate| one.names().any(|name| !now.has(name));
            all.extend(shown.iter().filter(is_left).cloned());
        }
        CertificateStore::of(all)
    }
}

/// What a node serves with while it reads a configuration in its place.
pub struct InForce<'a> {
    /// Its sites.
    pub snapshot: &'a Snapshot,
    /// Its certificates, where a listener has TLS.
    pub certificates: Option<&'a CertificateStore>,
}

impl InForce<'_> {
    /// The certificates of a site, or of the top level, which has no name.
    fn rows(&self, name: &str) -> &[Row] {
        if name.is_empty() {
            return &self.snapshot.settings.site.certificates;
        }
        let site = self.snapshot.sites.named(name);
        site.map_or(&[], |site| &site.settings.certificates)
    }
}

/// Sites whose certificates one thread reads before there is another: some milliseconds.
const SITES_OF_A_THREAD: usize = 64;
/// Threads that read at most.
const THREADS_MAX: usize = 8;

/// Reads those of many sites side by side: that a key fits its certificate takes a tenth of a millisecond to find out.
fn read_all(sites: &[&SiteSettings]) -> Vec<OfSite> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let part = sites.len().div_ceil(threads).max(SITES_OF_A_THREAD);
    let read = |part: &[&SiteSettings]| part.iter().map(|site| OfSite::read(site)).collect();
    if sites.len() <= part {
        return read(sites);
    }
    thread::scope(|scope| {
        let reading: Vec<_> =
            sites.chunks(part).map(|part| scope.spawn(move || read(part))).collect();
        let parts = reading.into_iter().map(|thread| -> Vec<OfSite> {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        parts.flatten().collect()
    })
}

impl OfSite {
    fn read(site: &SiteSettings) -> Self {
        let now_s = i64::try_from(UnixMillis::now().0 / 1000).unwrap_or(i64::MAX);
        let (mut read, mut wrong, mut due) = (Vec::new(), Vec::new(), Vec::new());
        for row in &site.certificates {
            match Certificate::read(source(row)) {
                Ok(certificate) => {
                    let soon = certificate.validity().and_then(|held| renewal(held, now_s));
                    let shown = row.cert.display();
                    due.extend(soon.map(|(message, help)| {
                        Mistake::warning(row.place, format!("{shown}: {message}")).help(help)
                    }));
                    if !certificate.is_for_servers() {
                        let message = format!(
                            "{shown}: for clients and not for servers (extendedKeyUsage): clients refuse it"
                        );
                        let help = "get one with serverAuth in its extended key usage";
                        due.push(Mistake::warning(row.place, message).help(help));
                    }
                    due.extend(certificate.unstapled().map(|why| {
                        let help = "get the certificate's response with `openssl ocsp -respout FILE`, and reload";
                        Mistake::warning(row.place, why).help(help)
                    }));
                    read.push(certificate);
                }
                Err(error) => wrong.push(unusable(row, &error)),
            }
        }
        Self { name: site.name.as_str().into(), read, wrong, due }
    }
}

fn source(row: &Row) -> CertificateSource {
    CertificateSource {
        certificate: row.cert.clone(),
        key: row.key.clone(),
        ocsp: row.ocsp.clone(),
        names: Vec::new(),
    }
}

fn unusable(row: &Row, error: &NetError) -> Mistake {
    let is_key = match error {
        NetError::ConfigKeyMismatch { .. } => true,
        NetError::ConfigFile { path, .. } => *path == row.key,
        _ => false,
    };
    let mistake = Mistake::error(if is_key { row.key_place } else { row.place }, error.to_string());
    match cure(error) {
        Some(help) => mistake.help(help),
        None => mistake,
    }
}

/// What to do about a file that cannot be read.
pub(crate) fn cure(error: &NetError) -> Option<String> {
    let NetError::ConfigFile { path, .. } = error else { return None };
    let shown = path.display();
    match File::open(path).err()?.kind() {
        io::ErrorKind::PermissionDenied => Some(format!(
            "let the group of the node's user read it, as that of the service: \
             chgrp freshet {shown} && chmod 640 {shown}"
        )),
        io::ErrorKind::NotFound => Some("give the path of a file that is there".to_owned()),
        _ => None,
    }
}

/// How long before its end a certificate should have been renewed: clients of ACME renew with a third
/// of its time left, which is 15 days where it has 45.
const RENEWAL_DUE_S: i64 = 14 * 86_400;

/// What is due for a certificate, and what to do, where something is.
pub(crate) fn renewal(validity: Validity, now_s: i64) -> Option<(String, &'static str)> {
    let days = |seconds: i64| match seconds / 86_400 {
        0 => "less than a day".to_owned(),
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    };
    let left_s = validity.until_s - now_s;
    if left_s < 0 {
        let message = format!("the certificate expired {} ago", days(-left_s));
        return Some((message, "clients refuse it: renew it, then reload"));
    }
    if now_s < validity.from_s {
        let message = format!("the certificate holds in {} only", days(validity.from_s - now_s));
        return Some((message, "clients refuse it until then; is the clock right?"));
    }
    (left_s < RENEWAL_DUE_S).then(|| {
        let message = format!("the certificate expires in {}", days(left_s));
        (message, "renew it, then reload")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_due_before_it_ends() {
        let day = 86_400;
        let validity = Validity { from_s: 10 * day, until_s: 100 * day };
        let says = |now_s: i64| renewal(validity, now_s).map(|(message, _)| message);
        assert_eq!(says(50 * day), None);
        assert_eq!(says(86 * day), None);
        assert_eq!(says(90 * day).unwrap(), "the certificate expires in 10 days");
        assert_eq!(says(100 * day - 5).unwrap(), "the certificate expires in less than a day");
        assert_eq!(says(103 * day).unwrap(), "the certificate expired 3 days ago");
        assert_eq!(says(9 * day).unwrap(), "the certificate holds in 1 day only");
    }
}

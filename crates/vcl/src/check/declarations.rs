//! Imports, access lists, and the names of all that is declared.

use super::uses::SubUses;
use super::{Checker, Entry, Symbol};
use crate::acl::{self, Acl};
use crate::diagnostic::nearest;
use crate::modules;
use crate::program::{Backend, BackendRef, Probe, Sub};
use crate::source::Span;
use crate::syntax::{self, Declaration, Name};
use crate::types::State;

const RESERVED: [&str; 14] = [
    "acl", "backend", "call", "default", "else", "if", "import", "include", "new", "none", "probe",
    "return", "set", "sub",
];

impl Checker<'_> {
    /// Takes note of all names, so that they can be used before they are declared.
    pub(super) fn declare(&mut self, declarations: &[Declaration], is_builtin: bool) {
        for declaration in declarations {
            match declaration {
                Declaration::Import { module, alias, from } => {
                    self.import(module, alias.as_ref(), from.as_ref());
                }
                Declaration::Acl(acl) => {
                    let index = self.program.acls.len() as u32;
                    self.program.acls.push(Acl {
                        name: acl.name.text.clone(),
                        log: false,
                        entries: Vec::new(),
                        span: acl.name.span,
                    });
                    self.add(&acl.name, Symbol::Acl(index), "Acl");
                }
                Declaration::Backend(backend) => self.declare_backend(backend),
                Declaration::Probe(probe) => {
                    let index = self.program.probes.len() as u32;
                    self.program.probes.push(new_probe(&probe.name));
                    self.add(&probe.name, Symbol::Probe(index), "Probe");
                }
                Declaration::Sub { name, body } => {
                    self.declare_sub(name, is_builtin);
                    if &*name.text == "vcl_init" {
                        self.declare_objects(body);
                    }
                }
            }
        }
    }

    fn declare_backend(&mut self, backend: &syntax::Backend) {
        let index = self.program.backends.len() as u32;
        self.probes_above.push(self.program.probes.len() as u32);
        self.program.backends.push(Backend {
            name: backend.name.text.clone(),
            endpoint: None,
            host_header: None,
            connect_timeout: None,
            first_byte_timeout: None,
            between_bytes_timeout: None,
            connections_max: 0,
            proxy_header: 0,
            preamble: None,
            probe: None,
            span: backend.name.span,
        });
        let is_default = &*backend.name.text == "default";
        if index == 0 || (is_default && !self.default_backend_named) {
            self.program.default_backend = BackendRef::Backend(index);
            self.default_backend_named = is_default;
        }
        self.add(&backend.name, Symbol::Backend(index), "Backend");
    }

    fn declare_sub(&mut self, name: &Name, is_builtin: bool) {
        let reserved = name.text.to_ascii_lowercase().starts_with("vcl_");
        let is_joined = self.builtin_names.contains(&name.text);
        if reserved && !is_joined {
            let near = nearest(&name.text, self.builtin_names.iter().map(|name| &**name));
            let help = near.map(|near| format!("did you mean `{near}`?"));
            let message =
                "Symbols named 'vcl_*' are reserved.\nThe names 'vcl_*' are reserved for \
                           subroutines."
                    .to_owned();
            self.report.error(name.span, message).help = help;
            return;
        }
        if let Some(Symbol::Sub(index)) = self.symbols.get(&name.text).map(|entry| entry.symbol) {
            if !is_joined {
                let before = self.program.subs[index as usize].span;
                let message = format!("Subroutine '{}' redefined", name.text);
                let diagnostic = self.report.error(name.span, message);
                diagnostic.related.push((before, "Already defined here".into()));
            } else if !is_builtin {
                self.program.subs[index as usize].is_own = true;
            }
            return;
        }
        let index = self.program.subs.len() as u32;
        let sub = Sub {
            name: name.text.clone(),
            span: name.span,
            pieces: Vec::new(),
            is_own: !is_builtin,
        };
        self.program.subs.push(sub);
        self.uses.push(SubUses::default());
        if let Some(state) = State::of_subroutine(&name.text) {
            self.program.states[state as usize] = Some(index);
        }
        if is_joined {
            let entry = Entry {
                symbol: Symbol::Sub(index),
                span: name.span,
                used: false,
                is_builtin: true,
            };
            self.symbols.insert(name.text.clone(), entry);
        } else {
            self.add(name, Symbol::Sub(index), "Subroutine");
        }
    }

    fn add(&mut self, name: &Name, symbol: Symbol, what: &str) {
        if name.text.starts_with("vcl_") {
            self.error(
                name.span,
                "Symbols named 'vcl_*' are reserved.\nThe names 'vcl_*' are reserved for \
                 subroutines.",
            );
            return;
        }
        let may_be_default = matches!(symbol, Symbol::Backend(_) | Symbol::Probe(_));
        let is_reserved = RESERVED.contains(&&*name.text)
            || (name.text.contains('.') || crate::variables::find(&name.text).is_some());
        if is_reserved && !(may_be_default && &*name.text == "default") {
            self.error(name.span, format!("Symbol '{}' is a reserved word.", name.text));
            return;
        }
        // A probe and a backend may both be the default one.
        let key: Box<str> = match symbol {
            Symbol::Probe(_) if &*name.text == "default" => "default probe".into(),
            _ => name.text.clone(),
        };
        if let Some(before) = self.symbols.get(&key) {
            let same_kind = before.symbol.kind() == symbol.kind();
            let message = if same_kind && &*name.text == "default" {
                format!("{what} 'default' redefined\nOnly one default director possible.")
            } else if same_kind {
                format!("{what} '{}' redefined", name.text)
            } else {
                let (kind, wanted) = (before.symbol.kind(), symbol.kind());
                format!(
                    "Name '{}' already defined.\nSymbol '{}' has wrong type ({kind}), expected \
                     {wanted}:",
                    name.text, name.text
                )
            };
            let span = before.span;
            let diagnostic = self.report.error(name.span, message);
            diagnostic.related.push((span, "Already defined here".into()));
            return;
        }
        let entry = Entry { symbol, span: name.span, used: false, is_builtin: false };
        self.symbols.insert(key, entry);
    }

    fn declare_objects(&mut self, body: &[syntax::Statement]) {
        for statement in body {
            match &statement.kind {
                syntax::StatementKind::New { name, constructor, .. } => {
                    let index = self.program.objects.len() as u32;
                    if let Some(entry) = self.symbols.get(&name.text) {
                        let message = match entry.symbol {
                            Symbol::Object(_) => format!("Instance '{}' redefined.", name.text),
                            _ => format!("Name '{}' already defined.", name.text),
                        };
                        let span = entry.span;
                        let diagnostic = self.report.error(name.span, message);
                        diagnostic.related.push((span, "Already defined here".into()));
                        continue;
                    }
                    let Some(kind) = self.constructor(constructor) else { continue };
                    self.program
                        .objects
                        .push(crate::program::ObjectSlot { name: name.text.clone(), kind });
                    self.add(name, Symbol::Object(index), "Instance");
                }
                syntax::StatementKind::Block(body) => self.declare_objects(body),
                syntax::StatementKind::If { arms, otherwise } => {
                    arms.iter().for_each(|(_, body)| self.declare_objects(body));
                    otherwise.iter().for_each(|body| self.declare_objects(body));
                }
                _ => {}
            }
        }
    }

    fn import(&mut self, module: &Name, alias: Option<&Name>, from: Option<&Name>) {
        if let Some(from) = from {
            self.error_with(
                from.span,
                "'import ... from path ...' is unsafe.\nCompiled modules are not loaded.",
                "leave `from` out: the modules there are come with the program",
            );
        }
        let found =
            modules::find(&module.text).filter(|found| !found.is_test || self.settings.test_module);
        let Some(found) = found else {
            let name = &module.text;
            let help = match nearest(name, modules::MODULES.iter().map(|module| module.name)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => modules::instead_of(name).map_or_else(
                    || {
                        let names: Vec<_> = modules::MODULES
                            .iter()
                            .filter(|module| !module.is_test)
                            .map(|module| module.name)
                            .collect();
                        format!("compiled modules are not loaded; there are {}", names.join(", "))
                    },
                    str::to_owned,
                ),
            };
            self.error_with(module.span, format!("Could not find VMOD {name}"), help);
            return;
        };
        let name = alias.unwrap_or(module);
        if let Some(entry) = self.symbols.get(&name.text) {
            match entry.symbol {
                Symbol::Module(before) if before.name == found.name => return,
                Symbol::Module(_) => {
                    let message = format!("Another module already imported as {}", name.text);
                    self.error(name.span, message);
                }
                other => {
                    let kind = other.kind();
                    let message =
                        format!("Symbol '{}' has wrong type ({kind}), expected vmod:", name.text);
                    self.error(name.span, message);
                }
            }
            return;
        }
        if !self.program.modules.contains(&found.name) {
            self.program.modules.push(found.name);
        }
        let entry = Entry {
            symbol: Symbol::Module(found),
            span: name.span,
            used: false,
            is_builtin: false,
        };
        self.symbols.insert(name.text.clone(), entry);
    }

    /// Fills in what was declared.
    pub(super) fn define(&mut self, declarations: &[Declaration]) {
        for declaration in declarations {
            match declaration {
                Declaration::Import { .. } => {}
                Declaration::Acl(acl) => self.define_acl(acl),
                Declaration::Backend(backend) => self.define_backend(backend),
                Declaration::Probe(probe) => {
                    let own = self.program.probes.iter().position(|known| {
                        known.span == probe.name.span && known.name == probe.name.text
                    });
                    let Some(own) = own else { continue };
                    let filled = self.probe(new_probe(&probe.name), &probe.fields);
                    self.program.probes[own] = filled;
                }
                Declaration::Sub { name, body } => self.define_sub(name, body),
            }
        }
    }

    fn define_acl(&mut self, acl: &syntax::Acl) {
        let Some(index) = self.program.acls.iter().position(|known| known.span == acl.name.span)
        else {
            return;
        };
        let mut pedantic = true;
        let mut out = Acl {
            name: acl.name.text.clone(),
            log: false,
            entries: Vec::new(),
            span: acl.name.span,
        };
        for (flag, set) in &acl.flags {
            match &*flag.text {
                "log" => out.log = *set,
                "pedantic" => pedantic = *set,
                // How entries are kept is not the policy's business here.
                "table" | "fold" => {}
                _ => self.error_with(
                    flag.span,
                    "Unknown ACL flag.",
                    "there are `log`, `table`, `pedantic` and `fold`",
                ),
            }
        }
        for entry in &acl.entries {
            self.acl_entry(entry, pedantic, &mut out);
        }
        if let Some((one, other)) = out.arrange() {
            let diagnostic = self.report.error(one, "Conflicting ACL entries:");
            diagnostic.related.push((other, "and this one".into()));
        }
        self.program.acls[index] = out;
    }

    fn acl_entry(&mut self, entry: &syntax::AclEntry, pedantic: bool, out: &mut Acl) {
        let host = &*entry.address.text;
        if let Some((_, mask)) = host.split_once('/')
            && !mask.bytes().all(|byte| byte.is_ascii_digit())
        {
            let help = "write the mask behind the text: \"192.0.2.0\"/24";
            self.error_with(entry.address.span, ".../mask is not numeric.", help);
            return;
        }
        let addresses = match self.sources.resolve(host, 0) {
            Ok(addresses) => addresses,
            Err(_) if entry.optional => return,
            Err(why) => {
                let message = format!("DNS lookup({host}): {why}");
                self.error_with(
                    entry.address.span,
                    message,
                    "write `(\"name\")` to ignore a name without an address",
                );
                return;
            }
        };
        let is_literal = host.parse::<std::net::IpAddr>().is_ok();
        if entry.mask.is_some() && !is_literal {
            let families = addresses.iter().any(std::net::SocketAddr::is_ipv4)
                && addresses.iter().any(std::net::SocketAddr::is_ipv6);
            if families {
                self.error(
                    entry.address.span,
                    "Mask (/%u) specified, but string does not resolve to one address family"
                        .replace("%u", ""),
                );
                return;
            }
        }
        for address in addresses {
            let ip = address.ip();
            let width = acl::width(ip);
            let bits = match entry.mask {
                None => width,
                Some((bits, span)) => match u8::try_from(bits) {
                    Ok(bits) if bits <= width => bits,
                    _ => {
                        let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
                        self.error(span, format!("Too wide mask (/{bits}) for {family} address"));
                        return;
                    }
                },
            };
            let mask = entry.mask.map_or_else(String::new, |(bits, _)| format!("/{bits}"));
            let not = if entry.negated { "! " } else { "" };
            let mut made = acl::Entry {
                address: ip,
                bits,
                negated: entry.negated,
                text: format!("{not}\"{host}\"{mask}").into(),
                span: entry.span,
            };
            if made.has_bits_behind_mask() {
                if pedantic {
                    self.error(
                        entry.span,
                        format!(
                            "Address/Netmask mismatch\nNon-zero bits in masked part: {host}{mask}"
                        ),
                    );
                    return;
                }
                made.address = masked(ip, bits);
            }
            out.entries.push(made);
        }
    }

    pub(super) fn names_of(&self, fits: impl Fn(Symbol) -> bool) -> Vec<String> {
        let entries = self.symbols.iter().filter(|(_, entry)| fits(entry.symbol));
        entries.map(|(name, _)| name.to_string()).collect()
    }

    pub(super) fn not_found(&mut self, name: &str, span: Span, known: &[String], what: &str) {
        let near = nearest(name, known.iter().map(String::as_str));
        let help = near.map(|near| format!("did you mean `{near}`?"));
        let message = if what.is_empty() {
            format!("Symbol not found: '{name}'")
        } else {
            format!("{what}{name}, first reference:")
        };
        self.report.error(span, message).help = help;
    }
}

pub(super) fn new_probe(name: &Name) -> Probe {
    Probe {
        name: name.text.clone(),
        url: "/".into(),
        request: None,
        expected_response: 200,
        timeout: 2.0,
        interval: 5.0,
        window: 8,
        threshold: 3,
        initial: 2,
        span: name.span,
    }
}

fn masked(address: std::net::IpAddr, bits: u8) -> std::net::IpAddr {
    match address {
        std::net::IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0);
            std::net::Ipv4Addr::from(u32::from(v4) & mask).into()
        }
        std::net::IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0);
            std::net::Ipv6Addr::from(u128::from(v6) & mask).into()
        }
    }
}

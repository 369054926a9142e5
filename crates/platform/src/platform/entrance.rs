//! What needs no token, and whose a token is.

use super::{Answer, Call, Platform};
use crate::api;
use crate::client::{self, Caller, Client, Given};
use freshet_documents::problem::Problem;
use serde_json::{Value, json};
use std::sync::PoisonError;

/// Where tokens are given.
pub(super) const TOKEN_PATH: &str = "/oauth2/token";

/// Who asks, or why nobody is believed to.
#[derive(Debug)]
pub struct Identified(Result<Caller, Problem>);

impl Identified {
    /// Who asks.
    pub(super) fn caller(&self) -> Result<&Caller, Problem> {
        self.0.as_ref().map_err(Problem::clone)
    }
}

impl<'a> From<&Call<'a>> for Given<'a> {
    fn from(call: &Call<'a>) -> Self {
        Self {
            authorization: call.authorization,
            form: std::str::from_utf8(call.body).unwrap_or_default(),
            certificate: call.certificate,
        }
    }
}

impl Platform {
    /// Who asks: the signature of a token costs 100 µs the first time it is seen, a look-up after.
    pub fn identify(&self, call: &Call<'_>, now_ms: u64) -> Identified {
        Identified(self.caller(call, now_ms))
    }

    /// What needs no token; `None` where one is needed.
    ///
    /// # Errors
    /// 405 where something else is to be done with it.
    pub(super) fn open_path(
        &self,
        call: &Call<'_>,
        path: &str,
        fresh: &str,
        now_ms: u64,
    ) -> Option<Result<Answer, Problem>> {
        if path == TOKEN_PATH {
            return Some(if call.method == "POST" {
                let (find, issuer) = (|name: &str| self.client(name), &self.setup.issuer);
                Ok(client::token(find, issuer, call.into(), fresh, now_ms / 1000))
            } else {
                Err(Problem::not_allowed(path, "POST".to_owned()))
            });
        }
        let document = self.open_document(path)?;
        Some(if matches!(call.method, "GET" | "HEAD") {
            Ok(Answer::ok(document))
        } else {
            Err(Problem::not_allowed(path, "GET, HEAD".to_owned()))
        })
    }

    /// What anybody may read.
    fn open_document(&self, path: &str) -> Option<Value> {
        let url = &self.setup.url;
        match path {
            "/oauth2/keys" => Some(self.setup.issuer.keys()),
            "/.well-known/oauth-authorization-server" => Some(json!({
                "issuer": url,
                "token_endpoint": format!("{url}{TOKEN_PATH}"),
                "jwks_uri": format!("{url}/oauth2/keys"),
                "grant_types_supported": ["client_credentials"],
                "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post", "self_signed_tls_client_auth"],
                "tls_client_certificate_bound_access_tokens": true,
                "response_types_supported": [],
            })),
            "/" => {
                let documents = self.table.0.iter().map(|api| {
                    json!({
                        "title": api.title,
                        "url": format!("{url}{}", api.root()),
                        "document": format!("{url}{}/openapi.json", api.root()),
                    })
                });
                Some(documents.collect())
            }
            _ => {
                let root = path.strip_suffix("/openapi.json")?;
                self.table.0.iter().find(|api| api.root() == root).map(|api| api.document(url))
            }
        }
    }

    fn caller(&self, call: &Call<'_>, now_ms: u64) -> Result<Caller, Problem> {
        let Some(field) = call.authorization else { return Err(client::unauthorized(None)) };
        let token =
            field.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let (_, token) =
            token.ok_or_else(|| client::unauthorized(Some("it is not of the Bearer scheme")))?;
        let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        let claims = verified
            .verify(&self.setup.issuer, token.trim(), now_ms / 1000)
            .map_err(|error| client::unauthorized(Some(&error.to_string())))?;
        let client = self.client(&claims.client_id);
        let client =
            client.ok_or_else(|| client::unauthorized(Some("its client is none any more")))?;
        client
            .check_binding(claims.certificate(), call.certificate.as_ref())
            .map_err(|why| client::unauthorized(Some(why)))?;
        Ok(Caller::new(&claims, &client))
    }

    /// A client by its name: one of the configuration, or an app instance that is run here.
    pub(super) fn client(&self, name: &str) -> Option<Client> {
        let configured = self.setup.clients.get(name).cloned();
        configured.or_else(|| api::instances::client(&self.tree, &self.setup, &self.table, name))
    }
}

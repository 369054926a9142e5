//! `tls`: what the client has proved with a certificate. What is not verified is not there.

use super::proxy::{ANY, certificate_text, has_certificate};
use super::{Function, Module, function_in};

pub(super) const MODULE: Module =
    Module { name: "tls", classes: &[], functions: FUNCTIONS, is_test: false };

const FUNCTIONS: &[Function] = &[
    function_in(ANY, "BOOL client_verified()", has_certificate),
    function_in(ANY, "STRING client_name()", |run, _, _| certificate_text(run, |one| &one.name)),
    function_in(ANY, "STRING client_subject()", |run, _, _| {
        certificate_text(run, |one| &one.subject)
    }),
    function_in(ANY, "STRING client_issuer()", |run, _, _| {
        certificate_text(run, |one| &one.issuer)
    }),
    function_in(ANY, "STRING client_serial()", |run, _, _| {
        certificate_text(run, |one| &one.serial)
    }),
    function_in(ANY, "STRING client_fingerprint()", |run, _, _| {
        certificate_text(run, |one| &one.fingerprint)
    }),
];

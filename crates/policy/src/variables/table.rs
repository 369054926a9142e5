//! One row for each variable: its type, where it can be read, set and unset, and how.

use super::{Definition, Message, Versions};
use crate::program::Value;
use crate::runtime::proto;
use crate::types::{State, States, Type};
use freshet_http::coding::accepts_gzip;

const ALL: States = States::ALL;
const N: States = States::NONE;
pub(super) const C: States = States::CLIENT;
const B: States = States::BACKEND;
const CB: States = States::CLIENT.and(States::BACKEND);
pub(super) const BP: States = States::BACKEND.and(States::of(&[State::Pipe]));
pub(super) const R: States = States::of(&[State::BackendResponse, State::BackendError]);
const P: States = States::of(&[State::Pipe]);
const BERESP: States = States::of(&[State::BackendResponse]);
const BEERR: States = States::of(&[State::BackendError]);
const FETCH: States = States::of(&[State::BackendFetch]);
const HASHED: States =
    States::of(&[State::Hit, State::Miss, State::Pass, State::Purge, State::Deliver]);
pub(super) const HIT: States = States::of(&[State::Hit]);
const DELIVER: States = States::of(&[State::Deliver]);
const HD: States = States::of(&[State::Hit, State::Deliver]);
pub(super) const DS: States = States::of(&[State::Deliver, State::Synth]);
const SYNTH: States = States::of(&[State::Synth]);

/// Makes the enumeration and the table of its rows. A row has how it is read, set and unset, each
/// behind the states that can: `get STATES = …`, `set STATES, STATES IN 4.0 = …`,
/// `unset STATES = …`. What a row leaves out no state can do.
macro_rules! variables {
    ($($variant:ident $name:literal $of:ident $versions:ident {
        $(get $read:ident = $get:expr;)?
        $(set $write:ident, $write_40:ident = $set:expr;)?
        $(unset $unset:ident = $reset:expr;)?
    })*) => {
        /// A variable that is no header field.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[expect(missing_docs, reason = "the names say which; the manual says what they are")]
        pub enum Variable {
            $($variant,)*
        }

        /// Every variable but header fields and storages.
        pub const VARIABLES: &[Definition] = &[
            $(Definition {
                $(read: $read, get: Some($get),)?
                $(write: $write, write_40: $write_40, set: Some($set),)?
                $(unset: $unset, reset: Some($reset),)?
                ..Definition::of(Variable::$variant, $name, Type::$of, Versions::$versions)
            },)*
        ];
    };
}

/// A value taken from a part of the view: `of!(client => Bool(client.is_hitmiss))`.
macro_rules! of {
    ($part:ident => $of:ident($value:expr)) => {
        |run| {
            Ok(match run.view.$part.as_ref() {
                Some($part) => Value::$of($value),
                None => Value::None,
            })
        }
    };
}

/// A value put into a part of the view: `to!(client.ttl = Duration(t) => Some(t))`.
macro_rules! to {
    ($part:ident.$field:ident = $of:ident($new:ident) => $value:expr) => {
        |run, value| {
            if let (Some(part), Value::$of($new)) = (run.view.$part.as_mut(), value) {
                part.$field = $value;
            }
            Ok(())
        }
    };
}

/// Leaves a part of the view to what holds where a policy says nothing: `no!(client.ttl)`.
macro_rules! no {
    ($part:ident.$field:ident) => {
        |run| {
            if let Some(part) = run.view.$part.as_mut() {
                part.$field = None;
            }
        }
    };
}

variables! {
    Now "now" Time Any {
        get ALL = |run| Ok(Value::Time(run.view.now));
    }
    ServerHostname "server.hostname" String Any {
        get ALL = |run| run.server_hostname();
    }
    ServerIdentity "server.identity" String Any {
        get ALL = |run| run.server_identity();
    }
    ClientIp "client.ip" Ip Any {
        get CB = |run| Ok(ip(run.view.session.client));
    }
    RemoteIp "remote.ip" Ip Any {
        get CB = |run| Ok(ip(run.view.session.remote.or(run.view.session.client)));
    }
    LocalIp "local.ip" Ip Any {
        get CB = |run| Ok(ip(run.view.session.local.or(run.view.session.server)));
    }
    ServerIp "server.ip" Ip Any {
        get CB = |run| Ok(ip(run.view.session.server));
    }
    ClientIdentity "client.identity" String Any {
        get CB = |run| run.client_identity();
        set C, C = |run, value| run.set_client_identity(value);
    }
    LocalEndpoint "local.endpoint" String From41 {
        get CB = |run| run.local_endpoint();
    }
    LocalSocket "local.socket" String From41 {
        get CB = |run| run.stored(run.view.session.socket.as_bytes());
    }
    SessXid "sess.xid" String From41 {
        get CB = |run| run.number(run.view.session.xid);
    }
    SessTimeoutIdle "sess.timeout_idle" Duration Any {
        get C = of!(client => Duration(client.timeout_idle));
        set C, C = to!(client.timeout_idle = Duration(t) => t.max(0.0));
    }
    SessTimeoutLinger "sess.timeout_linger" Duration Any {
        get C = of!(client => Duration(client.timeout_linger));
        set C, C = to!(client.timeout_linger = Duration(t) => t.max(0.0));
    }
    SessSendTimeout "sess.send_timeout" Duration Any {
        get C = of!(client => Duration(client.send_timeout));
        set C, C = to!(client.send_timeout = Duration(t) => t.max(0.0));
    }
    SessIdleSendTimeout "sess.idle_send_timeout" Duration Any {
        get C = of!(client => Duration(client.idle_send_timeout));
        set C, C = to!(client.idle_send_timeout = Duration(t) => t.max(0.0));
    }
    Req "req" Http Any {
        get C = |_| Ok(Value::Http(Message::Req));
    }
    ReqMethod "req.method" String Any {
        get C = |run| run.request_text(Message::Req, |head| head.method.as_str());
        set C, C = |run, value| run.set_method(Message::Req, value);
    }
    ReqUrl "req.url" String Any {
        get C = |run| run.request_text(Message::Req, |head| &head.target);
        set C, C = |run, value| run.set_url(Message::Req, value);
    }
    ReqProto "req.proto" String Any {
        get C = |run| run.req_proto();
        set N, C = |run, value| run.set_proto(Message::Req, value);
    }
    ReqHash "req.hash" Blob Any {
        get HASHED = |run| run.hash(run.view.client.as_ref().map(|client| client.hash));
    }
    ReqEsiLevel "req.esi_level" Int Any {
        get C = of!(client => Int(client.esi_level.into()));
    }
    ReqRestarts "req.restarts" Int Any {
        get C = of!(client => Int(client.restarts.into()));
    }
    ReqXid "req.xid" String Any {
        get C = |run| run.number(run.view.client.as_ref().map_or(0, |client| client.xid));
    }
    ReqCanGzip "req.can_gzip" Bool Any {
        get C = of!(req => Bool(req.fields.get("accept-encoding").is_some_and(accepts_gzip)));
    }
    ReqIsHitmiss "req.is_hitmiss" Bool Any {
        get C = of!(client => Bool(client.is_hitmiss));
    }
    ReqIsHitpass "req.is_hitpass" Bool Any {
        get C = of!(client => Bool(client.is_hitpass));
    }
    ReqTime "req.time" Time Any {
        get C = of!(client => Time(client.time));
    }
    ReqTransport "req.transport" String Any {
        get C = |run| run.req_transport();
    }
    ReqMediaAhead "req.media_ahead" Bool Any {
        get C = of!(client => Bool(client.is_ahead));
    }
    ReqMediaClass "req.media_class" String Any {
        get C = |run| run.manifest_says("class");
    }
    ReqMediaKind "req.media_kind" String Any {
        get C = |run| run.manifest_says("kind");
    }
    ReqMediaSequence "req.media_sequence" String Any {
        get C = |run| run.manifest_says("sequence");
    }
    ReqMediaBitrate "req.media_bitrate" String Any {
        get C = |run| run.manifest_says("bitrate");
    }
    ReqCmcdAb "req.cmcd.ab" String Any {
        get C = |run| run.player_says("ab");
    }
    ReqCmcdBg "req.cmcd.bg" String Any {
        get C = |run| run.player_says("bg");
    }
    ReqCmcdBl "req.cmcd.bl" String Any {
        get C = |run| run.player_says("bl");
    }
    ReqCmcdBr "req.cmcd.br" String Any {
        get C = |run| run.player_says("br");
    }
    ReqCmcdBs "req.cmcd.bs" String Any {
        get C = |run| run.player_says("bs");
    }
    ReqCmcdBsa "req.cmcd.bsa" String Any {
        get C = |run| run.player_says("bsa");
    }
    ReqCmcdBsd "req.cmcd.bsd" String Any {
        get C = |run| run.player_says("bsd");
    }
    ReqCmcdBsda "req.cmcd.bsda" String Any {
        get C = |run| run.player_says("bsda");
    }
    ReqCmcdCen "req.cmcd.cen" String Any {
        get C = |run| run.player_says("cen");
    }
    ReqCmcdCid "req.cmcd.cid" String Any {
        get C = |run| run.player_says("cid");
    }
    ReqCmcdCmsdd "req.cmcd.cmsdd" String Any {
        get C = |run| run.player_says("cmsdd");
    }
    ReqCmcdCmsds "req.cmcd.cmsds" String Any {
        get C = |run| run.player_says("cmsds");
    }
    ReqCmcdCs "req.cmcd.cs" String Any {
        get C = |run| run.player_says("cs");
    }
    ReqCmcdD "req.cmcd.d" String Any {
        get C = |run| run.player_says("d");
    }
    ReqCmcdDfa "req.cmcd.dfa" String Any {
        get C = |run| run.player_says("dfa");
    }
    ReqCmcdDl "req.cmcd.dl" String Any {
        get C = |run| run.player_says("dl");
    }
    ReqCmcdE "req.cmcd.e" String Any {
        get C = |run| run.player_says("e");
    }
    ReqCmcdEc "req.cmcd.ec" String Any {
        get C = |run| run.player_says("ec");
    }
    ReqCmcdH "req.cmcd.h" String Any {
        get C = |run| run.player_says("h");
    }
    ReqCmcdLab "req.cmcd.lab" String Any {
        get C = |run| run.player_says("lab");
    }
    ReqCmcdLb "req.cmcd.lb" String Any {
        get C = |run| run.player_says("lb");
    }
    ReqCmcdLtc "req.cmcd.ltc" String Any {
        get C = |run| run.player_says("ltc");
    }
    ReqCmcdMsd "req.cmcd.msd" String Any {
        get C = |run| run.player_says("msd");
    }
    ReqCmcdMtp "req.cmcd.mtp" String Any {
        get C = |run| run.player_says("mtp");
    }
    ReqCmcdNor "req.cmcd.nor" String Any {
        get C = |run| run.player_says("nor");
    }
    ReqCmcdNr "req.cmcd.nr" String Any {
        get C = |run| run.player_says("nr");
    }
    ReqCmcdNrr "req.cmcd.nrr" String Any {
        get C = |run| run.player_says("nrr");
    }
    ReqCmcdOt "req.cmcd.ot" String Any {
        get C = |run| run.player_says("ot");
    }
    ReqCmcdPb "req.cmcd.pb" String Any {
        get C = |run| run.player_says("pb");
    }
    ReqCmcdPr "req.cmcd.pr" String Any {
        get C = |run| run.player_says("pr");
    }
    ReqCmcdPt "req.cmcd.pt" String Any {
        get C = |run| run.player_says("pt");
    }
    ReqCmcdRc "req.cmcd.rc" String Any {
        get C = |run| run.player_says("rc");
    }
    ReqCmcdRtp "req.cmcd.rtp" String Any {
        get C = |run| run.player_says("rtp");
    }
    ReqCmcdSf "req.cmcd.sf" String Any {
        get C = |run| run.player_says("sf");
    }
    ReqCmcdSid "req.cmcd.sid" String Any {
        get C = |run| run.player_says("sid");
    }
    ReqCmcdSmrt "req.cmcd.smrt" String Any {
        get C = |run| run.player_says("smrt");
    }
    ReqCmcdSn "req.cmcd.sn" String Any {
        get C = |run| run.player_says("sn");
    }
    ReqCmcdSt "req.cmcd.st" String Any {
        get C = |run| run.player_says("st");
    }
    ReqCmcdSta "req.cmcd.sta" String Any {
        get C = |run| run.player_says("sta");
    }
    ReqCmcdSu "req.cmcd.su" String Any {
        get C = |run| run.player_says("su");
    }
    ReqCmcdTab "req.cmcd.tab" String Any {
        get C = |run| run.player_says("tab");
    }
    ReqCmcdTb "req.cmcd.tb" String Any {
        get C = |run| run.player_says("tb");
    }
    ReqCmcdTbl "req.cmcd.tbl" String Any {
        get C = |run| run.player_says("tbl");
    }
    ReqCmcdTpb "req.cmcd.tpb" String Any {
        get C = |run| run.player_says("tpb");
    }
    ReqCmcdTs "req.cmcd.ts" String Any {
        get C = |run| run.player_says("ts");
    }
    ReqCmcdTtfb "req.cmcd.ttfb" String Any {
        get C = |run| run.player_says("ttfb");
    }
    ReqCmcdTtfbb "req.cmcd.ttfbb" String Any {
        get C = |run| run.player_says("ttfbb");
    }
    ReqCmcdTtlb "req.cmcd.ttlb" String Any {
        get C = |run| run.player_says("ttlb");
    }
    ReqCmcdUrl "req.cmcd.url" String Any {
        get C = |run| run.player_says("url");
    }
    ReqCmcdV "req.cmcd.v" String Any {
        get C = |run| run.player_says("v");
    }
    ReqBackendHint "req.backend_hint" Backend Any {
        get C = |run| Ok(Value::Backend(run.backend_hint()));
        set C, C = to!(client.backend_hint = Backend(backend) => Some(backend));
    }
    ReqTtl "req.ttl" Duration Any {
        get C = of!(client => Duration(client.ttl.unwrap_or(-1.0)));
        set C, C = to!(client.ttl = Duration(t) => Some(t.max(0.0)));
        unset C = no!(client.ttl);
    }
    ReqGrace "req.grace" Duration Any {
        get C = of!(client => Duration(client.grace.unwrap_or(-1.0)));
        set C, C = to!(client.grace = Duration(t) => Some(t.max(0.0)));
        unset C = no!(client.grace);
    }
    ReqHashAlwaysMiss "req.hash_always_miss" Bool Any {
        get C = of!(client => Bool(client.hash_always_miss));
        set C, C = to!(client.hash_always_miss = Bool(truth) => truth);
    }
    ReqHashIgnoreBusy "req.hash_ignore_busy" Bool Any {
        get C = of!(client => Bool(client.hash_ignore_busy));
        set C, C = to!(client.hash_ignore_busy = Bool(truth) => truth);
    }
    ReqHashIgnoreVary "req.hash_ignore_vary" Bool Any {
        get C = of!(client => Bool(client.hash_ignore_vary));
        set C, C = to!(client.hash_ignore_vary = Bool(truth) => truth);
    }
    ReqStorage "req.storage" Stevedore Any {
        get C = of!(client => Stevedore(client.storage));
        set C, C = to!(client.storage = Stevedore(storage) => storage);
    }
    ReqEsi "req.esi" Bool Until40 {
        get C = of!(client => Bool(client.esi));
        set C, C = |run, value| run.set_req_esi(value);
    }
    ReqTopMethod "req_top.method" String Any {
        get C = |run| run.top_text(|head| head.method.as_str());
    }
    ReqTopUrl "req_top.url" String Any {
        get C = |run| run.top_text(|head| &head.target);
    }
    ReqTopProto "req_top.proto" String Any {
        get C = |run| run.top_text(proto);
    }
    ReqTopTime "req_top.time" Time Any {
        get C = of!(client => Time(client.top.as_deref().map_or(client.time, |(_, time)| *time)));
    }
    Bereq "bereq" Http Any {
        get B = |_| Ok(Value::Http(Message::Bereq));
    }
    BereqMethod "bereq.method" String Any {
        get BP = |run| run.request_text(Message::Bereq, |head| head.method.as_str());
        set BP, BP = |run, value| run.set_method(Message::Bereq, value);
    }
    BereqUrl "bereq.url" String Any {
        get BP = |run| run.request_text(Message::Bereq, |head| &head.target);
        set BP, BP = |run, value| run.set_url(Message::Bereq, value);
    }
    BereqProto "bereq.proto" String Any {
        get BP = |run| run.request_text(Message::Bereq, proto);
        set N, BP = |run, value| run.set_proto(Message::Bereq, value);
    }
    BereqHash "bereq.hash" Blob Any {
        get BP = |run| run.bereq_hash();
    }
    BereqIsBgfetch "bereq.is_bgfetch" Bool Any {
        get B = of!(fetch => Bool(fetch.is_background));
    }
    BereqMediaAhead "bereq.media_ahead" Bool Any {
        get B = of!(fetch => Bool(fetch.is_ahead));
    }
    BereqIsHitmiss "bereq.is_hitmiss" Bool Any {
        get B = of!(fetch => Bool(fetch.is_hitmiss));
    }
    BereqIsHitpass "bereq.is_hitpass" Bool Any {
        get B = of!(fetch => Bool(fetch.is_hitpass));
    }
    BereqRetries "bereq.retries" Int Any {
        get B = of!(fetch => Int(fetch.retries.into()));
    }
    BereqTime "bereq.time" Time Any {
        get BP = |run| run.bereq_time();
    }
    BereqUncacheable "bereq.uncacheable" Bool Any {
        get B = of!(fetch => Bool(fetch.uncacheable));
    }
    BereqXid "bereq.xid" String Any {
        get BP = |run| run.bereq_xid();
    }
    BereqBackend "bereq.backend" Backend Any {
        get BP = |run| Ok(Value::Backend(run.current_backend()));
        set BP, BP = |run, value| run.set_bereq_backend(value);
    }
    BereqConnectTimeout "bereq.connect_timeout" Duration Any {
        get BP = |run| {
            let set = run.connect_timeout().and_then(|set| *set);
            run.timeout(set, |backend| backend.connect_timeout, |timeouts| timeouts.connect)
        };
        set BP, BP = |run, value| {
            if let Value::Duration(seconds) = value {
                run.set_connect_timeout(Some(seconds));
            }
            Ok(())
        };
        unset BP = |run| run.set_connect_timeout(None);
    }
    BereqTaskDeadline "bereq.task_deadline" Duration Any {
        get P = of!(client => Duration(client.task_deadline.unwrap_or(client.task_deadline_usual)));
        set P, P = to!(client.task_deadline = Duration(t) => Some(t.max(0.0)));
        unset P = no!(client.task_deadline);
    }
    BereqFirstByteTimeout "bereq.first_byte_timeout" Duration Any {
        get B = |run| run.timeout(
            run.view.fetch.as_deref().and_then(|fetch| fetch.first_byte_timeout),
            |backend| backend.first_byte_timeout,
            |timeouts| timeouts.first_byte,
        );
        set B, B = to!(fetch.first_byte_timeout = Duration(t) => Some(t).filter(|t| *t > 0.0));
        unset B = no!(fetch.first_byte_timeout);
    }
    BereqBetweenBytesTimeout "bereq.between_bytes_timeout" Duration Any {
        get B = |run| run.timeout(
            run.view.fetch.as_deref().and_then(|fetch| fetch.between_bytes_timeout),
            |backend| backend.between_bytes_timeout,
            |timeouts| timeouts.between_bytes,
        );
        set B, B = to!(fetch.between_bytes_timeout = Duration(t) => Some(t).filter(|t| *t > 0.0));
        unset B = no!(fetch.between_bytes_timeout);
    }
    BereqRetryConnect "bereq.retry_connect" Bool Any {
        get B = of!(fetch => Bool(!fetch.connects_once));
        set B, B = to!(fetch.connects_once = Bool(truth) => !truth);
    }
    BereqBody "bereq.body" Body Any {
        unset FETCH = |run| run.unset_bereq_body();
    }
    Beresp "beresp" Http Any {
        get R = |_| Ok(Value::Http(Message::Beresp));
    }
    BerespProto "beresp.proto" String Any {
        get R = |run| run.response_proto(Message::Beresp);
        set N, R = |run, value| run.set_proto(Message::Beresp, value);
    }
    BerespStatus "beresp.status" Int Any {
        get R = |run| Ok(Value::Int(run.status(Message::Beresp)));
        set R, R = |run, value| run.set_status(Message::Beresp, value);
    }
    BerespReason "beresp.reason" String Any {
        get R = |run| run.response_text(Message::Beresp, |head| head.reason_phrase());
        set R, R = |run, value| run.set_reason(Message::Beresp, value);
    }
    BerespTtl "beresp.ttl" Duration Any {
        get R = of!(answer => Duration(answer.ttl));
        set R, R = |run, value| run.set_lifetime(value, |answer, t| {
            (answer.ttl, answer.has_no_life) = (t.max(0.0 - answer.age), false);
        });
    }
    BerespGrace "beresp.grace" Duration Any {
        get R = of!(answer => Duration(answer.grace));
        set R, R = |run, value| run.set_lifetime(value, |answer, t| answer.grace = t.max(0.0));
    }
    BerespKeep "beresp.keep" Duration Any {
        get R = of!(answer => Duration(answer.keep));
        set R, R = |run, value| run.set_lifetime(value, |answer, t| answer.keep = t.max(0.0));
    }
    BerespAge "beresp.age" Duration Any {
        get R = of!(answer => Duration(answer.age));
    }
    BerespTime "beresp.time" Time Any {
        get R = of!(answer => Time(answer.time));
    }
    BerespUncacheable "beresp.uncacheable" Bool Any {
        get R = of!(answer => Bool(answer.uncacheable));
        set R, R = |run, value| run.set_uncacheable(value);
    }
    BerespDoEsi "beresp.do_esi" Bool Any {
        get R = |run| run.filter_knob("do_esi", |answer| answer.do_esi);
        set R, R = |run, value| run.set_filter_knob("do_esi", value, |answer| &mut answer.do_esi);
    }
    BerespDoGzip "beresp.do_gzip" Bool Any {
        get R = |run| run.filter_knob("do_gzip", |answer| answer.do_gzip);
        set R, R = |run, value| run.set_filter_knob("do_gzip", value, |answer| &mut answer.do_gzip);
    }
    BerespDoGunzip "beresp.do_gunzip" Bool Any {
        get R = |run| run.filter_knob("do_gunzip", |answer| answer.do_gunzip);
        set R, R = |run, value| {
            run.set_filter_knob("do_gunzip", value, |answer| &mut answer.do_gunzip)
        };
    }
    BerespDoStream "beresp.do_stream" Bool Any {
        get R = of!(answer => Bool(answer.do_stream));
        set R, R = to!(answer.do_stream = Bool(truth) => truth);
    }
    BerespWas304 "beresp.was_304" Bool Any {
        get R = of!(answer => Bool(answer.was_304));
    }
    BerespMediaClass "beresp.media_class" String Any {
        get R = |run| run.beresp_media(|answer| answer.media_class);
    }
    BerespMediaKind "beresp.media_kind" String Any {
        get R = |run| run.beresp_media(|answer| answer.media_kind);
    }
    BerespMediaSequence "beresp.media_sequence" String Any {
        get R = |run| run.beresp_media_number(|answer| answer.media_sequence);
    }
    BerespMediaBitrate "beresp.media_bitrate" String Any {
        get R = |run| run.beresp_media_number(|answer| answer.media_bitrate);
    }
    BerespBackend "beresp.backend" Backend Any {
        get R = of!(answer => Backend(answer.backend));
    }
    BerespBackendName "beresp.backend.name" String Any {
        get R = |run| run.beresp_backend_name();
    }
    BerespBackendIp "beresp.backend.ip" Ip Until40 {
        get BERESP = |run| {
            let address = run.view.answer.as_ref().and_then(|answer| answer.backend_address);
            Ok(address.map_or(Value::Ip(None, 0), |a| Value::Ip(Some(a.ip()), a.port())))
        };
    }
    BerespStorage "beresp.storage" Stevedore Any {
        get R = |run| Ok(Value::Stevedore(run.beresp_storage()));
        set R, R = to!(answer.storage = Stevedore(storage) => storage);
    }
    BerespStorageHint "beresp.storage_hint" String Until40 {
        get R = |run| run.beresp_storage_hint();
        set R, R = |run, value| run.set_storage_hint(value);
    }
    BerespFilters "beresp.filters" String Any {
        get BERESP = |run| run.beresp_filters();
        set BERESP, BERESP = |run, value| run.set_beresp_filters(value);
    }
    BerespBody "beresp.body" Body Any {
        set BEERR, BEERR = |run, value| run.set_body(value);
    }
    ObjAge "obj.age" Duration Any {
        get HD = |run| Ok(Value::Duration(run.object(0.0, |object| object.age)));
    }
    ObjTtl "obj.ttl" Duration Any {
        get HD = |run| Ok(Value::Duration(run.object(0.0, |object| object.ttl)));
    }
    ObjGrace "obj.grace" Duration Any {
        get HD = |run| Ok(Value::Duration(run.object(0.0, |object| object.grace)));
    }
    ObjKeep "obj.keep" Duration Any {
        get HD = |run| Ok(Value::Duration(run.object(0.0, |object| object.keep)));
    }
    ObjHits "obj.hits" Int Any {
        get HD = |run| {
            Ok(Value::Int(i64::try_from(run.object(0, |object| object.hits)).unwrap_or(i64::MAX)))
        };
    }
    ObjTime "obj.time" Time Any {
        get HD = |run| Ok(Value::Time(run.object(run.view.now, |object| object.time)));
    }
    ObjStorage "obj.storage" Stevedore Any {
        get HD = |run| run.obj_storage();
    }
    ObjCanEsi "obj.can_esi" Bool Any {
        get HD = |run| Ok(Value::Bool(run.object(false, |object| object.can_esi)));
    }
    ObjStatus "obj.status" Int Any {
        get HIT = |run| Ok(Value::Int(run.object(0, |object| object.status).into()));
    }
    ObjReason "obj.reason" String Any {
        get HIT = |run| run.stored(run.view.object.map_or("", |object| object.reason).as_bytes());
    }
    ObjProto "obj.proto" String Any {
        get HIT = |run| run.stored(b"HTTP/1.1");
    }
    ObjUncacheable "obj.uncacheable" Bool Any {
        get DELIVER = |run| {
            let was_passed = run.view.client.as_deref().is_some_and(|client| client.was_passed);
            Ok(Value::Bool(run.object(was_passed, |object| object.uncacheable)))
        };
    }
    Resp "resp" Http Any {
        get DS = |_| Ok(Value::Http(Message::Resp));
    }
    RespProto "resp.proto" String Any {
        get DS = |run| run.response_proto(Message::Resp);
        set N, DS = |run, value| run.set_proto(Message::Resp, value);
    }
    RespStatus "resp.status" Int Any {
        get DS = |run| Ok(Value::Int(run.status(Message::Resp)));
        set DS, DS = |run, value| run.set_status(Message::Resp, value);
    }
    RespReason "resp.reason" String Any {
        get DS = |run| run.response_text(Message::Resp, |head| head.reason_phrase());
        set DS, DS = |run, value| run.set_reason(Message::Resp, value);
    }
    RespTime "resp.time" Time Any {
        get DS = of!(delivery => Time(delivery.time));
    }
    RespIsStreaming "resp.is_streaming" Bool Any {
        get DS = of!(delivery => Bool(delivery.is_streaming));
    }
    RespDoEsi "resp.do_esi" Bool From41 {
        get DS = |run| run.resp_do_esi();
        set DS, DS = |run, value| run.set_resp_do_esi(value);
    }
    RespFilters "resp.filters" String Any {
        get DS = |run| run.resp_filters();
        set DS, DS = |run, value| run.set_resp_filters(value);
    }
    RespBody "resp.body" Body Any {
        set SYNTH, SYNTH = |run, value| run.set_body(value);
    }
}

fn ip(address: Option<std::net::SocketAddr>) -> Value {
    let address = address.unwrap_or_else(|| ([0, 0, 0, 0], 0).into());
    Value::Ip(Some(address.ip()), address.port())
}

const _: () = {
    let mut row = 0;
    while row < VARIABLES.len() {
        let one = &VARIABLES[row];
        assert!(one.variable as usize == row && row < 256, "rows are found by their numbers");
        assert!(
            one.get.is_some() || one.set.is_some() || one.reset.is_some(),
            "a variable that nothing can be done with"
        );
        row += 1;
    }
};

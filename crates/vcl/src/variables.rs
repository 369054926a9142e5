//! The variables of the language: their types, and where each can be read, written and unset.

use crate::types::{State, States, Type};

/// Language versions a variable is in, as 10 × major + minor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Versions {
    /// Every version.
    Any,
    /// 4.0 only.
    Until40,
    /// From 4.1.
    From41,
}

/// What is known about a variable.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// Which it is.
    pub variable: Variable,
    /// As it is written.
    pub name: &'static str,
    /// Its type.
    pub of: Type,
    /// States that can read it.
    pub read: States,
    /// States that can set it.
    pub write: States,
    /// States that can set it in version 4.0.
    pub write_40: States,
    /// States that can unset it.
    pub unset: States,
    /// Versions that have it.
    pub versions: Versions,
}

/// The messages whose header fields a policy works on.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Message {
    /// `req`
    Req,
    /// `req_top`
    ReqTop,
    /// `bereq`
    Bereq,
    /// `beresp`
    Beresp,
    /// `obj`
    Obj,
    /// `resp`
    Resp,
}

impl Message {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Req, Self::ReqTop, Self::Bereq, Self::Beresp, Self::Obj, Self::Resp];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Req => "req",
            Self::ReqTop => "req_top",
            Self::Bereq => "bereq",
            Self::Beresp => "beresp",
            Self::Obj => "obj",
            Self::Resp => "resp",
        }
    }

    /// States that can read its fields.
    pub fn read(self) -> States {
        match self {
            Self::Req | Self::ReqTop => C,
            Self::Bereq => BP,
            Self::Beresp => R,
            Self::Obj => HIT,
            Self::Resp => DS,
        }
    }

    /// States that can change its fields.
    pub fn write(self) -> States {
        match self {
            Self::ReqTop | Self::Obj => N,
            _ => self.read(),
        }
    }
}

const ALL: States = States::ALL;
const N: States = States::NONE;
const C: States = States::CLIENT;
const B: States = States::BACKEND;
const CB: States = States::CLIENT.and(States::BACKEND);
const BP: States = States::BACKEND.and(States::of(&[State::Pipe]));
const R: States = States::of(&[State::BackendResponse, State::BackendError]);
const BERESP: States = States::of(&[State::BackendResponse]);
const BEERR: States = States::of(&[State::BackendError]);
const BEREQ_BODY: States = States::of(&[State::BackendFetch]);
const HASHED: States =
    States::of(&[State::Hit, State::Miss, State::Pass, State::Purge, State::Deliver]);
const HIT: States = States::of(&[State::Hit]);
const DELIVER: States = States::of(&[State::Deliver]);
const HD: States = States::of(&[State::Hit, State::Deliver]);
const DS: States = States::of(&[State::Deliver, State::Synth]);
const SYNTH: States = States::of(&[State::Synth]);

macro_rules! variables {
    ($($variant:ident $name:literal $of:ident $read:ident $write:ident $write_40:ident $unset:ident $versions:ident;)*) => {
        /// A variable that is no header field.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[expect(missing_docs, reason = "the names say which; the manual says what they are")]
        pub enum Variable {
            $($variant,)*
        }

        /// Every variable but header fields and storages.
        pub const VARIABLES: &[Definition] = &[
            $(Definition {
                variable: Variable::$variant,
                name: $name,
                of: Type::$of,
                read: $read,
                write: $write,
                write_40: $write_40,
                unset: $unset,
                versions: Versions::$versions,
            },)*
        ];
    };
}

variables! {
    Now "now" Time ALL N N N Any;
    ServerHostname "server.hostname" String ALL N N N Any;
    ServerIdentity "server.identity" String ALL N N N Any;
    ClientIp "client.ip" Ip CB N N N Any;
    RemoteIp "remote.ip" Ip CB N N N Any;
    LocalIp "local.ip" Ip CB N N N Any;
    ServerIp "server.ip" Ip CB N N N Any;
    ClientIdentity "client.identity" String CB C C N Any;
    LocalEndpoint "local.endpoint" String CB N N N From41;
    LocalSocket "local.socket" String CB N N N From41;
    SessXid "sess.xid" String CB N N N From41;
    SessTimeoutIdle "sess.timeout_idle" Duration C C C N Any;
    SessTimeoutLinger "sess.timeout_linger" Duration C C C N Any;
    SessSendTimeout "sess.send_timeout" Duration C C C N Any;
    SessIdleSendTimeout "sess.idle_send_timeout" Duration C C C N Any;
    Req "req" Http C N N N Any;
    ReqMethod "req.method" String C C C N Any;
    ReqUrl "req.url" String C C C N Any;
    ReqProto "req.proto" String C N C N Any;
    ReqHash "req.hash" Blob HASHED N N N Any;
    ReqEsiLevel "req.esi_level" Int C N N N Any;
    ReqRestarts "req.restarts" Int C N N N Any;
    ReqXid "req.xid" String C N N N Any;
    ReqCanGzip "req.can_gzip" Bool C N N N Any;
    ReqIsHitmiss "req.is_hitmiss" Bool C N N N Any;
    ReqIsHitpass "req.is_hitpass" Bool C N N N Any;
    ReqTime "req.time" Time C N N N Any;
    ReqTransport "req.transport" String C N N N Any;
    ReqBackendHint "req.backend_hint" Backend C C C N Any;
    ReqTtl "req.ttl" Duration C C C N Any;
    ReqGrace "req.grace" Duration C C C N Any;
    ReqHashAlwaysMiss "req.hash_always_miss" Bool C C C N Any;
    ReqHashIgnoreBusy "req.hash_ignore_busy" Bool C C C N Any;
    ReqHashIgnoreVary "req.hash_ignore_vary" Bool C C C N Any;
    ReqStorage "req.storage" Stevedore C C C N Any;
    ReqEsi "req.esi" Bool C C C N Until40;
    ReqTopMethod "req_top.method" String C N N N Any;
    ReqTopUrl "req_top.url" String C N N N Any;
    ReqTopProto "req_top.proto" String C N N N Any;
    ReqTopTime "req_top.time" Time C N N N Any;
    Bereq "bereq" Http BP N N N Any;
    BereqMethod "bereq.method" String BP BP BP N Any;
    BereqUrl "bereq.url" String BP BP BP N Any;
    BereqProto "bereq.proto" String BP N BP N Any;
    BereqHash "bereq.hash" Blob BP N N N Any;
    BereqIsBgfetch "bereq.is_bgfetch" Bool B N N N Any;
    BereqIsHitmiss "bereq.is_hitmiss" Bool B N N N Any;
    BereqIsHitpass "bereq.is_hitpass" Bool B N N N Any;
    BereqRetries "bereq.retries" Int B N N N Any;
    BereqTime "bereq.time" Time BP N N N Any;
    BereqUncacheable "bereq.uncacheable" Bool B N N N Any;
    BereqXid "bereq.xid" String BP N N N Any;
    BereqBackend "bereq.backend" Backend BP BP BP N Any;
    BereqConnectTimeout "bereq.connect_timeout" Duration BP BP BP N Any;
    BereqFirstByteTimeout "bereq.first_byte_timeout" Duration B B B N Any;
    BereqBetweenBytesTimeout "bereq.between_bytes_timeout" Duration B B B N Any;
    BereqBody "bereq.body" Body N N N BEREQ_BODY Any;
    Beresp "beresp" Http R N N N Any;
    BerespProto "beresp.proto" String R N R N Any;
    BerespStatus "beresp.status" Int R R R N Any;
    BerespReason "beresp.reason" String R R R N Any;
    BerespTtl "beresp.ttl" Duration R R R N Any;
    BerespGrace "beresp.grace" Duration R R R N Any;
    BerespKeep "beresp.keep" Duration R R R N Any;
    BerespAge "beresp.age" Duration R N N N Any;
    BerespTime "beresp.time" Time R N N N Any;
    BerespUncacheable "beresp.uncacheable" Bool R R R N Any;
    BerespDoEsi "beresp.do_esi" Bool R R R N Any;
    BerespDoGzip "beresp.do_gzip" Bool R R R N Any;
    BerespDoGunzip "beresp.do_gunzip" Bool R R R N Any;
    BerespDoStream "beresp.do_stream" Bool R R R N Any;
    BerespWas304 "beresp.was_304" Bool R N N N Any;
    BerespBackend "beresp.backend" Backend R N N N Any;
    BerespBackendName "beresp.backend.name" String R N N N Any;
    BerespBackendIp "beresp.backend.ip" Ip BERESP N N N Until40;
    BerespStorage "beresp.storage" Stevedore R R R N Any;
    BerespStorageHint "beresp.storage_hint" String R R R N Until40;
    BerespFilters "beresp.filters" String BERESP BERESP BERESP N Any;
    BerespBody "beresp.body" Body N BEERR BEERR N Any;
    ObjAge "obj.age" Duration HD N N N Any;
    ObjTtl "obj.ttl" Duration HD N N N Any;
    ObjGrace "obj.grace" Duration HD N N N Any;
    ObjKeep "obj.keep" Duration HD N N N Any;
    ObjHits "obj.hits" Int HD N N N Any;
    ObjTime "obj.time" Time HD N N N Any;
    ObjStorage "obj.storage" Stevedore HD N N N Any;
    ObjCanEsi "obj.can_esi" Bool HD N N N Any;
    ObjStatus "obj.status" Int HIT N N N Any;
    ObjReason "obj.reason" String HIT N N N Any;
    ObjProto "obj.proto" String HIT N N N Any;
    ObjUncacheable "obj.uncacheable" Bool DELIVER N N N Any;
    Resp "resp" Http DS N N N Any;
    RespProto "resp.proto" String DS N DS N Any;
    RespStatus "resp.status" Int DS DS DS N Any;
    RespReason "resp.reason" String DS DS DS N Any;
    RespTime "resp.time" Time DS N N N Any;
    RespIsStreaming "resp.is_streaming" Bool DS N N N Any;
    RespDoEsi "resp.do_esi" Bool DS DELIVER DELIVER N From41;
    RespFilters "resp.filters" String DS DS DS N Any;
    RespBody "resp.body" Body N SYNTH SYNTH N Any;
}

impl Variable {
    /// What is known about it.
    pub fn definition(self) -> &'static Definition {
        &VARIABLES[self as usize]
    }
}

/// The variable of this name.
pub fn find(name: &str) -> Option<&'static Definition> {
    VARIABLES.iter().find(|definition| definition.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enumeration() {
        for (index, definition) in VARIABLES.iter().enumerate() {
            assert!(index < 128, "a program remembers what it reads in 128 bits");
            assert_eq!(definition.variable as usize, index, "{}", definition.name);
            assert_eq!(
                find(definition.name).map(|found| found.variable),
                Some(definition.variable)
            );
        }
    }
}

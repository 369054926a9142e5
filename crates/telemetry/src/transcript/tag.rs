//! The tags of records: names and numbers are Varnish 7.1's, so that its tools know them.

macro_rules! tags {
    ($($name:ident)*) => {
        /// What a record is about. The numbers are the places in this list, from 1.
        #[allow(non_camel_case_types, missing_docs, reason = "the names are what tools show")]
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[repr(u8)]
        pub enum Tag {
            /// Keeps 0 free: readers take it for the end.
            None,
            $($name,)*
        }

        impl Tag {
            /// All of them, by number.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The name tools show.
            pub fn name(self) -> &'static str {
                match self {
                    Self::None => "None",
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

tags! {
    Debug Error CLI SessOpen SessClose BackendOpen BackendReuse BackendClose HttpGarbage Proxy
    ProxyGarbage Backend Length FetchError ReqMethod ReqURL ReqProtocol ReqStatus ReqReason
    ReqHeader ReqUnset ReqLost RespMethod RespURL RespProtocol RespStatus RespReason RespHeader
    RespUnset RespLost BereqMethod BereqURL BereqProtocol BereqStatus BereqReason BereqHeader
    BereqUnset BereqLost BerespMethod BerespURL BerespProtocol BerespStatus BerespReason
    BerespHeader BerespUnset BerespLost ObjMethod ObjURL ObjProtocol ObjStatus ObjReason ObjHeader
    ObjUnset ObjLost BogoHeader LostHeader TTL Fetch_Body VCL_acl VCL_call VCL_trace VCL_return
    ReqStart Hit HitPass ExpBan ExpKill WorkThread ESI_xmlerror Hash Backend_health VCL_Log
    VCL_Error Gzip Link Begin End VSL Storage Timestamp ReqAcct PipeAcct BereqAcct VfpAcct Witness
    BackendStart H2RxHdr H2RxBody H2TxHdr H2TxBody HitMiss Filters SessError VCL_use Notice
    VdpAcct
}

impl Tag {
    /// Those that are not written unless asked for.
    pub const MASKED: &[Self] = &[
        Self::Debug,
        Self::ObjProtocol,
        Self::ObjStatus,
        Self::ObjReason,
        Self::ObjHeader,
        Self::VCL_trace,
        Self::ExpKill,
        Self::WorkThread,
        Self::Hash,
        Self::VfpAcct,
        Self::H2RxHdr,
        Self::H2RxBody,
        Self::H2TxHdr,
        Self::H2TxBody,
        Self::VdpAcct,
    ];

    /// The number.
    pub fn number(self) -> u8 {
        self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::Tag;

    #[test]
    fn numbers_are_those_of_varnish() {
        assert_eq!(Tag::ALL.len(), 96);
        assert_eq!(Tag::Begin.number(), 76);
        assert_eq!(Tag::BereqHeader.number(), 36);
        assert_eq!(Tag::VdpAcct.number(), 96);
    }
}

//! The counters: Varnish's names, what each means here, and how it is shown.

use crate::shm::counters::Format::{Bitmap as Bits, Bytes, Duration, Integer};
use crate::shm::counters::Kind::{Bitmap, Counter, Gauge};
use crate::shm::counters::Level::{Debug, Diagnostic, Info};
use crate::shm::counters::{Document, Element, Format, Kind, Level};

const fn e(
    name: &'static str,
    kind: Kind,
    level: Level,
    format: Format,
    about: &'static str,
) -> Element {
    Element { name, kind, level, format, about }
}

/// The manager.
pub(crate) static MGT: Document =
    Document { name: "mgt", about: "The manager.", order: 10, elements: MGT_ELEMENTS };

#[rustfmt::skip]
static MGT_ELEMENTS: &[Element] = &[
    e("uptime", Counter, Info, Duration, "Seconds since the program started"),
    e("child_start", Counter, Diagnostic, Integer, "Times serving began"),
    e("child_exit", Counter, Diagnostic, Integer, "Times serving ended by itself"),
    e("child_stop", Counter, Diagnostic, Integer, "Times serving was stopped"),
    e("child_died", Counter, Diagnostic, Integer, "Times serving ended by a signal"),
    e("child_dump", Counter, Diagnostic, Integer, "Times serving ended with a core dump"),
    e("child_panic", Counter, Diagnostic, Integer, "Times serving ended with a panic"),
];

/// Requests, fetches and the cache.
pub(crate) static MAIN: Document = Document {
    name: "main",
    about: "Requests, fetches and the cache.",
    order: 100,
    elements: MAIN_ELEMENTS,
};

#[rustfmt::skip]
static MAIN_ELEMENTS: &[Element] = &[
    e("summs", Counter, Diagnostic, Integer, "Times the workers' figures were added up"),
    e("uptime", Counter, Info, Duration, "Seconds since requests are served"),
    e("sess_conn", Counter, Info, Integer, "Client connections accepted"),
    e("sess_fail", Counter, Info, Integer, "Client connections that could not be accepted"),
    e("sess_fail_econnaborted", Counter, Info, Integer, "Accepts that failed: the client was gone"),
    e("sess_fail_eintr", Counter, Diagnostic, Integer, "Accepts that failed: interrupted"),
    e("sess_fail_emfile", Counter, Diagnostic, Integer, "Accepts that failed: no file descriptor left"),
    e("sess_fail_ebadf", Counter, Diagnostic, Integer, "Accepts that failed: the listening socket is gone"),
    e("sess_fail_enomem", Counter, Diagnostic, Integer, "Accepts that failed: no memory"),
    e("sess_fail_other", Counter, Diagnostic, Integer, "Accepts that failed for another reason"),
    e("client_req_400", Counter, Info, Integer, "Requests refused because they were malformed"),
    e("client_req_417", Counter, Info, Integer, "Requests refused because of their Expect"),
    e("client_req", Counter, Info, Integer, "Requests that were well formed"),
    e("esi_req", Counter, Info, Integer, "Requests for parts of a page"),
    e("cache_hit", Counter, Info, Integer, "Requests answered from the cache"),
    e("cache_hit_grace", Counter, Info, Integer, "Requests answered from the cache past its lifetime"),
    e("cache_hitpass", Counter, Info, Integer, "Requests passed because of a hit-for-pass object"),
    e("cache_hitmiss", Counter, Info, Integer, "Requests fetched because of a hit-for-miss object"),
    e("cache_miss", Counter, Info, Integer, "Requests that found nothing"),
    e("beresp_uncacheable", Counter, Info, Integer, "Responses of origins that could not be kept"),
    e("beresp_shortlived", Counter, Info, Integer, "Responses of origins kept for a moment only"),
    e("backend_conn", Counter, Info, Integer, "Connections to origins opened"),
    e("backend_unhealthy", Counter, Info, Integer, "Requests not sent because the origin is sick"),
    e("backend_busy", Counter, Info, Integer, "Requests not sent because the origin has all its connections"),
    e("backend_wait", Counter, Info, Integer, "Requests that waited for a connection of their origin"),
    e("backend_wait_fail", Counter, Info, Integer, "Requests that waited for one in vain"),
    e("backend_fail", Counter, Info, Integer, "Connections to origins that failed"),
    e("backend_reuse", Counter, Info, Integer, "Requests sent on connections used before"),
    e("backend_recycle", Counter, Info, Integer, "Connections kept for another request"),
    e("backend_retry", Counter, Info, Integer, "Requests sent again because a kept connection was closed"),
    e("fetch_head", Counter, Info, Integer, "Responses without body: the request was HEAD"),
    e("fetch_length", Counter, Info, Integer, "Responses with a Content-Length"),
    e("fetch_chunked", Counter, Info, Integer, "Responses in chunks"),
    e("fetch_eof", Counter, Info, Integer, "Responses that end with their connection"),
    e("fetch_bad", Counter, Info, Integer, "Responses whose body length was wrong"),
    e("fetch_none", Counter, Info, Integer, "Responses without body"),
    e("fetch_1xx", Counter, Info, Integer, "Responses without body: 1xx"),
    e("fetch_204", Counter, Info, Integer, "Responses without body: 204"),
    e("fetch_304", Counter, Info, Integer, "Responses without body: 304"),
    e("fetch_failed", Counter, Info, Integer, "Fetches that failed"),
    e("fetch_no_thread", Counter, Info, Integer, "Fetches that failed for want of a worker"),
    e("pools", Gauge, Info, Integer, "Groups of workers"),
    e("threads", Gauge, Info, Integer, "Workers"),
    e("threads_limited", Counter, Info, Integer, "Times a worker was wanted and not allowed"),
    e("threads_created", Counter, Info, Integer, "Workers started"),
    e("threads_destroyed", Counter, Info, Integer, "Workers ended"),
    e("threads_failed", Counter, Info, Integer, "Workers that could not be started"),
    e("thread_queue_len", Gauge, Info, Integer, "Connections that wait for a worker"),
    e("busy_sleep", Counter, Info, Integer, "Requests that began to wait for another's fetch"),
    e("busy_wakeup", Counter, Info, Integer, "Requests that were woken after another's fetch"),
    e("busy_killed", Counter, Info, Integer, "Requests that gave up waiting for another's fetch"),
    e("sess_queued", Counter, Info, Integer, "Connections that waited for a worker"),
    e("sess_dropped", Counter, Info, Integer, "Connections dropped for want of a worker"),
    e("req_dropped", Counter, Info, Integer, "Streams dropped for want of a worker"),
    e("n_object", Gauge, Info, Integer, "Objects in the cache"),
    e("n_vampireobject", Gauge, Diagnostic, Integer, "Objects found on disk and not looked at yet"),
    e("n_objectcore", Gauge, Info, Integer, "Entries of the index that lead to an object"),
    e("n_objecthead", Gauge, Info, Integer, "Keys in the index"),
    e("n_backend", Gauge, Info, Integer, "Origins"),
    e("n_expired", Counter, Info, Integer, "Objects that went because they were too old"),
    e("n_lru_nuked", Counter, Info, Integer, "Objects that went to make room"),
    e("n_lru_moved", Counter, Diagnostic, Integer, "Objects found again by the eviction and kept"),
    e("n_lru_limited", Counter, Info, Integer, "Times too many objects would have had to go at once"),
    e("losthdr", Counter, Info, Integer, "Header lines dropped because there were too many"),
    e("s_sess", Counter, Info, Integer, "Client connections served"),
    e("n_pipe", Gauge, Info, Integer, "Tunnels open"),
    e("pipe_limited", Counter, Info, Integer, "Tunnels refused because there were too many"),
    e("s_pipe", Counter, Info, Integer, "Requests that were to become tunnels"),
    e("s_pass", Counter, Info, Integer, "Requests passed"),
    e("s_fetch", Counter, Info, Integer, "Fetches begun"),
    e("s_bgfetch", Counter, Info, Integer, "Fetches begun behind a response"),
    e("s_synth", Counter, Info, Integer, "Responses made here"),
    e("s_req_hdrbytes", Counter, Info, Bytes, "Head bytes of requests"),
    e("s_req_bodybytes", Counter, Info, Bytes, "Body bytes of requests"),
    e("s_resp_hdrbytes", Counter, Info, Bytes, "Head bytes of responses"),
    e("s_resp_bodybytes", Counter, Info, Bytes, "Body bytes of responses"),
    e("s_pipe_hdrbytes", Counter, Info, Bytes, "Head bytes of requests that became tunnels"),
    e("s_pipe_in", Counter, Info, Bytes, "Bytes from clients through tunnels"),
    e("s_pipe_out", Counter, Info, Bytes, "Bytes to clients through tunnels"),
    e("sess_closed", Counter, Info, Integer, "Connections closed"),
    e("sess_closed_err", Counter, Info, Integer, "Connections closed because of an error"),
    e("sess_readahead", Counter, Info, Integer, "Connections whose next request had come before the response was over"),
    e("sess_herd", Counter, Diagnostic, Integer, "Connections that went idle"),
    e("sc_rem_close", Counter, Diagnostic, Integer, "Connections closed: by the client"),
    e("sc_req_close", Counter, Diagnostic, Integer, "Connections closed: the client asked for it"),
    e("sc_req_http10", Counter, Diagnostic, Integer, "Connections closed: HTTP/1.0 without keep-alive"),
    e("sc_rx_bad", Counter, Diagnostic, Integer, "Connections closed: malformed request"),
    e("sc_rx_body", Counter, Diagnostic, Integer, "Connections closed: the request's body broke off"),
    e("sc_rx_junk", Counter, Diagnostic, Integer, "Connections closed: what came is no request"),
    e("sc_rx_overflow", Counter, Diagnostic, Integer, "Connections closed: request too large"),
    e("sc_rx_timeout", Counter, Diagnostic, Integer, "Connections closed: the request took too long"),
    e("sc_rx_close_idle", Counter, Diagnostic, Integer, "Connections closed: idle for too long"),
    e("sc_tx_pipe", Counter, Diagnostic, Integer, "Connections closed: end of a tunnel"),
    e("sc_tx_error", Counter, Diagnostic, Integer, "Connections closed: the response could not be sent"),
    e("sc_tx_eof", Counter, Diagnostic, Integer, "Connections closed: the response ends with its connection"),
    e("sc_resp_close", Counter, Diagnostic, Integer, "Connections closed: the policy asked for it"),
    e("sc_overload", Counter, Diagnostic, Integer, "Connections closed: no room"),
    e("sc_pipe_overflow", Counter, Diagnostic, Integer, "Connections closed: too many tunnels"),
    e("sc_range_short", Counter, Diagnostic, Integer, "Connections closed: the range was shorter than announced"),
    e("sc_req_http20", Counter, Diagnostic, Integer, "Connections closed: HTTP/2 was asked for and is off"),
    e("sc_vcl_failure", Counter, Diagnostic, Integer, "Connections closed: the policy failed"),
    e("client_resp_500", Counter, Diagnostic, Integer, "Responses 500 for want of room"),
    e("ws_backend_overflow", Counter, Diagnostic, Integer, "Fetches that ran out of room for heads"),
    e("ws_client_overflow", Counter, Diagnostic, Integer, "Requests that ran out of room for heads"),
    e("ws_thread_overflow", Counter, Diagnostic, Integer, "Workers that ran out of scratch room"),
    e("ws_session_overflow", Counter, Diagnostic, Integer, "Connections that ran out of room"),
    e("shm_records", Counter, Diagnostic, Integer, "Log records written"),
    e("shm_writes", Counter, Diagnostic, Integer, "Log writes"),
    e("shm_flushes", Counter, Diagnostic, Integer, "Log writes because a buffer was full"),
    e("shm_cont", Counter, Diagnostic, Integer, "Log writes that had to wait for another"),
    e("shm_cycles", Counter, Diagnostic, Integer, "Turns of the log's ring"),
    e("backend_req", Counter, Info, Integer, "Requests sent to origins"),
    e("n_vcl", Gauge, Info, Integer, "Policies loaded"),
    e("n_vcl_avail", Gauge, Diagnostic, Integer, "Policies that can be used"),
    e("n_vcl_discard", Gauge, Diagnostic, Integer, "Policies discarded and still in use"),
    e("vcl_fail", Counter, Info, Integer, "Requests the policy failed at"),
    e("bans", Gauge, Info, Integer, "Bans"),
    e("bans_completed", Gauge, Diagnostic, Integer, "Bans done with"),
    e("bans_obj", Gauge, Diagnostic, Integer, "Bans about objects only"),
    e("bans_req", Gauge, Diagnostic, Integer, "Bans that need a request"),
    e("bans_added", Counter, Diagnostic, Integer, "Bans added"),
    e("bans_deleted", Counter, Diagnostic, Integer, "Bans removed"),
    e("bans_tested", Counter, Diagnostic, Integer, "Objects tested against bans by requests"),
    e("bans_obj_killed", Counter, Diagnostic, Integer, "Objects banned, found by requests"),
    e("bans_lurker_tested", Counter, Diagnostic, Integer, "Objects tested against bans behind"),
    e("bans_tests_tested", Counter, Diagnostic, Integer, "Conditions of bans tested by requests"),
    e("bans_lurker_tests_tested", Counter, Diagnostic, Integer, "Conditions of bans tested behind"),
    e("bans_lurker_obj_killed", Counter, Diagnostic, Integer, "Objects banned, found behind"),
    e("bans_lurker_obj_killed_cutoff", Counter, Diagnostic, Integer, "Objects dropped to keep the list of bans short"),
    e("bans_dups", Counter, Diagnostic, Integer, "Bans replaced by the same one, later"),
    e("bans_lurker_contention", Counter, Diagnostic, Integer, "Times the work behind made room for requests"),
    e("bans_persisted_bytes", Gauge, Diagnostic, Bytes, "Bytes of bans kept on disk"),
    e("bans_persisted_fragmentation", Gauge, Diagnostic, Bytes, "Bytes of bans on disk that are no longer in force"),
    e("n_purges", Counter, Info, Integer, "Purges"),
    e("n_obj_purged", Counter, Info, Integer, "Objects purged"),
    e("exp_mailed", Counter, Diagnostic, Integer, "Objects given to the expiry"),
    e("exp_received", Counter, Diagnostic, Integer, "Objects the expiry has taken"),
    e("hcb_nolock", Counter, Debug, Integer, "Look-ups without lock"),
    e("hcb_lock", Counter, Debug, Integer, "Look-ups with lock"),
    e("hcb_insert", Counter, Debug, Integer, "Entries made in the index"),
    e("esi_errors", Counter, Diagnostic, Integer, "Errors in pages with parts"),
    e("esi_warnings", Counter, Diagnostic, Integer, "Oddities in pages with parts"),
    e("vmods", Gauge, Info, Integer, "Modules loaded"),
    e("n_gzip", Counter, Info, Integer, "Bodies compressed"),
    e("n_gunzip", Counter, Info, Integer, "Bodies decompressed"),
    e("n_test_gunzip", Counter, Info, Integer, "Bodies whose compression was tested"),
];

/// A storage in memory.
pub(crate) static STORAGE: Document = Document {
    name: "sma",
    about: "A storage in memory.",
    order: 2000,
    elements: STORAGE_ELEMENTS,
};

#[rustfmt::skip]
static STORAGE_ELEMENTS: &[Element] = &[
    e("c_req", Counter, Info, Integer, "Requests for memory"),
    e("c_fail", Counter, Info, Integer, "Requests for memory that failed"),
    e("c_bytes", Counter, Info, Bytes, "Bytes given out"),
    e("c_freed", Counter, Info, Bytes, "Bytes taken back"),
    e("g_alloc", Gauge, Info, Integer, "Pieces in use"),
    e("g_bytes", Gauge, Info, Bytes, "Bytes in use"),
    e("g_space", Gauge, Info, Bytes, "Bytes free"),
];

/// Connections, requests or fetches that are under way, as those who read Varnish's pools of memory for them
/// know these figures. What pools themselves do has no counterpart here.
pub(crate) static UNDER_WAY: Document = Document {
    name: "mempool",
    about: "Connections, requests or fetches under way.",
    order: 3000,
    elements: UNDER_WAY_ELEMENTS,
};

#[rustfmt::skip]
static UNDER_WAY_ELEMENTS: &[Element] = &[
    e("live", Gauge, Debug, Integer, "Under way now"),
    e("allocs", Counter, Debug, Integer, "Begun"),
    e("frees", Counter, Debug, Integer, "Ended"),
];

/// An origin.
pub(crate) static ORIGIN: Document =
    Document { name: "vbe", about: "An origin.", order: 4000, elements: ORIGIN_ELEMENTS };

#[rustfmt::skip]
static ORIGIN_ELEMENTS: &[Element] = &[
    e("happy", Bitmap, Info, Bits, "The last probes, the newest in the lowest bit"),
    e("bereq_hdrbytes", Counter, Info, Bytes, "Head bytes of requests sent"),
    e("bereq_bodybytes", Counter, Info, Bytes, "Body bytes of requests sent"),
    e("beresp_hdrbytes", Counter, Info, Bytes, "Head bytes of responses received"),
    e("beresp_bodybytes", Counter, Info, Bytes, "Body bytes of responses received"),
    e("pipe_hdrbytes", Counter, Info, Bytes, "Head bytes of requests that became tunnels"),
    e("pipe_out", Counter, Info, Bytes, "Bytes to the origin through tunnels"),
    e("pipe_in", Counter, Info, Bytes, "Bytes from the origin through tunnels"),
    e("conn", Gauge, Info, Integer, "Connections in use"),
    e("req", Counter, Info, Integer, "Requests sent"),
    e("unhealthy", Counter, Info, Integer, "Requests not sent because it is sick"),
    e("busy", Counter, Info, Integer, "Requests not sent because all connections are in use"),
    e("fail", Counter, Info, Integer, "Connections that failed"),
    e("fail_eacces", Counter, Diagnostic, Integer, "Connections that failed: not allowed"),
    e("fail_eaddrnotavail", Counter, Diagnostic, Integer, "Connections that failed: no address of ours"),
    e("fail_econnrefused", Counter, Diagnostic, Integer, "Connections that failed: refused"),
    e("fail_enetunreach", Counter, Diagnostic, Integer, "Connections that failed: no way there"),
    e("fail_etimedout", Counter, Diagnostic, Integer, "Connections that failed: no answer"),
    e("fail_other", Counter, Diagnostic, Integer, "Connections that failed for another reason"),
    e("helddown", Counter, Diagnostic, Integer, "Connections not tried because one failed a moment ago"),
];

/// What objects can be purged by with the module `xkey`.
pub(crate) static XKEY: Document =
    Document { name: "xkey", about: "Keys of objects.", order: 5000, elements: XKEY_ELEMENTS };

#[rustfmt::skip]
static XKEY_ELEMENTS: &[Element] = &[
    e("g_keys", Gauge, Info, Integer, "Different keys in use"),
    e("g_hashhead_bytes", Gauge, Diagnostic, Bytes, "What Varnish would take for the keys"),
    e("g_ochead_bytes", Gauge, Diagnostic, Bytes, "What Varnish would take for objects that have keys"),
    e("g_oc_bytes", Gauge, Diagnostic, Bytes, "What Varnish would take for the keys of objects"),
    e("g_bytes", Gauge, Info, Bytes, "All of that together"),
];

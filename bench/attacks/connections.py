"""What a connection costs in memory: thousands that are idle or under way, each kind by itself."""
import harness
from harness import attack

WHERE = "docs/operations.md, What clients can make a node hold"
# What the documentation says of each kind, in KB a connection. Sockets' buffers are the kernel's.
IDLE_KB, ACTIVE_KB = 16, harness.CONNECTION_KB


def costs(bed, target, allowed_kb, port="clear_port", **more):
    bed.start(victim=False)
    count = bed.scale(10_000, 1_000)

    def together(number):
        return bed.crowd(number, target, port=getattr(bed, port), sources=8, **more)

    # What the first ones touch is the program's, not theirs.
    bed.end_crowd(together(100))
    before_mb = bed.server.resident_mb()
    crowd = together(count)
    here = harness.established(getattr(bed, port))
    each_kb = (bed.server.resident_mb() - before_mb) * 1024 / count
    seen = bed.end_crowd(crowd)
    bed.exchanged(here)
    bed.facts["memory a connection, KB"] = f"{each_kb:.1f}"
    bed.expect(here >= count and seen["refused"] == 0, f"{here} of {count} connections were held, {seen['refused']} refused")
    bed.expect(each_kb <= allowed_kb, f"{each_kb:.1f} KB a connection, {allowed_kb} documented")
    bed.expect_memory(connections=count)


@attack(promise=f"an idle connection on HTTP/1 costs {IDLE_KB} KB at most", where=WHERE, peers=("nginx", "haproxy", "varnish"))
def idle_clear(bed):
    costs(bed, "/bytes/100/idle", IDLE_KB, whole=True)


@attack(promise=f"an idle connection on HTTP/1 under TLS costs {IDLE_KB} KB at most", where=WHERE, peers=("nginx", "haproxy"))
def idle_tls(bed):
    costs(bed, "/bytes/100/idle", IDLE_KB, port="tls_port", whole=True, tls=True)


@attack(promise=f"an idle connection on HTTP/2 under TLS costs {IDLE_KB} KB at most", where=WHERE, peers=("nginx", "haproxy"))
def idle_h2(bed):
    costs(bed, "/", IDLE_KB, port="tls_port", h2=True)


@attack(promise=f"a connection whose response waits for its client costs {ACTIVE_KB} KB at most beside `memory`", where=WHERE, peers=("nginx", "varnish"))
def active_clear(bed):
    costs(bed, "/bytes/1000000/active", ACTIVE_KB)


@attack(promise="the same under TLS", where=WHERE, peers=("nginx",))
def active_tls(bed):
    costs(bed, "/bytes/1000000/active", ACTIVE_KB, port="tls_port", tls=True)

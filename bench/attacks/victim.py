"""A well-behaved client: a hit and, every fourth time, a miss, over a kept connection and new ones in turn.

usage: victim.py PORT. Prints `ready` when the hot objects are cached; on SIGTERM one line of JSON, and ends.
"""
import http.client, json, signal, sys, time

HOT_COUNT, BYTES, PAUSE_S, TIMEOUT_S = 8, 1000, 0.02, 30


class Client:
    def __init__(self, port):
        self.port, self.kept, self.number = port, None, 0
        self.delays_ms, self.hits, self.misses, self.errors = {"hit": [], "miss": []}, 0, 0, {}

    def get(self, path, is_kept):
        connection = self.kept if is_kept and self.kept else http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        self.kept = connection if is_kept else self.kept
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            if is_kept:
                self.kept = None
            raise
        if not is_kept or answer.will_close:
            connection.close()
            if is_kept:
                self.kept = None
        if answer.status != 200:
            raise ValueError(f"status {answer.status}")
        seed = (path + "|").encode()
        if body != (seed * (BYTES // len(seed) + 1))[:BYTES]:
            raise ValueError("wrong bytes")

    def step(self):
        self.number += 1
        is_miss = self.number % 4 == 0
        path = f"/bytes/{BYTES}/cold-{self.number}" if is_miss else f"/bytes/{BYTES}/hot-{self.number % HOT_COUNT}"
        began = time.monotonic()
        try:
            self.get(path, self.number % 2 == 0)
            self.hits, self.misses = self.hits + (not is_miss), self.misses + is_miss
        except (OSError, ValueError, http.client.HTTPException) as error:
            words = f"{type(error).__name__} {error}"
            self.errors[words] = self.errors.get(words, 0) + 1
        self.delays_ms["miss" if is_miss else "hit"].append((time.monotonic() - began) * 1000)


def main():
    client, ended = Client(int(sys.argv[1])), []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    for number in range(HOT_COUNT):
        client.get(f"/bytes/{BYTES}/hot-{number}", False)
    print("ready", flush=True)
    while not ended:
        client.step()
        time.sleep(PAUSE_S)
    seen = {"hits": client.hits, "misses": client.misses, "hot": HOT_COUNT, "failed": sum(client.errors.values()), "errors": client.errors}
    for kind, delays in client.delays_ms.items():
        delays = sorted(delays) or [0]
        seen |= {f"{kind}_p50_ms": delays[len(delays) // 2], f"{kind}_max_ms": delays[-1]}
    print(json.dumps(seen))


main()

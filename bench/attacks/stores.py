"""What becomes of a store, and of clients, when something else fills its file system."""
import asyncio, contextlib, pathlib, subprocess, time

import wire
from harness import Skipped, attack, body_of

OBJECT_BYTES = 1_000_000


@contextlib.contextmanager
def small_disk(bed, megabytes):
    """A file system of this size, of its own."""
    folder = pathlib.Path(bed.base, "disk")
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", folder], capture_output=True, text=True)
    if mounted.returncode != 0:
        raise Skipped(f"no file system may be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill_up(folder):
    """Takes all the space that is left."""
    with open(folder / "other", "wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))


@attack(promise="on a full file system a store goes on where it has space, the access log loses lines and says so, no client notices, and both go on when there is room",
        where="docs/storage.md, When a disk fails")
def full_disk(bed):
    with small_disk(bed, 96) as folder:
        store = folder / "store"
        with open(store, "wb") as file:
            file.truncate(64 << 20)  # A file with holes: no space is reserved.
        # What is new has to be written whatever was written before.
        configuration = pathlib.Path(bed.base, "store.toml")
        configuration.write_text(f'[[store]]\npath = "{store}"\nsize = "64MB"\ndrive_writes = "1000"\n')
        bed.start(more=["--config", configuration], settings={"log.access": folder / "access.log"})
        of_store = lambda name: bed.server.metrics().get(f'freshet_store_{name}{{store="{store}"}}', -1)

        def read(name, count):
            async def one(number, gate):
                async with gate:
                    target = f"/bytes/{OBJECT_BYTES}/{name}-{number}"
                    status, _, body = await wire.fetch(bed.clear_port, target)
                    bed.exchanged()
                    bed.expect((status, body) == (200, body_of(target, OBJECT_BYTES)), f"{target} was {status}, {len(body)} bytes")

            async def all_of_them():
                gate = asyncio.Semaphore(4)
                await asyncio.gather(*(one(number, gate) for number in range(count)))
            bed.run(all_of_them())

        def wait_for(condition, seconds, words):
            deadline = time.monotonic() + seconds
            while not condition() and time.monotonic() < deadline:
                time.sleep(0.2)
            bed.expect(condition(), words)

        read("before", 40)
        wait_for(lambda: of_store("live_bytes") > 20e6, 20, f"{of_store('live_bytes')} bytes were stored while there was room")
        fill_up(folder)
        for turn in range(bed.scale(4, 1)):
            read(f"while-{turn}", 80)
            read("before", 40)
        wait_for(lambda: of_store("no_space") > 0, 10, "no write failed for want of space")
        bed.note(f"{of_store('no_space'):.0f} writes without space, healthy {of_store('healthy'):.0f}, {of_store('live_bytes') / 1e6:.0f} MB can be found")
        bed.expect(of_store("left") == 0, "the store was left for a full disk")
        # Lines are written a moment after their requests.
        lost = lambda: "the access log could not be written" in bed.server.log()
        wait_for(lost, 20, "the log says nothing of lines it could not write")
        (folder / "other").unlink()
        written = of_store("written_admitted_bytes")
        logged = (folder / "access.log").stat().st_size
        wait_for(lambda: of_store("healthy") == 1, 45, "the store is not healthy again with room")
        # What is new is written once it has been asked for again: the log is no longer new. How often before, is the store's
        # to judge by what it has seen.
        def goes_on():
            read("after", 60)
            return of_store("written_admitted_bytes") > written + 10e6

        wait_for(goes_on, 20, "nothing is written although there is room")
        wait_for(lambda: (folder / "access.log").stat().st_size > logged, 10, "no line is logged although there is room")
        bed.end_victim()
        bed.expect_memory(connections=8)

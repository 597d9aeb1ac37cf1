"""What becomes of objects' operations when their pool changes: quotas, and more PGs; one line a case, `name: result`.

    pools.py CONF POOL

POOL is to be new; it is changed.
"""
import json
import sys
import time

import rados

CONF, POOL = sys.argv[1:3]
# The module has no names for these.
FULL_TRY, FULL_FORCE = 64, 128
MEGABYTE = 1 << 20


def of(call):
    try:
        return repr(call())
    except rados.Error as error:
        return type(error).__name__ + " " + str(getattr(error, "errno", ""))


def command(c, prefix, **args):
    given = json.dumps({"prefix": prefix, "format": "json", **args})
    r, out, why = c.mon_command(given, b"")
    assert r == 0, why
    return json.loads(out) if out.strip() else None


def wait_for(c, what, wanted):
    """Waits until the pool is as wanted; the rest of the answer is what it is then."""
    began = time.monotonic()
    while time.monotonic() < began + 45:
        pool = next(p for p in command(c, "osd dump")["pools"] if p["pool_name"] == POOL)
        if wanted(pool):
            c.wait_for_latest_osdmap()
            return what
        time.sleep(0.3)
    return f"never {what}"


def is_full(pool):
    return "full_quota" in pool["flags_names"]


def write(io, name, data, flags=0):
    with rados.WriteOpCtx() as op:
        op.write_full(data)
        return io.operate_write_op(op, name, flags=flags)


def remove(io, name, flags=0):
    with rados.WriteOpCtx() as op:
        op.remove()
        return io.operate_write_op(op, name, flags=flags)


def quotas(c, io):
    command(c, "osd pool set-quota", pool=POOL, field="max_objects", val="10")
    for i in range(10):
        write(io, f"o{i}", b"x" * 100)
    yield wait_for(c, "full", is_full)
    yield of(lambda: write(io, "more", b"x", FULL_TRY))
    yield of(lambda: write(io, "o1", b"x" * 200, FULL_TRY))
    yield of(lambda: write(io, "o1", b"x" * 50, FULL_TRY))
    yield of(lambda: io.read("o1") == b"x" * 50)
    yield of(lambda: write(io, "forced", b"x", FULL_FORCE))
    # Who does not ask to try waits: as long as its patience lasts.
    hasty = rados.Rados(conffile=CONF, conf={"rados_osd_op_timeout": "3"})
    hasty.connect(timeout=30)
    with hasty.open_ioctx(POOL) as waiting:
        yield of(lambda: write(waiting, "o2", b"y" * 200))
        yield of(lambda: waiting.read("o2") == b"x" * 100)
        waiting.set_osdmap_full_try()
        yield of(lambda: write(waiting, "more", b"y"))
        yield of(lambda: remove(waiting, "forced"))
    hasty.shutdown()
    # What waits is carried out as soon as there is room.
    held = io.aio_write_full("held", b"waits")
    yield str(held.is_complete())
    for i in range(5):
        remove(io, f"o{i}", FULL_TRY)
    yield wait_for(c, "not full", lambda pool: not is_full(pool))
    held.wait_for_complete()
    yield of(lambda: (held.get_return_value(), io.read("held")))
    command(c, "osd pool set-quota", pool=POOL, field="max_objects", val="0")
    command(c, "osd pool set-quota", pool=POOL, field="max_bytes", val=str(2 * MEGABYTE))
    write(io, "large", b"z" * 3 * MEGABYTE)
    yield wait_for(c, "full", is_full)
    yield of(lambda: write(io, "more", b"x", FULL_TRY))
    yield of(lambda: write(io, "large", b"z", FULL_TRY))
    yield wait_for(c, "not full", lambda pool: not is_full(pool))
    yield of(lambda: write(io, "more", b"x"))
    command(c, "osd pool set-quota", pool=POOL, field="max_bytes", val="0")


def splits(c, io):
    io.set_namespace("listed")
    names = sorted(f"n{i}" for i in range(400))
    for done in [io.aio_write_full(name, b"") for name in names]:
        done.wait_for_complete()
    command(c, "osd pool set", pool=POOL, var="pg_autoscale_mode", val="off")
    listing = io.list_objects()
    seen = [next(listing).key for _ in range(100)]
    command(c, "osd pool set", pool=POOL, var="pg_num", val="16")
    yield wait_for(c, "split", lambda pool: pool["pg_num"] == 16)
    seen += [found.key for found in listing]
    yield str((len(seen), sorted(seen) == names))
    yield str(sorted(found.key for found in io.list_objects()) == names)
    yield of(lambda: {io.read(name) for name in names})


def main():
    cluster = rados.Rados(conffile=CONF, conf={"rados_osd_op_timeout": "40"})
    cluster.connect(timeout=30)
    for name, f in (("quotas", quotas), ("splits", splits)):
        with cluster.open_ioctx(POOL) as io:
            for i, result in enumerate(f(cluster, io)):
                print(f"{name}.{i + 1}: {result}", flush=True)
    cluster.shutdown()


main()

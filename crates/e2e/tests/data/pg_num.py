"""A pool's PGs are merged and split while it is written, read and listed; fails where anything is lost, doubled or refused.

    pg_num.py CONF POOL FEWER MORE
"""
import json
import sys
import threading
import time

import rados

CONF, POOL, FEWER, MORE = sys.argv[1:5]
STABLE = {f"s{i}": b"%d stays" % i for i in range(500)}
over = threading.Event()
wrong = []
done = {"appends": 0, "lists": 0}


def command(c, prefix, **args):
    given = json.dumps({"prefix": prefix, "format": "json", **args})
    r, out, why = c.mon_command(given, b"")
    assert r == 0, why
    return json.loads(out) if out.strip() else None


def connected():
    c = rados.Rados(conffile=CONF, conf={"rados_osd_op_timeout": "30"})
    c.connect(timeout=30)
    return c


def watched(work):
    def body():
        try:
            with connected().open_ioctx(POOL) as io:
                work(io)
        except Exception as error:
            wrong.append(f"{work.__name__}: {error!r}")
            over.set()

    return threading.Thread(target=body)


def append(io):
    """Each of some objects gets one number after the other, and has them all."""
    numbers = 0
    while not over.is_set():
        name = f"a{numbers % 40}"
        io.append(name, b"%06d" % numbers)
        numbers += 1
        if numbers % 9 == 0:
            first = (numbers - 1) % 40
            expected = b"".join(b"%06d" % n for n in range(first, numbers, 40))
            assert io.read(name, len(expected) + 10) == expected, name
    done["appends"] = numbers


def lists(io):
    """What nobody touches is in each listing, once."""
    while not over.is_set():
        seen = sorted(o.key for o in io.list_objects() if o.key.startswith("s"))
        assert seen == sorted(STABLE), (len(seen), len(set(seen)))
        done["lists"] += 1


def change(c, pg_num):
    command(c, "osd pool set", pool=POOL, var="pg_num", val=pg_num)
    began = time.monotonic()
    while time.monotonic() < began + 25 and not over.is_set():
        pool = next(p for p in command(c, "osd dump")["pools"] if p["pool_name"] == POOL)
        if pool["pg_num"] == int(pg_num) == pool["pg_placement_num"]:
            return
        time.sleep(0.2)
    wrong.append(f"{pool['pg_num']} PGs, not {pg_num}")


def main():
    c = connected()
    io = c.open_ioctx(POOL)
    for one in [io.aio_write_full(name, data) for name, data in STABLE.items()]:
        one.wait_for_complete()
        assert one.get_return_value() == 0
    threads = [watched(append), watched(lists)]
    for thread in threads:
        thread.start()
    for pg_num in (FEWER, MORE):
        change(c, pg_num)
    over.set()
    for thread in threads:
        thread.join()
    lost = [name for name, data in STABLE.items() if io.read(name) != data]
    if lost:
        wrong.append(f"lost: {lost}")
    print(json.dumps({"wrong": wrong, **done}))


main()

"""Every call of Ceph's module for Python that is about objects, and what it raises: one line a case, `name: result`.

    bindings.py CONF POOL [PREFIX]

POOL is to be new. Results say nothing that differs from run to run.
"""
import json
import sys
import threading

import rados

CONF, POOL, PREFIX = (sys.argv + [""])[1:4]
CASES = []


def case(f):
    CASES.append((f.__name__.replace("_", "-"), f))
    return f


def of(call):
    """What a call gives, or what it raises."""
    try:
        return repr(call())
    except (rados.Error, AssertionError, KeyError, ValueError, TypeError) as error:
        number = getattr(error, "errno", None)
        more = f" at {error.offset}" if isinstance(error, rados.ExtendMismatch) else ""
        return type(error).__name__ + (f" {number}" if number is not None else "") + more


def main():
    cluster = rados.Rados(conffile=CONF, conf={"rados_osd_op_timeout": "20"})
    cluster.connect(timeout=30)
    for name, f in CASES:
        if name.startswith(PREFIX):
            with cluster.open_ioctx(POOL) as io:
                for i, result in enumerate(f(cluster, io, name)):
                    print(f"{name}.{i + 1}: {result}", flush=True)
    cluster.shutdown()


@case
def cluster(c, io, o):
    yield of(lambda: sorted(c.get_cluster_stats()))
    yield of(lambda: len(c.get_fsid()))
    yield of(lambda: c.pool_exists(POOL))
    yield of(lambda: c.pool_exists("nosuch"))
    yield of(lambda: c.pool_lookup(POOL) == io.get_pool_id())
    yield of(lambda: c.pool_lookup("nosuch"))
    yield of(lambda: c.pool_reverse_lookup(io.get_pool_id()) == POOL)
    yield of(lambda: c.pool_reverse_lookup(99999))
    yield of(lambda: c.open_ioctx("nosuch"))
    yield of(lambda: c.open_ioctx2(99999))
    yield of(lambda: POOL in c.list_pools())
    yield of(lambda: c.create_pool(POOL))
    yield of(lambda: c.create_pool(POOL + "-other"))
    yield of(lambda: c.create_pool(POOL + "-other"))
    yield of(lambda: c.get_pool_base_tier(c.pool_lookup(POOL + "-other")) == c.pool_lookup(POOL + "-other"))
    allow = {"prefix": "config set", "who": "mon", "name": "mon_allow_pool_delete", "value": "true"}
    yield of(lambda: c.mon_command(json.dumps(allow), b"")[0])
    yield of(lambda: c.delete_pool(POOL + "-other"))
    yield of(lambda: c.delete_pool(POOL + "-other"))
    yield of(lambda: c.wait_for_latest_osdmap())
    yield of(lambda: c.get_instance_id() > 0)
    yield of(lambda: len(c.get_addrs()) > 0)
    yield of(lambda: c.blocklist_add("127.0.0.1:1/12345", 10))
    yield of(lambda: c.mon_command(json.dumps({"prefix": "no such command"}), b"")[0])
    yield of(lambda: json.loads(c.mon_command(json.dumps({"prefix": "osd pool get", "pool": POOL, "var": "size", "format": "json"}), b"")[1])["size"])
    yield of(lambda: c.osd_command(0, json.dumps({"prefix": "version"}), b"")[0])
    yield of(lambda: c.osd_command(99, json.dumps({"prefix": "version"}), b"")[0])


@case
def context(c, io, o):
    yield of(lambda: io.get_pool_name() == POOL)
    yield of(lambda: sorted(io.get_stats()))
    yield of(lambda: io.get_namespace())
    yield of(lambda: io.set_namespace("n"))
    yield of(lambda: io.get_namespace())
    yield of(lambda: io.set_locator_key("k"))
    yield of(lambda: io.get_locator_key())
    yield of(lambda: io.set_locator_key(""))
    yield of(lambda: io.set_namespace(rados.LIBRADOS_ALL_NSPACES))
    yield of(lambda: io.write("x", b"x"))
    yield of(lambda: io.set_namespace(""))
    yield of(lambda: io.alignment())
    other = io.dup()
    yield of(lambda: other.close())
    yield of(lambda: other.read("x"))


@case
def applications(c, io, o):
    yield of(lambda: io.application_list())
    yield of(lambda: io.application_enable("mine"))
    yield of(lambda: io.application_enable("second"))
    yield of(lambda: io.application_enable("second", True))
    yield of(lambda: c.wait_for_latest_osdmap())
    yield of(lambda: sorted(io.application_list()))
    yield of(lambda: io.application_metadata_set("mine", "k", "v"))
    yield of(lambda: io.application_metadata_set("mine", "k", "v2"))
    yield of(lambda: io.application_metadata_set("none", "k", "v"))
    yield of(lambda: c.wait_for_latest_osdmap())
    yield of(lambda: io.application_metadata_get("mine", "k"))
    yield of(lambda: io.application_metadata_get("mine", "none"))
    yield of(lambda: io.application_metadata_get("none", "k"))
    yield of(lambda: io.application_metadata_list("mine"))
    yield of(lambda: io.application_metadata_remove("mine", "k"))
    yield of(lambda: io.application_metadata_remove("mine", "k"))
    yield of(lambda: c.wait_for_latest_osdmap())
    yield of(lambda: io.application_metadata_list("mine"))


@case
def data(c, io, o):
    yield of(lambda: io.read(o))
    yield of(lambda: io.stat(o))
    yield of(lambda: io.remove_object(o))
    yield of(lambda: io.trunc(o, 5))
    yield of(lambda: io.write(o, b"hello world"))
    yield of(lambda: io.write(o, b"J", 6))
    yield of(lambda: io.read(o))
    yield of(lambda: io.read(o, 3, 6))
    yield of(lambda: io.read(o, 3, 100))
    yield of(lambda: io.append(o, b"!"))
    yield of(lambda: io.trunc(o, 4))
    yield of(lambda: io.stat(o)[0])
    yield of(lambda: io.write_full(o, b"full"))
    yield of(lambda: io.writesame(o, b"ab", 6, 1))
    yield of(lambda: io.read(o))
    yield of(lambda: io.writesame(o, b"ab", 5))
    yield of(lambda: io.cmpext(o, b"fab"))
    yield of(lambda: io.cmpext(o, b"fax"))
    yield of(lambda: io.cmpext(o, b"b", 2))
    yield of(lambda: io.cmpext(o + "-absent", b"b"))
    yield of(lambda: io.write("n" * 2049, b"x"))
    yield of(lambda: io.write(o, "text"))
    yield of(lambda: io.get_last_version() > 0)
    yield of(lambda: io.remove_object(o))
    yield of(lambda: io.remove_object(o))


@case
def xattrs(c, io, o):
    yield of(lambda: io.get_xattr(o, "a"))
    yield of(lambda: io.rm_xattr(o, "a"))
    yield of(lambda: io.set_xattr(o, "a", b"1"))
    yield of(lambda: io.set_xattr(o, "b", b"\0\1"))
    yield of(lambda: io.set_xattr(o, "c", b"v" * 5000))
    yield of(lambda: sorted((n, len(v)) for n, v in io.get_xattrs(o)))
    yield of(lambda: io.get_xattr(o, "b"))
    yield of(lambda: len(io.get_xattr(o, "c")))
    yield of(lambda: io.get_xattr(o, "none"))
    yield of(lambda: io.rm_xattr(o, "a"))
    yield of(lambda: io.rm_xattr(o, "a"))
    yield of(lambda: sorted(n for n, _ in io.get_xattrs(o)))
    yield of(lambda: list(io.get_xattrs(o + "-absent")))


@case
def objects(c, io, o):
    io.set_namespace(o)
    yield of(lambda: [x.key for x in io.list_objects()])
    for name in "abc":
        io.write(name, name.encode())
    yield of(lambda: sorted(x.key for x in io.list_objects()))
    found = sorted(io.list_objects(), key=lambda x: x.key)[0]
    yield of(lambda: found.read())
    yield of(lambda: found.write(b"xyz"))
    yield of(lambda: (found.seek(1), found.read())[1])
    yield of(lambda: found.stat()[0])
    yield of(lambda: found.set_xattr("k", b"v"))
    yield of(lambda: found.get_xattr("k"))
    yield of(lambda: [n for n, _ in found.get_xattrs()])
    yield of(lambda: found.rm_xattr("k"))
    yield of(lambda: found.remove())
    yield of(lambda: found.read())
    yield of(lambda: sorted(x.key for x in io.list_objects()))
    io.set_namespace(rados.LIBRADOS_ALL_NSPACES)
    yield of(lambda: sorted((x.nspace, x.key) for x in io.list_objects() if x.nspace == o))


def omap(io, o, write):
    with rados.WriteOpCtx() as op:
        write(op)
        io.operate_write_op(op, o)


def pairs(io, o, *which):
    with rados.ReadOpCtx() as op:
        values, _ = io.get_omap_vals(op, *which)
        io.operate_read_op(op, o)
        return list(values)


@case
def omaps(c, io, o):
    yield of(lambda: pairs(io, o, "", "", 10))
    yield of(lambda: omap(io, o, lambda op: io.set_omap(op, ("a", "b", "bb", "c"), (b"1", b"\0", b"", b"4"))))
    yield of(lambda: pairs(io, o, "", "", 10))
    yield of(lambda: pairs(io, o, "a", "", 2))
    yield of(lambda: pairs(io, o, "", "b", 10))
    yield of(lambda: pairs(io, o, "", "", 0))

    def keys(max, after=""):
        with rados.ReadOpCtx() as op:
            found, _ = io.get_omap_keys(op, after, max)
            io.operate_read_op(op, o)
            return [k for k, _ in found]

    def by_keys(*names):
        with rados.ReadOpCtx() as op:
            found, _ = io.get_omap_vals_by_keys(op, names)
            io.operate_read_op(op, o)
            return list(found)

    yield of(lambda: keys(10))
    yield of(lambda: keys(2, "a"))
    yield of(lambda: by_keys("a", "none", "bb"))
    yield of(lambda: omap(io, o, lambda op: io.remove_omap_keys(op, ("a", "none"))))
    yield of(lambda: omap(io, o, lambda op: io.remove_omap_range2(op, "b", "bb")))
    yield of(lambda: keys(10))
    yield of(lambda: omap(io, o, lambda op: op.omap_cmp("c", "4")))
    yield of(lambda: omap(io, o, lambda op: op.omap_cmp("c", "5")))
    yield of(lambda: omap(io, o, lambda op: op.omap_cmp("c", "3", rados.LIBRADOS_CMPXATTR_OP_GT)))
    yield of(lambda: omap(io, o, lambda op: io.clear_omap(op)))
    yield of(lambda: keys(10))


@case
def vectors(c, io, o):
    def run(*steps, flag=0):
        with rados.WriteOpCtx() as op:
            for name, *args in steps:
                getattr(op, name)(*args)
            return io.operate_write_op(op, o, flags=flag)

    yield of(lambda: run(("new", rados.LIBRADOS_CREATE_EXCLUSIVE)))
    yield of(lambda: run(("new", rados.LIBRADOS_CREATE_EXCLUSIVE)))
    yield of(lambda: run(("new", rados.LIBRADOS_CREATE_IDEMPOTENT)))
    yield of(lambda: run(("write_full", b"abcdef"), ("set_xattr", "a", b"1"), ("append", b"g")))
    yield of(lambda: (io.read(o), io.get_xattr(o, "a")))
    yield of(lambda: run(("write", b"X", 1), ("zero", 3, 1), ("truncate", 6), ("rm_xattr", "a")))
    yield of(lambda: (io.read(o), list(io.get_xattrs(o))))
    yield of(lambda: run(("writesame", b"yz", 4, 1)))
    version = io.get_last_version()
    yield of(lambda: run(("assert_version", version), ("write", b"!", 0)))
    yield of(lambda: run(("assert_version", version), ("write", b"?", 0)))
    yield of(lambda: run(("assert_version", version + 10), ("write", b"?", 0)))
    yield of(lambda: run(("cmpext", b"!y", 0), ("write", b"1", 0)))
    yield of(lambda: run(("cmpext", b"!y", 0), ("write", b"2", 0)))
    yield of(lambda: run(("new", rados.LIBRADOS_CREATE_EXCLUSIVE), ("set_flags", rados.LIBRADOS_OP_FLAG_FAILOK), ("write", b"3", 0)))
    yield of(lambda: io.read(o))
    yield of(lambda: run(("execute", "hello", "record_hello", b"x")))
    yield of(lambda: run(("remove",)))
    yield of(lambda: run(("remove",)))
    yield of(lambda: run(("execute", "hello", "record_hello", b"x")))
    yield of(lambda: io.read(o))

    def look(*steps, flag=0):
        with rados.ReadOpCtx() as op:
            for name, *args in steps:
                getattr(op, name)(*args)
            return io.operate_read_op(op, o, flag)

    yield of(lambda: look(("cmpext", b"Hello", 0)))
    yield of(lambda: look(("cmpext", b"Jello", 0)))
    yield of(lambda: look(("cmpext", b"Hello", 0), flag=rados.LIBRADOS_OPERATION_BALANCE_READS))
    yield of(lambda: look(("cmpext", b"Hello", 0), flag=rados.LIBRADOS_OPERATION_LOCALIZE_READS))


@case
def methods(c, io, o):
    io.write_full(o, b"")
    yield of(lambda: io.execute(o, "hello", "say_hello", b""))
    yield of(lambda: io.execute(o, "hello", "say_hello", b"x" * 101))
    yield of(lambda: io.execute(o, "hello", "nosuch", b""))
    yield of(lambda: io.execute(o, "nosuch", "nosuch", b""))
    yield of(lambda: io.execute(o + "-absent", "hello", "say_hello", b""))


@case
def locks(c, io, o):
    yield of(lambda: io.lock_exclusive(o, "l", "one", "why", 10))
    yield of(lambda: io.lock_exclusive(o, "l", "one", "why", 10))
    yield of(lambda: io.lock_exclusive(o, "l", "two", "why", 10))
    yield of(lambda: io.lock_shared(o, "l", "two", "tag"))
    yield of(lambda: io.unlock(o, "l", "two"))
    yield of(lambda: io.unlock(o, "l", "one"))
    yield of(lambda: io.lock_shared(o, "l", "one", "tag"))
    yield of(lambda: io.lock_shared(o, "l", "two", "tag"))
    yield of(lambda: io.lock_shared(o, "l", "three", "other"))
    yield of(lambda: io.lock_exclusive(o, "l", "three"))
    yield of(lambda: (io.unlock(o, "l", "one"), io.unlock(o, "l", "two")))
    yield of(lambda: io.unlock(o, "l", "two"))


@case
def snapshots(c, io, o):
    yield of(lambda: io.write_full(o, b"one"))
    yield of(lambda: io.create_snap("s"))
    yield of(lambda: io.create_snap("s"))
    yield of(lambda: c.wait_for_latest_osdmap())
    yield of(lambda: io.write_full(o, b"two"))
    yield of(lambda: [s.name for s in io.list_snaps()])
    snap = io.lookup_snap("s")
    yield of(lambda: snap.name)
    yield of(lambda: io.lookup_snap("nosuch"))
    io.set_read(snap.snap_id)
    yield of(lambda: io.read(o))
    yield of(lambda: io.write(o, b"x"))
    io.set_read(rados.LIBRADOS_SNAP_HEAD)
    yield of(lambda: io.snap_rollback(o, "s"))
    yield of(lambda: io.snap_rollback(o, "nosuch"))
    yield of(lambda: io.read(o))
    yield of(lambda: io.create_self_managed_snap())
    yield of(lambda: io.remove_snap("s"))
    yield of(lambda: io.remove_snap("s"))


def wait(completion):
    completion.wait_for_complete_and_cb()
    return completion.get_return_value()


@case
def asynchronous(c, io, o):
    said = []

    def read(*args):
        completion = io.aio_read(*args, lambda _, data: said.append(data))
        return wait(completion), said.pop()

    yield of(lambda: wait(io.aio_write(o, b"hello")))
    yield of(lambda: wait(io.aio_append(o, b" world")))
    yield of(lambda: read(o, 100, 0))
    yield of(lambda: read(o, 3, 6))
    yield of(lambda: read(o + "-absent", 3, 6))
    yield of(lambda: wait(io.aio_write_full(o, b"full")))
    yield of(lambda: wait(io.aio_writesame(o, b"ab", 6, 1)))
    yield of(lambda: wait(io.aio_cmpext(o, b"fab")))
    yield of(lambda: wait(io.aio_cmpext(o, b"fxb")))
    yield of(lambda: wait(io.aio_setxattr(o, "a", b"1")))
    yield of(lambda: io.get_xattr(o, "a"))
    yield of(lambda: wait(io.aio_rmxattr(o, "a")))
    yield of(lambda: wait(io.aio_rmxattr(o, "a")))
    sizes = []
    yield of(lambda: wait(io.aio_stat(o, lambda _, size, time: sizes.append(size))))
    yield of(lambda: sizes)
    yield of(lambda: wait(io.aio_stat(o + "-absent", lambda _, size, time: sizes.append(size))))
    yield of(lambda: sizes)
    outs = []
    yield of(lambda: wait(io.aio_execute(o, "hello", "say_hello", b"me", 100, lambda _, out: outs.append(out))))
    yield of(lambda: outs)
    yield of(lambda: wait(io.aio_execute(o, "hello", "nosuch", b"me", 100, lambda _, out: outs.append(out))))

    def vector():
        with rados.WriteOpCtx() as op:
            op.write(b"1", 0)
            op.set_xattr("v", b"2")
            return wait(io.operate_aio_write_op(op, o))

    yield of(vector)
    yield of(lambda: (io.read(o), io.get_xattr(o, "v")))
    # In order, though none waits for the one before.
    many = [io.aio_append(o + "-order", b"%02d" % i) for i in range(50)]
    yield of(lambda: {wait(one) for one in many})
    yield of(lambda: io.read(o + "-order") == b"".join(b"%02d" % i for i in range(50)))
    yield of(lambda: io.aio_flush())
    yield of(lambda: wait(io.aio_remove(o)))
    yield of(lambda: wait(io.aio_remove(o)))


@case
def watches(c, io, o):
    yield of(lambda: io.watch(o, lambda *_: None))
    yield of(lambda: io.notify(o, "x"))
    io.write_full(o, b"")
    yield of(lambda: io.notify(o, "nobody"))
    heard, gone = [], threading.Event()
    watch = io.watch(o, lambda id, notifier, watch_id, data: heard.append(data), lambda id, errno: (heard.append(errno), gone.set()))
    yield of(lambda: watch.check().total_seconds() < 60)
    yield of(lambda: io.notify(o, "hello", 5000))
    yield of(lambda: heard)
    second = io.watch(o, lambda *args: heard.append(args[3]), timeout=20)
    yield of(lambda: io.notify(o, "both"))
    yield of(lambda: heard)
    yield of(lambda: second.close())
    yield of(lambda: second.check())
    answers = []

    def told():
        done = io.aio_notify(o, lambda _, r, acks, timeouts: answers.append((r, [a[2] for a in acks], len(timeouts))), "later")
        return wait(done)

    yield of(told)
    yield of(lambda: answers)
    yield of(lambda: io.remove_object(o))
    yield of(lambda: (gone.wait(10), heard[-1]))
    yield of(lambda: watch.check())
    yield of(lambda: watch.close())


if __name__ == "__main__":
    main()

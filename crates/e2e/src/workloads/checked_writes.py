"""A workload whose every byte is known: writers, each with objects of its own, change them through librados and read them back.

    checked_writes.py CONF POOL SEED [WRITERS]

It ends as `driver.py` says: every object is compared with what was written, in every state that a snapshot keeps.
"""
import ctypes as C
import errno
import random
import sys

from driver import Worker, Wrong, drive

L = C.CDLL("librados.so.2")
for name in ("rados_create_write_op", "rados_create_read_op"):
    getattr(L, name).restype = C.c_void_p
u64, size_t, ptr = C.c_uint64, C.c_size_t, C.c_void_p
OBJECTS, LARGEST, SNAPS = 24, 384 << 10, 2
HEAD = (1 << 64) - 2


def check(what, result, wanted=0):
    if result != wanted:
        name = errno.errorcode.get(-result, "") if result < 0 else ""
        raise Wrong(f"{what}: {result} {name}, expected {wanted}")


class State:
    """What an object is: `data` is None where there is none."""

    def __init__(self, data=None, omap=None, xattr=b""):
        self.data, self.omap, self.xattr = data, omap or {}, xattr

    def but(self, **other):
        new = State(self.data, dict(self.omap), self.xattr)
        new.data = b"" if new.data is None else new.data
        for name, value in other.items():
            setattr(new, name, value)
        return new


class Writer(Worker):
    def __init__(self, cluster, pool, number, seed):
        super().__init__()
        self.io, self.rng, self.number = ptr(), random.Random(f"{seed}.{number}"), number
        check("pool", L.rados_ioctx_create(cluster, pool, C.byref(self.io)))
        self.now, self.snaps = {f"w{number}-{i}": State() for i in range(OBJECTS)}, []

    # What changes objects.

    def bytes(self):
        return self.rng.randbytes(self.rng.choice((1, 100, 4096, 5000, 20000, 65536, 200000)))

    def write(self, o, s):
        data, off = self.bytes(), self.rng.randrange(0, 150000)
        old = (s.data or b"").ljust(off, b"\0")
        check("write", L.rados_write(self.io, o.encode(), data, size_t(len(data)), u64(off)))
        return s.but(data=old[:off] + data + old[off + len(data):])

    def write_full(self, o, s):
        data = self.bytes()
        check("write_full", L.rados_write_full(self.io, o.encode(), data, size_t(len(data))))
        return s.but(data=data)

    def append(self, o, s):
        data = self.bytes()
        if len(s.data or b"") + len(data) > LARGEST:
            return self.truncate(o, s)
        check("append", L.rados_append(self.io, o.encode(), data, size_t(len(data))))
        return s.but(data=(s.data or b"") + data)

    def truncate(self, o, s):
        size = self.rng.randrange(0, 100000)
        # An object that is not there is not made by this.
        check("truncate", L.rados_trunc(self.io, o.encode(), u64(size)))
        return s if s.data is None else s.but(data=s.data[:size].ljust(size, b"\0"))

    def remove(self, o, s):
        check("remove", L.rados_remove(self.io, o.encode()), -errno.ENOENT if s.data is None else 0)
        return State()

    def create(self, o, s):
        """Carried out twice this would fail: a repeated request must be known."""
        op = ptr(L.rados_create_write_op())
        L.rados_write_op_create(op, 1, None)
        result = L.rados_write_op_operate(op, self.io, o.encode(), None, 0)
        L.rados_release_write_op(op)
        check("create", result, 0 if s.data is None else -errno.EEXIST)
        return s.but()

    def several(self, o, s):
        """Data, omap and an xattr in one operation."""
        data, omap, xattr = self.bytes(), self.pairs(), self.rng.randbytes(self.rng.randrange(1, 300))
        op = ptr(L.rados_create_write_op())
        L.rados_write_op_append(op, data, size_t(len(data)))
        self.omap_set(op, omap)
        L.rados_write_op_setxattr(op, b"x", xattr, size_t(len(xattr)))
        if s.data and len(s.data) + len(data) > LARGEST:
            L.rados_write_op_truncate(op, u64(0))
            s, data = s.but(data=b""), b""
        result = L.rados_write_op_operate(op, self.io, o.encode(), None, 0)
        L.rados_release_write_op(op)
        check("append, omap and xattr", result)
        return s.but(data=(s.data or b"") + data, omap={**s.omap, **omap}, xattr=xattr)

    def omap_remove(self, o, s):
        if s.data is None or not s.omap:
            return self.several(o, s)
        keys = self.rng.sample(sorted(s.omap), self.rng.randrange(1, len(s.omap) + 1))
        op, names = ptr(L.rados_create_write_op()), [k.encode() for k in keys]
        L.rados_write_op_omap_rm_keys(op, (C.c_char_p * len(names))(*names), size_t(len(names)))
        result = L.rados_write_op_operate(op, self.io, o.encode(), None, 0)
        L.rados_release_write_op(op)
        check("omap rm", result)
        return s.but(omap={k: v for k, v in s.omap.items() if k not in keys})

    def pairs(self):
        return {f"k{self.rng.randrange(200)}": self.rng.randbytes(self.rng.randrange(0, 200)) for _ in range(12)}

    def omap_set(self, op, omap):
        keys, values = [k.encode() for k in omap], list(omap.values())
        n = len(keys)
        L.rados_write_op_omap_set(op, (C.c_char_p * n)(*keys), (C.c_char_p * n)(*values), (size_t * n)(*map(len, values)), size_t(n))

    # Snapshots.

    def snap(self):
        """Another snapshot of all objects; of more than `SNAPS` the oldest goes."""
        new = u64()
        check("snap create", L.rados_ioctx_selfmanaged_snap_create(self.io, C.byref(new)))
        self.snaps.insert(0, (new.value, dict(self.now)))
        gone = self.snaps.pop() if len(self.snaps) > SNAPS else None
        ids = [s for s, _ in self.snaps]
        context = (u64 * len(ids))(*ids)
        check("snap context", L.rados_ioctx_selfmanaged_snap_set_write_ctx(self.io, u64(ids[0]), context, len(ids)))
        if gone:
            check("snap remove", L.rados_ioctx_selfmanaged_snap_remove(self.io, u64(gone[0])))

    # What reads them.

    def verify(self, o, s, snap=HEAD):
        L.rados_ioctx_snap_set_read(self.io, u64(snap))
        try:
            self.compare(o, s, f"{o} at {'head' if snap == HEAD else snap}")
        finally:
            L.rados_ioctx_snap_set_read(self.io, u64(HEAD))
        self.checked += 1

    def compare(self, o, s, what):
        buf = C.create_string_buffer(LARGEST + 400000)
        n = L.rados_read(self.io, o.encode(), buf, size_t(len(buf)), u64(0))
        if s.data is None:
            return check(f"read of {what}, which is not there", n, -errno.ENOENT)
        check(f"size of {what}", n, len(s.data))
        if buf.raw[:n] != s.data:
            at = next(i for i in range(n) if buf.raw[i] != s.data[i])
            raise Wrong(f"{what} differs from byte {at} of {n} on")
        n = L.rados_getxattr(self.io, o.encode(), b"x", buf, size_t(4096))
        got = b"" if n == -errno.ENODATA else buf.raw[:max(n, 0)]
        if n < 0 and n != -errno.ENODATA or got != s.xattr:
            raise Wrong(f"xattr of {what}: {n}, expected {len(s.xattr)} bytes")
        got = self.omap(o, what)
        if got != s.omap:
            keys = sorted(k for k in {**got, **s.omap} if got.get(k) != s.omap.get(k))
            raise Wrong(f"omap of {what} differs in {keys[:5]}: {len(got)} keys, expected {len(s.omap)}")

    def omap(self, o, what):
        op, it, more, rval = ptr(L.rados_create_read_op()), ptr(), C.c_ubyte(), C.c_int()
        L.rados_read_op_omap_get_vals2(op, b"", b"", u64(1000), C.byref(it), C.byref(more), C.byref(rval))
        result = L.rados_read_op_operate(op, self.io, o.encode(), 0)
        out = {}
        if result == 0 and rval.value == 0:
            key, value, n = C.c_char_p(), ptr(), size_t()
            while True:
                L.rados_omap_get_next(it, C.byref(key), C.byref(value), C.byref(n))
                if not key.value:
                    break
                out[key.value.decode()] = C.string_at(value, n.value) if n.value else b""
            L.rados_omap_get_end(it)
        L.rados_release_read_op(op)
        check(f"omap of {what}", result)
        return out

    def verify_all(self):
        for snap, objects in [(HEAD, self.now), *self.snaps]:
            for o, s in objects.items():
                self.verify(o, s, snap)

    # Its course.

    def step(self):
        kinds = (self.write, self.write_full, self.append, self.truncate, self.remove, self.create, self.several, self.omap_remove)
        o = self.rng.choice(list(self.now))
        chance = self.rng.random()
        if chance < 0.003:
            self.snap()
        elif chance < 0.2:
            states = [(HEAD, self.now), *self.snaps]
            snap, objects = self.rng.choice(states)
            self.verify(o, objects[o], snap)
        else:
            change = self.rng.choices(kinds, (25, 15, 12, 6, 6, 6, 15, 8))[0]
            self.now[o] = change(o, self.now[o])

    def __str__(self):
        return f"writer {self.number}"


def connect(conf):
    cluster = ptr()
    check("create", L.rados_create(C.byref(cluster), b"admin"))
    check("conf", L.rados_conf_read_file(cluster, conf.encode()))
    check("connect", L.rados_connect(cluster))
    return cluster


def main():
    conf, pool, seed = sys.argv[1:4]
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 6
    writers = [Writer(connect(conf), pool.encode(), n, seed) for n in range(count)]
    drive(writers)


main()

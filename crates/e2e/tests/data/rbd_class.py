"""What methods of the classes `rbd` and `journal` give: one line a case, `name: result output`.

    rbd_class.py CONF POOL [PREFIX]

POOL is to be new. Times and uuids in outputs are replaced.
"""
import errno
import re
import struct
import sys
import time
import zlib

import rados

CONF, POOL, PREFIX = (sys.argv + [""])[1:4]
CASES = []
NOSNAP = 2**64 - 2
MAX = 2**64 - 1


def case(f):
    CASES.append((f.__name__.replace("_", "-"), f))
    return f


def u8(*values):
    return bytes(values)


def u32(*values):
    return struct.pack(f"<{len(values)}I", *values)


def u64(*values):
    return struct.pack(f"<{len(values)}Q", *values)


def i64(value):
    return struct.pack("<q", value)


def text(*values):
    return b"".join(u32(len(value)) + value.encode() for value in values)


def versioned(version, compat, body):
    return u8(version, compat) + u32(len(body)) + body


def shown(data):
    """Hexadecimal, without what differs from run to run."""
    data = data or b""
    data = re.sub(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", b"u" * 36, data)
    now, at = int(time.time()), 0
    while at + 8 <= len(data):
        sec, nsec = struct.unpack_from("<II", data, at)
        if abs(sec - now) < 1000 and nsec < 10**9:
            data = data[:at] + b"t" * 8 + data[at + 8:]
        at += 1
    return data.hex()


class Object:
    def __init__(self, io, name):
        self.io, self.name = io, name

    def __call__(self, method, given=b"", cls="rbd"):
        """Calls a method."""
        try:
            ret, output = self.io.execute(self.name, cls, method, given, 1 << 20)
        except rados.Error as e:
            return f"{method} -{errno.errorcode[abs(e.errno)]}"
        return f"{method} {ret} {shown(output)}".rstrip()

    def keys(self):
        """All keys and values."""
        with rados.ReadOpCtx() as op:
            found, _ = self.io.get_omap_vals(op, "", "", 1000)
            try:
                self.io.operate_read_op(op, self.name)
            except rados.ObjectNotFound:
                return "none"
            return " ".join(f"{k}={shown(v)}" for k, v in found)

    def header(self, features=1, size=100_000_000, order=22):
        """Makes an image's header."""
        return self("create", u64(size) + u8(order) + u64(features) + text("rbd_data.1"))

    def snap(self, name, id, more=b""):
        return self("snapshot_add", text(name) + u64(id) + more)


def main():
    with rados.Rados(conffile=CONF) as cluster, cluster.open_ioctx(POOL) as io:
        for name, f in CASES:
            if name.startswith(PREFIX):
                for i, result in enumerate(f(lambda n="": Object(io, name + n))):
                    print(f"{name}.{i + 1}: {result}", flush=True)


@case
def create(new):
    o = new()
    yield o("create", u64(1))
    yield o("create", u64(1) + u8(22) + u64(1 << 20) + text("p"))
    yield o("create", u64(1) + u8(22) + u64(1) + text(""))
    yield o("create", u64(1) + u8(22) + u64(1 << 8) + text("p"))
    yield o("create", u64(1) + u8(22) + u64(1 << 7) + text("p"))
    yield o("create", u64(1) + u8(22) + u64(1) + text("p") + i64(3))
    yield o("create", u64(1) + u8(22) + u64(129) + text("p") + i64(3))
    yield o.keys()
    yield o.header()
    for method in ["get_object_prefix", "get_data_pool", "get_create_timestamp", "get_access_timestamp",
                   "get_modify_timestamp", "get_all_features", "op_features_get", "set_access_timestamp",
                   "set_modify_timestamp", "get_stripe_unit_count"]:
        yield o(method)
        yield new("-none")(method)


@case
def sizes(new):
    o = new()
    yield o("get_size", u64(NOSNAP))
    yield o("set_size", u64(5))
    yield o.keys()
    yield o.header()
    yield o("get_size", u64(NOSNAP))
    yield o("get_size", u64(3))
    yield o("get_size", b"1")
    yield o("set_size", u64(7))
    yield o.snap("s", 3)
    yield o("set_size", u64(9))
    yield o("get_size", u64(NOSNAP))
    yield o("get_size", u64(3))


@case
def features(new):
    o = new()
    yield o("set_features", u64(4, 4))
    yield o.keys()
    o = new("-header")
    yield o.header(0xc3d)
    yield o("get_features", u64(NOSNAP))
    yield o("get_features", u64(NOSNAP) + u8(1))
    yield o("get_features", u8(1))
    for new_ones, mask in [(0, 8), (0, 32), (32, 32), (0, 1), (1, 1), (2, 2), (256, 256), (0, 512), (1 << 40, 1 << 40),
                           (0xff, 0x58), (4, 4), (1024, 1024), (0, 1024), (2048, 2048), (0, 2048), (4096, 4096)]:
        yield o("set_features", u64(new_ones, mask))
        yield o("get_features", u64(NOSNAP))
    for new_ones, mask in [(5, 5), (0, 1), (0, 15), (16, 16), (15, 1)]:
        yield o("op_features_set", u64(new_ones, mask))
        yield o("op_features_get")
        yield o("get_features", u64(NOSNAP))
    yield new("-none")("op_features_set", u64(1, 1))


@case
def flags(new):
    o = new()
    yield o("get_flags", u64(NOSNAP))
    yield o.header()
    yield o("get_flags", u64(NOSNAP))
    yield o("set_flags", u64(3, 1))
    yield o("get_flags", u64(NOSNAP))
    yield o.snap("s", 1)
    yield o("set_flags", u64(2, 2, 1))
    yield o("get_flags", u64(1))
    yield o("set_flags", u64(2, 2, 5))
    yield o("get_flags", u64(5))


@case
def stripes(new):
    o = new()
    yield o.header(2)
    yield o("get_stripe_unit_count")
    for unit, count in [(3, 2), (0, 2), (2, 0), (1 << 23, 1), (65536, 4)]:
        yield o("set_stripe_unit_count", u64(unit, count))
        yield o("get_stripe_unit_count")
    yield new("-none")("set_stripe_unit_count", u64(1, 1))


def namespace(kind, body=b""):
    return versioned(1, 1, u32(kind) + body)


@case
def snapshots(new):
    o = new()
    yield o.snap("a", 1)
    yield o("get_snapcontext")
    yield o.header()
    yield o("get_snapcontext")
    yield o.snap("a", 5)
    yield o.snap("b", 4)
    yield o.snap("b", 5)
    yield o.snap("a", 6)
    yield o.snap("b", NOSNAP)
    yield o.snap("a", 7, namespace(1, i64(3) + text("g", "s")))
    yield o.snap("a", 8, namespace(1, i64(3) + text("g", "t")))
    yield o.snap("c", 9, namespace(9))
    yield o.snap("c", 9, namespace(1))
    yield o.snap("c", 9, namespace(2, text("x") + u32(0)))
    yield o.keys()
    for method in ["get_snapshot_name", "get_snapshot_timestamp", "snapshot_get", "get_protection_status"]:
        for id in [5, 7, 9, 10, NOSNAP]:
            yield o(method, u64(id))
    yield o("snapshot_rename", u64(5) + text("z"))
    yield o("snapshot_rename", u64(5) + text("z"))
    yield o("snapshot_rename", u64(6) + text("y"))
    yield o("snapshot_rename", u64(7) + text("y"))
    yield o("snapshot_rename", u64(5))
    yield o("get_snapcontext")
    yield o("snapshot_trash_add", u64(5))
    yield o("snapshot_trash_add", u64(5))
    yield o("snapshot_trash_add", u64(6))
    yield o("snapshot_get", u64(5))
    yield o("op_features_get")
    for id in [5, 9, 6, 7, 8]:
        yield o("snapshot_remove", u64(id))
        yield o("op_features_get")
    yield o.keys()


@case
def protection(new):
    o = new()
    yield o("get_protection_status", u64(1))
    yield o("set_protection_status", u64(1) + u8(0))
    yield o.header()
    yield o.snap("a", 1)
    for status in [2, 3, 1]:
        yield o("set_protection_status", u64(1) + u8(status))
        yield o("get_protection_status", u64(1))
    yield o("set_protection_status", u64(2) + u8(0))
    yield o("set_protection_status", u64(NOSNAP) + u8(0))
    yield o("snapshot_remove", u64(1))
    yield o("snapshot_trash_add", u64(1))
    yield o("set_protection_status", u64(1) + u8(0))
    yield o("snapshot_remove", u64(1))
    o = new("-flat")
    yield o.header(0)
    yield o("set_protection_status", u64(1) + u8(0))


@case
def limits(new):
    o = new()
    yield o("snapshot_get_limit")
    yield o("snapshot_set_limit", u64(MAX))
    yield o.header()
    yield o("snapshot_get_limit")
    yield o("snapshot_set_limit", u64(2))
    yield o("snapshot_get_limit")
    for id in [1, 2, 3]:
        yield o.snap(f"s{id}", id)
    yield o("snapshot_set_limit", u64(1))
    yield o("snapshot_set_limit", u64(MAX))
    yield o("snapshot_get_limit")


def parent(pool, namespace, image, snap):
    return versioned(1, 1, i64(pool) + text(namespace, image) + u64(snap))


@case
def parents(new):
    o = new()
    for method, given in [("parent_get", b""), ("parent_overlap_get", u64(NOSNAP)), ("get_parent", u64(NOSNAP)),
                          ("parent_detach", b""), ("remove_parent", b""),
                          ("parent_attach", parent(7, "", "p", 4) + u64(50))]:
        yield o(method, given)
        flat = new("-flat")
        flat.header(0)
        yield flat(method, given)
    yield o.header()
    for method in ["parent_get", "parent_detach", "remove_parent"]:
        yield o(method)
    yield o("parent_overlap_get", u64(NOSNAP))
    yield o("get_parent", u64(NOSNAP))
    yield o("parent_attach", parent(7, "", "p", 4) + u64(0))
    yield o("parent_attach", parent(-1, "", "p", 4) + u64(50))
    yield o("parent_attach", parent(7, "", "", 4) + u64(50))
    yield o("parent_attach", parent(7, "", "p", NOSNAP) + u64(50))
    yield o("parent_attach", parent(7, "", "p", 4) + u64(10**9))
    yield o("parent_overlap_get", u64(NOSNAP))
    yield o("parent_attach", parent(7, "", "p", 4) + u64(50))
    yield o("parent_attach", parent(7, "", "p", 4) + u64(50) + u8(1))
    yield o("get_parent", u64(NOSNAP))
    yield o.snap("s", 1)
    yield o.keys()
    yield o("set_size", u64(20))
    for snap in [NOSNAP, 1, 2]:
        yield o("get_parent", u64(snap))
        yield o("parent_overlap_get", u64(snap))
    yield o("op_features_set", u64(2, 2))
    yield o("parent_detach")
    for snap in [NOSNAP, 1]:
        yield o("get_parent", u64(snap))
        yield o("parent_overlap_get", u64(snap))
    yield o("parent_get")
    yield o("parent_detach")
    yield o("remove_parent")
    yield o("parent_attach", parent(7, "", "q", 4) + u64(50))
    yield o("parent_attach", parent(7, "", "p", 4) + u64(50))
    yield o("parent_detach")
    yield o("snapshot_remove", u64(1))
    yield o.keys()
    o = new("-deep")
    yield o.header(33)
    yield o("set_parent", i64(7) + text("p") + u64(4, 60))
    yield o("set_parent", i64(7) + text("p") + u64(4, 60))
    yield o.snap("s", 1)
    yield o("op_features_set", u64(2, 2))
    yield o("remove_parent")
    yield o.keys()
    o = new("-namespace")
    yield o.header()
    yield o("parent_attach", parent(7, "ns", "p", 4) + u64(50))
    yield o("get_parent", u64(NOSNAP))
    yield o("remove_parent")
    yield o("parent_detach")


@case
def children(new):
    def child(pool, image, space=""):
        return versioned(2, 1, i64(pool) + text(image, space))

    o = new()
    yield o("children_list", u64(5))
    yield o.header()
    yield o.snap("s", 5)
    yield o("children_list", u64(5))
    yield o("child_attach", u64(6) + child(1, "a"))
    for which in [child(3, "b"), child(3, "a"), child(2, "z"), child(3, "a", "ns"), child(3, "a")]:
        yield o("child_attach", u64(5) + which)
    yield o("children_list", u64(5))
    yield o("snapshot_get", u64(5))
    yield o("op_features_get")
    yield o("snapshot_remove", u64(5))
    yield o.snap("t", 6)
    yield o("child_attach", u64(6) + child(1, "a"))
    yield o("child_detach", u64(5) + child(1, "a"))
    for which in [child(3, "b"), child(3, "a"), child(2, "z")]:
        yield o("child_detach", u64(5) + which)
    yield o("snapshot_trash_add", u64(5))
    yield o("child_attach", u64(5) + child(1, "a"))
    yield o("child_detach", u64(5) + child(3, "a", "ns"))
    yield o("op_features_get")
    yield o("child_detach", u64(6) + child(1, "a"))
    yield o("op_features_get")
    yield o.keys()


@case
def old_children(new):
    o = new()
    p = u64(7) + text("p") + u64(4)
    yield o("get_children", p)
    yield o("remove_child", p + text("a"))
    for image in ["b", "a", "a"]:
        yield o("add_child", p + text(image))
    yield o("add_child", p)
    yield o("get_children", p)
    for image in ["c", "a", "b", "b"]:
        yield o("remove_child", p + text(image))
    yield o("get_children", p)


@case
def directory(new):
    o = new()
    yield o("dir_list", text("") + u64(10))
    yield o("dir_state_assert", u8(0))
    yield o("dir_state_set", u8(1))
    yield o("dir_add_image", text("a"))
    for name, id in [("a", "1"), ("a", "2"), ("b", "1"), ("b", "1-"), ("", "2"), ("b", ""), ("b", "2")]:
        yield o("dir_add_image", text(name, id))
    yield o("dir_get_id", text("a"))
    yield o("dir_get_id", text("c"))
    yield o("dir_get_name", text("2"))
    yield o("dir_get_name", text("3"))
    for names in [("a", "b", "1"), ("a", "c", "2"), ("x", "c", "1"), ("a", "", "1"), ("a", "a", "1"), ("a", "c", "1")]:
        yield o("dir_rename_image", text(*names))
    for after, most in [("", 10), ("", 0), ("", 1), ("b", 9), ("c", 9)]:
        yield o("dir_list", text(after) + u64(most))
    yield o.keys()
    yield o("dir_state_set", u8(1))
    yield o("dir_state_set", u8(2))
    yield o("dir_state_set", u8(0))
    yield o("dir_state_assert", u8(0))
    yield o("dir_state_assert", u8(1))
    for name, id in [("c", "2"), ("c", "1"), ("c", "1"), ("b", "2")]:
        yield o("dir_remove_image", text(name, id))
    yield o("dir_state_set", u8(1))
    yield o.keys()


@case
def ids(new):
    o = new()
    yield o("get_id")
    yield o("set_id", text("1"))
    o.io.write_full(o.name, b"")
    yield o("get_id")
    yield o("set_id", text("a b"))
    yield o("set_id", text(""))
    yield o("set_id", b"")
    yield o("set_id", text("1ab"))
    yield o("get_id")
    yield o("set_id", text("2"))
    o.io.write_full(o.name, u32(99))
    yield o("get_id")


@case
def metadata(new):
    def pairs(**values):
        return u32(len(values)) + b"".join(text(k, v) for k, v in values.items())

    o = new()
    yield o("metadata_remove", text("k"))
    yield o("metadata_get", text("k"))
    yield o("metadata_set", pairs(a="1", b="22", c=""))
    for name in ["a", "c", "d"]:
        yield o("metadata_get", text(name))
    for after, most in [("", 0), ("", 2), ("a", 9), ("c", 1)]:
        yield o("metadata_list", text(after) + u64(most))
    yield o("metadata_remove", text("d"))
    yield o("metadata_remove", text("b"))
    yield o.keys()


@case
def copyup(new):
    o = new()
    yield o("copyup", b"parent")
    yield o("copyup", b"again")
    yield str(o.io.read(o.name))

    def sparse(data, *ranges):
        return u32(len(ranges)) + b"".join(u64(*r) for r in ranges) + u32(len(data)) + data

    o = new("-sparse")
    yield o("sparse_copyup", sparse(b"ab", (0, 2), (9, 1)))
    yield o("sparse_copyup", sparse(b"ab", (0, 2))[:-1])
    yield o("sparse_copyup", sparse(b"abc", (1, 2), (5, 1)))
    yield o("sparse_copyup", sparse(b"x", (0, 1)))
    yield str(o.io.read(o.name))
    o = new("-empty")
    yield o("sparse_copyup", sparse(b""))
    yield str(o.io.stat(o.name)[0])
    for seq, relation in [(0, 0), (0, 1), (9, 0), (9, 1), (1, 2)]:
        yield o("assert_snapc_seq", u64(seq) + u8(relation))
        yield new("-none")("assert_snapc_seq", u64(seq) + u8(relation))


@case
def sparsify(new):
    for data, block in [(b"ab\0\0\0\0cd\0\0", 2), (b"ab\0\0\0\0cd\0\0", 100), (b"\0\0ab\0c", 3), (b"\0" * 9, 4), (b"", 4)]:
        for remove in [0, 1]:
            o = new()
            o.io.write_full(o.name, data)
            yield o("sparsify", u64(block) + u8(remove))
            try:
                yield str(o.io.read(o.name))
            except rados.ObjectNotFound:
                yield "gone"
    yield new("-none")("sparsify", u64(4) + u8(0))


@case
def object_map(new):
    def vector(*values):
        data = bytearray((len(values) + 3) // 4)
        for i, value in enumerate(values):
            data[i // 4] |= value << 2 * (3 - i % 4)
        return u32(14) + versioned(1, 1, u64(len(values))) + data + u32(0)

    o = new()
    for method in ["object_map_load", "object_map_snap_add"]:
        yield o(method)
    yield o("object_map_snap_remove", vector(1))
    yield o("object_map_update", u64(0, 1) + u8(1, 0))
    yield o("object_map_save", vector(1, 2)[:-5])
    yield o("object_map_save", vector(0, 1, 2, 3, 1))
    yield o.io.read(o.name).hex()
    yield o("object_map_load")
    for start, end, new_one, given in [(0, 4, 2, (1, 1)), (0, 2, 3, (0,)), (2, 2, 1, (0,)), (4, 6, 1, (0,)), (0, 5, 7, (0,)),
                                       (0, 5, 1, (1, 3))]:
        yield o("object_map_update", u64(start, end) + u8(new_one, *given))
        yield o("object_map_load")
    yield o("object_map_update", u64(0, 1) + u8(1))
    yield o("object_map_snap_add")
    yield o("object_map_load")
    yield o("object_map_snap_remove", vector(1, 3, 1))
    yield o("object_map_load")
    for objects, state in [(9, 2), (3, 0), (5, 2), (256_000_001, 0), (3, 3), (0, 3)]:
        yield o("object_map_resize", u64(objects) + u8(state))
        yield o("object_map_load")
        yield o.io.read(o.name).hex()
    o = new("-large")
    yield o("object_map_resize", u64(70_000) + u8(0))
    for start, end in [(0, 1), (16_383, 16_385), (69_999, 70_000)]:
        yield o("object_map_update", u64(start, end) + u8(1, 1, 0))
        yield str(zlib.crc32(o.io.read(o.name, 1 << 20)))
    o.io.write(o.name, b"\x55", 20)
    yield o("object_map_update", u64(0, 1) + u8(1, 1, 0))
    yield o("object_map_load")
    yield o("object_map_update", u64(30_000, 30_001) + u8(1, 1, 0))


@case
def trash(new):
    def image(state=0, source=0):
        return versioned(2, 1, u8(source) + text("name") + u32(1, 0, 2, 0) + u8(state))

    o = new()
    yield o("trash_list", text("") + u64(9))
    yield o("trash_remove", text("1"))
    yield o("trash_add", text("1"))
    for id in ["1", "1", "", "a-", "2"]:
        yield o("trash_add", text(id) + image())
    yield o("trash_get", text("1"))
    yield o("trash_get", text("3"))
    for id, state, expected in [("1", 2, 0), ("1", 2, 0), ("1", 3, 1), ("3", 1, 0)]:
        yield o("trash_state_set", text(id) + u8(state, expected))
    for after, most in [("", 9), ("", 1), ("1", 9), ("2", 1)]:
        yield o("trash_list", text(after) + u64(most))
    yield o("trash_remove", text("1"))
    yield o("trash_remove", text("1"))
    yield o.keys()


@case
def namespaces(new):
    o = new()
    yield o("namespace_list", text("") + u64(9))
    yield o("namespace_remove", text("a"))
    for name in ["b", "a", "a"]:
        yield o("namespace_add", text(name))
    for after, most in [("", 9), ("", 1), ("a", 9), ("b", 1)]:
        yield o("namespace_list", text(after) + u64(most))
    yield o("namespace_remove", text("b"))
    yield o("namespace_remove", text("b"))
    yield o.keys()


@case
def groups(new):
    def spec(pool, id):
        return versioned(1, 1, text(id) + i64(pool))

    def status(pool, id, state):
        return versioned(1, 1, spec(pool, id) + u8(state))

    def group(pool, id):
        return versioned(1, 1, i64(pool) + text(id))

    o = new("-directory")
    yield o("group_dir_list", text("") + u64(9))
    for name, id in [("a", "1"), ("a", "2"), ("b", "1"), ("", "3")]:
        yield o("group_dir_add", text(name, id))
    yield o("group_dir_rename", text("a", "c", "1"))
    yield o("group_dir_rename", text("a", "c", "1"))
    yield o("group_dir_list", text("") + u64(9))
    yield o("group_dir_remove", text("c", "2"))
    yield o("group_dir_remove", text("c", "1"))
    o = new("-group")
    yield o("group_image_list", spec(-1, "") + u64(9))
    yield o("group_image_remove", spec(2, "y"))
    for pool, id, state in [(10, "x", 1), (2, "y", 0), (2, "y", 1)]:
        yield o("group_image_set", status(pool, id, state))
    yield o.keys()
    for after, most in [(spec(-1, ""), 9), (spec(-1, ""), 1), (spec(2, "y"), 9), (spec(10, "x"), 9)]:
        yield o("group_image_list", after + u64(most))
    yield o("group_image_remove", spec(2, "y"))
    o = new("-image")
    yield o("image_group_get")
    yield o.header()
    yield o("image_group_get")
    yield o("image_group_remove", group(4, "g"))
    yield o("image_group_add", group(4, "g"))
    yield o("image_group_add", group(4, "g"))
    yield o("image_group_add", group(5, "g"))
    yield o("image_group_get")
    yield o("op_features_get")
    yield o("image_group_remove", group(5, "g"))
    yield o("image_group_remove", group(4, "g"))
    yield o("op_features_get")


@case
def group_snaps(new):
    def image(id):
        return versioned(1, 1, i64(2) + text("i") + u64(id))

    def snap(id, name, state):
        return versioned(1, 1, text(id, name) + u8(state) + u32(2) + image(1) + image(2))

    o = new()
    yield o("group_snap_list", snap("", "", 0) + u64(9))
    yield o("group_snap_remove", text("a"))
    for id, name, state in [("a", "first", 0), ("z", "second", 0), ("z", "second", 0), ("b", "first", 0), ("a", "first", 1)]:
        yield o("group_snap_set", snap(id, name, state))
    yield o("group_snap_get_by_id", text("a"))
    yield o("group_snap_get_by_id", text("b"))
    for after, most in [("", 9), ("", 1), ("a", 9), ("z", 9)]:
        yield o("group_snap_list", snap(after, "", 0) + u64(most))
    yield o("group_snap_remove", text("a"))
    yield o("group_snap_remove", text("a"))
    yield o("group_snap_list", snap("", "", 0) + u64(9))


@case
def migration(new):
    def spec(end, state=0, source=""):
        body = u8(end) + i64(7) + text("ns", "image", "id") + u32(1) + u64(1, 2, 100) + u8(1, 0, state)
        return versioned(3, 3 if source else 1, body + text("why") + u8(0) + text(source))

    o = new()
    yield o("migration_get")
    yield o("migration_set", spec(1))
    yield o("migration_remove")
    yield o.header()
    yield o("migration_get")
    yield o("migration_set_state", u8(1) + text("x"))
    yield o("migration_set", spec(1))
    yield o("migration_set", spec(1))
    yield o("migration_get")
    yield o("get_features", u64(NOSNAP))
    yield o("migration_set_state", u8(4) + text("xyz"))
    yield o("migration_get")
    yield o("migration_remove")
    yield o("migration_remove")
    yield o("get_features", u64(NOSNAP))
    yield o("migration_set", spec(2, source="{}"))
    yield o("migration_get")
    o = new("-destination")
    yield o.header(513)
    yield o("migration_set", spec(1))
    yield o("migration_set", spec(2))
    o = new("-old")
    o.io.write_full(o.name, b"<<< Rados Block Device Image >>>\n".ljust(112, b"\0"))
    yield o("migration_get")
    yield o("migration_remove")
    yield o("migration_set", spec(2))
    yield o("migration_set", spec(1))
    yield o("migration_set", spec(1))
    yield o("migration_get")
    yield str(o.io.read(o.name, 40))
    yield o("migration_remove")
    yield str(o.io.read(o.name, 40))


@case
def old_format(new):
    o = new()
    yield o("snap_list")
    o.io.write_full(o.name, b"<<< Rados Block Device Image >>>\n".ljust(80, b"\0") + u64(4096) + bytes(24))
    yield o("snap_list")
    for name, id in [("a", 3), ("bc", 5), ("a", 6), ("d", 4)]:
        yield o("snap_add", text(name) + u64(id))
    yield o("snap_list")
    yield o("snapshot_set_limit", u64(1))
    yield o("snapshot_set_limit", u64(2))
    yield o("snap_add", text("e") + u64(7))
    for id, name in [(3, "x"), (3, "bc"), (4, "y")]:
        yield o("snap_rename", u64(id) + text(name))
    yield str(o.io.read(o.name))
    for name in ["bc", "a", "x"]:
        yield o("snap_remove", text(name))
    yield str(o.io.read(o.name))


@case
def mirroring(new):
    def peer(uuid, site, client, direction=0, mirror=""):
        return versioned(2, 1, text(uuid, site, client) + i64(-1) + u8(direction) + text(mirror) + u32(0, 0))

    o = new()
    for method in ["mirror_uuid_get", "mirror_mode_get", "mirror_peer_list"]:
        yield o(method)
    yield o("mirror_mode_set", u32(1))
    yield o("mirror_uuid_set", text(""))
    yield o("mirror_uuid_set", text("pool"))
    yield o("mirror_uuid_get")
    yield o("mirror_peer_add", peer("u", "s", "c"))
    yield o("mirror_mode_set", u32(9))
    yield o("mirror_mode_set", u32(1))
    yield o("mirror_mode_get")
    yield o("mirror_uuid_set", text("other"))
    for which in [peer("", "s", "c"), peer("u", "", "c"), peer("u", "s", ""), peer("pool", "s", "c"),
                  peer("u", "s", "c", 1), peer("u", "s", "c", 5), peer("u", "s", "c", 2, "m"), peer("u", "t", "c"),
                  peer("v", "s", "c"), peer("v", "t", "c", 0, "m"), peer("v", "t", "c")]:
        yield o("mirror_peer_add", which)
    yield o("mirror_peer_list")
    yield o("mirror_mode_set", u32(0))
    yield o("mirror_peer_set_client", text("v", "d"))
    yield o("mirror_peer_set_client", text("w", "d"))
    yield o("mirror_peer_set_cluster", text("v", "s"))
    yield o("mirror_peer_set_cluster", text("w", "x"))
    yield o("mirror_peer_set_cluster", text("v", "x"))
    yield o("mirror_peer_set_direction", text("v") + u8(2))
    for site, mirror, direction in [("x", "n", 0), ("", "n", 1), ("x", "", 1), ("x", "n", 1), ("y", "n", 1), ("x", "n", 1),
                                    ("s", "n", 1)]:
        yield o("mirror_peer_ping", text(site, mirror) + u8(direction))
    yield o("mirror_peer_list")
    yield o("mirror_peer_ping", text("new", "k") + u8(1))
    for uuid in ["u", "v", "w"]:
        yield o("mirror_peer_remove", text(uuid))
    yield o("mirror_peer_list")


@case
def mirrored_images(new):
    def image(id, state, mode=0):
        return versioned(2, 1, text(id) + u8(state, mode))

    def report(state, mirror=""):
        body = u8(state) + text("why") + u32(0, 0) + u8(1)
        return versioned(2, 2, text(mirror) + body) if mirror else versioned(1, 1, body)

    o = new()
    yield o("mirror_image_get", text("a"))
    yield o("mirror_image_list", text("") + u64(9))
    yield o("mirror_image_set", text("a") + image("A", 0))
    for id, what in [("a", image("A", 1)), ("a", image("B", 1)), ("b", image("A", 1)), ("b", image("B", 2, 1)), ("c", image("C", 1))]:
        yield o("mirror_image_set", text(id) + what)
    yield o("mirror_image_get", text("b"))
    yield o("mirror_image_get_image_id", text("B"))
    yield o("mirror_image_get_image_id", text("D"))
    for after, most in [("", 9), ("", 1), ("b", 9)]:
        yield o("mirror_image_list", text(after) + u64(most))
    yield o("mirror_image_status_get", text("A"))
    for id, what in [("A", report(4)), ("A", report(6, "m")), ("B", report(4)), ("D", report(4)), ("C", report(1, "m"))]:
        yield o("mirror_image_status_set", text(id) + what)
    for id in ["A", "B", "C", "D"]:
        yield o("mirror_image_status_get", text(id))
        yield o("mirror_image_instance_get", text(id))
    yield o("mirror_image_status_list", text("") + u64(9))
    yield o("mirror_image_status_list", text("a") + u64(1))
    yield o("mirror_image_instance_list", text("") + u64(9))
    yield o("mirror_image_status_get_summary")
    for direction in [0, 1, 2]:
        given = u32(1) + versioned(2, 1, text("u", "s", "c") + i64(-1) + u8(direction) + text("m") + u32(0, 0))
        yield o("mirror_image_status_get_summary", given)
    yield o("mirror_image_remove", text("a"))
    yield o("mirror_image_set", text("a") + image("A", 0))
    yield o("mirror_image_remove", text("a"))
    yield o("mirror_image_remove", text("a"))
    yield o("mirror_image_status_remove", text("A"))
    yield o("mirror_image_status_remove_down")
    yield o.keys()


@case
def mirroring_daemons(new):
    o = new()
    yield o("mirror_instances_list")
    yield o("mirror_instances_remove", text("1"))
    yield o("mirror_image_map_remove", text("A"))
    yield o("mirror_instances_add", text("1"))
    yield o("mirror_instances_list")
    yield o("mirror_instances_remove", text("1"))
    yield o("mirror_image_map_update", text("A") + versioned(1, 1, text("1") + u32(5, 0) + text("data")))
    yield o("mirror_image_map_list", text("") + u64(9))
    yield o("mirror_image_map_list", text("A") + u64(9))
    yield o("mirror_image_map_remove", text("A"))
    yield o.keys()


@case
def mirrored_snapshots(new):
    def body(state, *peers):
        return (u8(state, 0) + u32(len(peers)) + text(*peers) + text("pool") + u64(3, 0) + u32(1) + u64(1, 2))

    o = new()
    yield o.header()
    yield o.snap("user", 1)
    yield o.snap("primary", 2, namespace(3, body(0, "m", "n")))
    yield o.snap("copy", 3, namespace(3, body(2, "m")))
    for id, peer in [(1, "m"), (2, "x"), (2, "m"), (9, "m")]:
        yield o("mirror_image_snapshot_unlink_peer", u64(id) + text(peer))
    for id in [1, 2, 3, 9]:
        yield o("mirror_image_snapshot_set_copy_progress", u64(id) + u8(1) + u64(77))
    for id in [2, 3]:
        yield o("snapshot_get", u64(id))


def journal_of(o):
    def call(method, *given):
        return o(method, b"".join(given), cls="journal")
    return call


def positions(*of):
    each = b"".join(versioned(1, 1, u64(*position)) for position in of)
    return versioned(1, 1, u32(len(of)) + each)


@case
def journal_sets(new):
    o = new()
    j = journal_of(o)
    getters = ["get_order", "get_splay_width", "get_pool_id", "get_minimum_set", "get_active_set", "get_next_tag_tid"]
    for method in getters:
        yield j(method)
    yield j("set_active_set", u64(1))
    yield j("set_minimum_set", u64(1))
    yield j("create", u8(12))
    yield j("create", u8(12, 4), i64(7))
    yield j("create", u8(12, 4), i64(7))
    for method in getters:
        yield j(method)
    for method, number in [("set_minimum_set", 1), ("set_active_set", 5), ("set_active_set", 5), ("set_active_set", 4),
                           ("set_minimum_set", 3), ("set_minimum_set", 3), ("set_minimum_set", 2), ("set_minimum_set", 6),
                           ("set_active_set", 2)]:
        yield j(method, u64(number))
    yield o.keys()


@case
def journal_clients(new):
    o = new()
    j = journal_of(o)
    yield j("client_register", text("a", "data"))
    yield j("create", u8(12, 2), i64(7))
    for id in ["b", "a", "a", ""]:
        yield j("client_register", text(id, "data"))
    yield j("get_client", text("a"))
    yield j("get_client", text("c"))
    yield j("client_commit", text("a"), positions((1, 2, 3), (0, 2, 2), (5, 1, 1)))
    yield j("client_commit", text("c"), positions((1, 2, 3)))
    yield j("client_commit", text("a"), positions((1, 2, 3), (0, 2, 2)))
    yield j("client_register", text("c", ""))
    yield j("client_commit", text("b"), positions((3, 2, 9), (2, 2, 8)))
    yield j("client_commit", text("c"), positions((3, 3, 0)))
    yield j("client_register", text("d", ""))
    yield j("client_update_data", text("d", "new"))
    yield j("client_update_data", text("e", "new"))
    yield j("client_update_state", text("d"), u8(1))
    yield j("client_update_state", text("e"), u8(1))
    for after, most in [("", 9), ("", 2), ("b", 9), ("d", 9)]:
        yield j("client_list", text(after), u64(most))
    yield j("client_unregister", text("e"))
    yield j("client_unregister", text("d"))
    yield j("client_unregister", text(""))
    yield o.keys()


@case
def journal_tags(new):
    o = new()
    j = journal_of(o)
    yield j("tag_create", u64(0, MAX), text(""))
    yield j("create", u8(12, 2), i64(7))
    yield j("client_register", text("a", ""))
    yield j("client_register", text("b", ""))
    yield j("tag_create", u64(1, MAX), text("x"))
    yield j("tag_create", u64(0, 0), text("x"))
    yield j("tag_create", u64(0, MAX), text("x"))
    yield j("tag_create", u64(0, MAX), text("x"))
    for id, kind in [(1, 0), (2, MAX), (3, 1), (4, 0), (5, 2), (5, 1)]:
        yield j("tag_create", u64(id, kind), text(f"t{id}"))
    yield j("get_tag", u64(3))
    yield j("get_tag", u64(9))
    yield j("get_next_tag_tid")

    def listed():
        for client, after, most, kind in [("a", 0, 9, None), ("a", 2, 9, None), ("a", 0, 2, None), ("a", 0, 9, 1), ("b", 0, 9, None),
                                          ("x", 0, 9, None)]:
            yield j("tag_list", u64(after, most), text(client), u8(0) if kind is None else u8(1) + u64(kind))

    yield from listed()
    yield j("client_commit", text("a"), positions((1, 4, 3)))
    yield from listed()
    yield j("tag_create", u64(6, 0), text(""))
    yield o.keys()
    yield j("client_commit", text("b"), positions((1, 3, 3)))
    yield j("tag_create", u64(7, 0), text(""))
    yield o.keys()
    yield from listed()
    yield j("client_unregister", text("b"))
    yield o.keys()
    yield j("client_register", text("c", ""))
    yield j("client_commit", text("c"), positions())
    yield j("client_update_state", text("c"), u8(1))
    yield j("client_commit", text("a"), positions((1, 7, 3)))
    yield j("tag_create", u64(8, 1), text(""))
    yield o.keys()


@case
def journal_appends(new):
    o = new()
    j = journal_of(o)
    yield j("guard_append", u64(5))
    yield j("guard_append", b"")
    yield j("append", u64(5))
    for size, data in [(20, "abc"), (20, ""), (20, "12345678"), (20, "x"), (20, "y"), (24, "z"), (25, "z")]:
        yield j("append", u64(size), text(data))
        yield str(o.io.read(o.name))
        yield j("guard_append", u64(size))
    yield new("-full")("append", u64(0) + text("x"), cls="journal")
    yield new("-full")("guard_append", u64(0), cls="journal")


if __name__ == "__main__":
    main()

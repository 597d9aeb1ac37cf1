"""Snapshots through librados: says what a cluster answers, in lines that are the same for Ceph and for Nacre.

Run as: python3 snapshots.py CEPH.CONF POOL-OF-CLIENTS'-SNAPSHOTS POOL-OF-ITS-OWN-SNAPSHOTS
"""

import subprocess
import sys
import time

import rados

import said

CONF, MANAGED, POOLED = sys.argv[1:4]
cluster = rados.Rados(conffile=CONF)
cluster.connect(timeout=30)


def say(what, call):
    try:
        answer = call()
    except rados.Error as error:
        answer = type(error).__name__ + " " + str(getattr(error, "errno", ""))
    if isinstance(answer, bytes):
        answer = answer.decode() if len(answer) < 60 else f"{len(answer)} bytes, {answer[:4]}..{answer[-4:]}"
    print(f"{what}: {answer}", flush=True)


def tool(*args):
    """A line of the `rados` tool, and what it prints."""
    ran = subprocess.run(["rados", "-c", CONF, *args], capture_output=True, text=True, timeout=60)
    print(f"$ rados {' '.join(args)} = {ran.returncode}", flush=True)
    for line in said.lines(ran.stdout + ran.stderr):
        # Times differ.
        if "lssnap" in args:
            line = "\t".join(line.split("\t")[:2])
        print("  " + line.rstrip(), flush=True)


def managed():
    """Snapshots that the client manages, as librbd and CephFS do."""
    io = cluster.open_ioctx(MANAGED)
    at = lambda snap, name="a", n=100: (io.set_read(snap), io.read(name, n), io.set_read(rados.LIBRADOS_SNAP_HEAD))[1]

    def read(what, snap, name="a"):
        say(f"{what} at {snap if snap < 1 << 60 else 'head'}", lambda: at(snap, name))
        io.set_read(rados.LIBRADOS_SNAP_HEAD)

    snaps = []

    def take():
        snaps.insert(0, io.create_self_managed_snap())
        io.set_self_managed_snap_write(snaps)
        print(f"took {snaps[0]}", flush=True)

    head = rados.LIBRADOS_SNAP_HEAD
    io.write_full("a", b"one one one one one ")
    io.set_xattr("a", "x", b"1")
    take()
    tool("-p", MANAGED, "listsnaps", "a")
    read("unchanged", snaps[0])
    io.write("a", b"TWO", 4)
    io.set_xattr("a", "x", b"2")
    with rados.WriteOpCtx() as op:
        io.set_omap(op, ("k",), (b"v",))
        io.operate_write_op(op, "a")
    read("written", snaps[0])
    read("written", head)
    tool("-p", MANAGED, "listsnaps", "a")
    take()
    take()
    io.write("a", b"THREE", 9)
    io.trunc("a", 16)
    io.write("b", b"new", 0)
    tool("-p", MANAGED, "listsnaps", "a")
    tool("-p", MANAGED, "listsnaps", "b")
    for snap in snaps:
        read("a", snap)
        read("b", snap, "b")
    io.set_read(snaps[1])
    say("xattr", lambda: io.get_xattr("a", "x"))
    say("size", lambda: io.stat("a")[0])
    say("write to a snapshot", lambda: io.write("a", b"x", 0))
    io.set_read(head)
    # Deleted, it is there for its snapshots only.
    say("delete", lambda: io.remove_object("a"))
    say("delete again", lambda: io.remove_object("a"))
    say("stat", lambda: io.stat("a"))
    print("listed:", sorted(o.key for o in io.list_objects()), flush=True)
    tool("-p", MANAGED, "listsnaps", "a")
    for snap in snaps:
        read("deleted", snap)
    # Rolling back.
    io.rollback_self_managed_snap("a", snaps[2])
    read("rolled back", head)
    say("xattr", lambda: io.get_xattr("a", "x"))
    tool("-p", MANAGED, "listsnaps", "a")
    take()
    io.write("a", b"4", 0)
    tool("-p", MANAGED, "listsnaps", "a")
    io.rollback_self_managed_snap("a", snaps[1])
    read("rolled back", head)
    tool("-p", MANAGED, "listsnaps", "a")
    io.rollback_self_managed_snap("b", snaps[3])
    read("was not there", head, "b")
    say("rollback of nothing", lambda: io.rollback_self_managed_snap("never", snaps[0]))
    # Older contexts.
    io.set_self_managed_snap_write(snaps[2:])
    io.write("a", b"old", 0)
    tool("-p", MANAGED, "listsnaps", "a")
    say("bad context", lambda: io.set_self_managed_snap_write([0]))
    io.set_self_managed_snap_write(snaps)
    # Removed ones are trimmed.
    for snap in list(snaps):
        say(f"remove {snap}", lambda: io.remove_self_managed_snap(snap))
    say("remove again", lambda: io.remove_self_managed_snap(snaps[-1]))
    say("remove what never was", lambda: io.remove_self_managed_snap(1000))
    gone = False
    for _ in range(120):
        left = subprocess.run(["rados", "-c", CONF, "-p", MANAGED, "listsnaps", "a"], capture_output=True, text=True)
        gone = all("head" in line or line.endswith(":") or "cloneid" in line for line in left.stdout.splitlines())
        if gone:
            break
        time.sleep(0.5)
    print("clones are gone:", gone, flush=True)
    tool("-p", MANAGED, "listsnaps", "a")
    snaps.clear()
    take()
    print("listed:", sorted(o.key for o in io.list_objects()), flush=True)
    say("pool snapshot", lambda: io.create_snap("mixed"))


def pooled():
    """Snapshots of the pool as a whole."""
    io = cluster.open_ioctx(POOLED)
    io.write_full("o", b"first")
    tool("-p", POOLED, "mksnap", "s1")
    tool("-p", POOLED, "mksnap", "s1")
    cluster.wait_for_latest_osdmap()
    say("looked up", lambda: io.lookup_snap("s1").snap_id)
    cluster.wait_for_latest_osdmap()
    io.write_full("o", b"second")
    io.write_full("new", b"new")
    tool("-p", POOLED, "mksnap", "s2")
    # An OSD knows of the pool's snapshots what its map says, and has at least the client's.
    cluster.wait_for_latest_osdmap()
    io.remove_object("o")
    tool("-p", POOLED, "lssnap")
    tool("-p", POOLED, "-s", "s1", "get", "o", "-")
    tool("-p", POOLED, "-s", "s2", "get", "o", "-")
    tool("-p", POOLED, "get", "o", "-")
    tool("-p", POOLED, "-s", "s1", "get", "new", "-")
    tool("-p", POOLED, "listsnaps", "o")
    tool("-p", POOLED, "rollback", "o", "s1")
    tool("-p", POOLED, "get", "o", "-")
    cluster.wait_for_latest_osdmap()
    say("by name", lambda: io.snap_rollback("o", "s2"))
    tool("-p", POOLED, "get", "o", "-")
    tool("-p", POOLED, "rmsnap", "s1")
    tool("-p", POOLED, "rmsnap", "s1")
    tool("-p", POOLED, "lssnap")
    tool("-p", POOLED, "-s", "s1", "get", "o", "-")
    say("client's snapshot", lambda: io.create_self_managed_snap())
    tool("-p", POOLED, "mksnap", "s3")
    tool("-p", POOLED, "lssnap")


managed()
pooled()
cluster.shutdown()

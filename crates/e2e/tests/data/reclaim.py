"""A client of libcephfs that is killed, or comes after one that was, as NFS-Ganesha does (python3-cephfs has no
calls for that).

Run as: python3 reclaim.py CEPH.CONF WHAT UUID, where WHAT is
  hold     takes the uuid and a lock, leaves what it has written unsaved, and waits to be killed
  reclaim  ends the session that has the uuid, takes the uuid, the lock, and writes
  later    the same, but it has a session of its own before, and waits for a line
  rival    takes the uuid without asking
  try      asks for the lock without a uuid, and reads
It says in one line of JSON what the calls returned, and how long they took.
"""

import ctypes
import errno
import fcntl
import json
import os
import sys
import time

RESET = 1
OWNER = ctypes.c_uint64(7)
TEXT = {"hold": b"unsaved", "reclaim": b"NEW", "later": b"NEW"}

lib = ctypes.CDLL("libcephfs.so.2")
lib.ceph_write.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64]
lib.ceph_read.argtypes = lib.ceph_write.argtypes
lib.ceph_release.argtypes = lib.ceph_unmount.argtypes = lib.ceph_init.argtypes = [ctypes.c_void_p]
lib.ceph_set_uuid.restype = lib.ceph_finish_reclaim.restype = None


def must(code, what):
    if code < 0:
        raise OSError(-code, f"{what}: {os.strerror(-code)}")
    return code


def named(code):
    return errno.errorcode[-code] if code < 0 else code


def main():
    conf, what, uuid = sys.argv[1].encode(), sys.argv[2], sys.argv[3].encode()
    said, began = {}, time.monotonic()
    files = ctypes.c_void_p()
    must(lib.ceph_create(ctypes.byref(files), None), "create")
    must(lib.ceph_conf_read_file(files, conf), "configuration")
    must(lib.ceph_init(files), "init")
    if what == "later":
        lib.ceph_start_reclaim(files, b"nobody's", RESET)
        lib.ceph_finish_reclaim(files)
        print("ready", flush=True)
        sys.stdin.readline()
    if what in TEXT:
        said["reclaimed"] = named(lib.ceph_start_reclaim(files, uuid, RESET))
        lib.ceph_finish_reclaim(files)
    if what != "try":
        lib.ceph_set_uuid(files, uuid)
    said["mounted"] = named(lib.ceph_mount(files, b"/"))
    if said["mounted"] == 0:
        fd = must(lib.ceph_open(files, b"/f", os.O_CREAT | os.O_RDWR, 0o644), "open")
        wait = fcntl.LOCK_NB if what == "try" else 0
        said["locked"] = named(lib.ceph_flock(files, fd, fcntl.LOCK_EX | wait, OWNER))
        text = TEXT.get(what)
        if text:
            must(lib.ceph_write(files, fd, text, len(text), 0), "write")
        if said["locked"] == 0 and what == "try":
            content = ctypes.create_string_buffer(100)
            must(lib.ceph_read(files, fd, content, 100, 0), "read")
            said["content"] = content.value.decode()
    said["seconds"] = time.monotonic() - began
    print(json.dumps(said), flush=True)
    if what == "hold":
        sys.stdin.read()
    if said["mounted"] == 0:
        must(lib.ceph_unmount(files), "unmount")
    must(lib.ceph_release(files), "release")


if __name__ == "__main__":
    main()

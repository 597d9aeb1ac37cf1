"""Locks files as it is told on its input, and prints the outcome of each call: `ok` or the name of the error.

Each line: CALL FILE [KIND [FIRST LENGTH]] [wait], where CALL is one of fcntl,
flock, test, read, write, close; or alarm SECONDS. Of `test` the outcome is the
lock in the way, as KIND FIRST LENGTH, or `un`.
"""
import errno
import fcntl
import os
import signal
import struct
import sys

KINDS = {
    "fcntl": {"sh": fcntl.F_RDLCK, "ex": fcntl.F_WRLCK, "un": fcntl.F_UNLCK},
    "flock": {"sh": fcntl.LOCK_SH, "ex": fcntl.LOCK_EX, "un": fcntl.LOCK_UN},
}
files = {}


def call(what, *args):
    if what == "alarm":
        signal.setitimer(signal.ITIMER_REAL, float(args[0]))
        return
    path, rest = args[0], args[1:]
    if path not in files:
        files[path] = os.open(path, os.O_RDWR)
    fd = files[path]
    if what == "read":
        os.pread(fd, 1, 0)
    elif what == "write":
        os.pwrite(fd, b"x", 0)
    elif what == "close":
        os.close(files.pop(path))
    elif what == "flock":
        fcntl.flock(fd, KINDS[what][rest[0]] | (0 if "wait" in rest else fcntl.LOCK_NB))
    elif what == "test":
        lock = struct.pack("hhqqi4x", KINDS["fcntl"][rest[0]], os.SEEK_SET, int(rest[1]), int(rest[2]), 0)
        kind, _, first, length, _ = struct.unpack("hhqqi4x", fcntl.fcntl(fd, fcntl.F_GETLK, lock))
        name = next(name for name, value in KINDS["fcntl"].items() if value == kind)
        return name if name == "un" else f"{name} {first} {length}"
    else:
        kind, first, length = KINDS[what][rest[0]], int(rest[1]), int(rest[2])
        lock = struct.pack("hhqqi4x", kind, os.SEEK_SET, first, length, 0)
        fcntl.fcntl(fd, fcntl.F_SETLKW if "wait" in rest else fcntl.F_SETLK, lock)


def interrupted(*_):
    raise InterruptedError(errno.EINTR, "interrupted")


signal.signal(signal.SIGALRM, interrupted)
print("ready", flush=True)
for line in sys.stdin:
    try:
        print(call(*line.split()) or "ok", flush=True)
    except OSError as e:
        # Python prefers the other name of this one.
        print("EDEADLK" if e.errno == errno.EDEADLK else errno.errorcode[e.errno], flush=True)

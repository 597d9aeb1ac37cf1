"""What the `rados` command says and how it exits: one line a case, `name: exit status output`.

    tool.py CONF POOL [PREFIX]

POOL is to be new. What differs from run to run (times, numbers of clients, addresses) is replaced.
"""
import os
import re
import subprocess
import sys
import tempfile

import said

CONF, POOL, PREFIX = (sys.argv + [""])[1:4]
CASES = []
HERE = tempfile.mkdtemp()


def case(f):
    CASES.append((f.__name__.replace("_", "-"), f))
    return f


# What a client logs that ends, or has found a monitor, while its connection to another one is authenticated.
HUNTING = re.compile(rb"\S+ [0-9a-f]+ -1 monclient: handle_auth_reply_more no authorizer\?\n")


def rados(*args, given=b"", pool=POOL, order=False, errors=True):
    """Runs it. With `order` the lines may come in any."""
    command = ["rados", "-c", CONF, *(["-p", pool] if pool else []), *args]
    ran = subprocess.run(command, input=given, capture_output=True, timeout=50, cwd=HERE)
    text = ran.stdout + (HUNTING.sub(b"", ran.stderr) if errors else b"")
    lines = [clean(line).rstrip() for line in said.lines(text.decode("utf-8", "backslashreplace"))]
    if any("--conf/-c FILE" in line for line in lines):
        lines = ["usage"]
    return f"{ran.returncode} " + " | ".join(sorted(lines) if order else lines)


def clean(line):
    line = line.replace(POOL, "POOL").replace(HERE, "HERE")
    line = re.sub(r"client\.\d+", "client.N", line)
    line = re.sub(r"\d+\.\d+\.\d+\.\d+:\d+/\d+", "ADDRESS", line)
    line = re.sub(r"cookie=\d+", "cookie=N", line)
    line = re.sub(r"mtime \S+( \d\d:\d\d:\d\d\S*)?", "mtime TIME", line)
    return re.sub(r"\d{4}[-./]\d\d[-./]\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?([+-]\d{4})?", "TIME", line)


def main():
    for name, f in CASES:
        if name.startswith(PREFIX):
            for i, result in enumerate(f()):
                print(f"{name}.{i + 1}: {result}", flush=True)


@case
def pools():
    yield str(POOL in subprocess.check_output(["rados", "-c", CONF, "lspools"], text=True).split())
    yield rados("ls", pool="nosuch")
    yield rados("ls", pool=None)
    yield rados("nosuch")
    yield rados("put", "o")


@case
def data():
    yield rados("get", "o", "-")
    yield rados("stat", "o")
    yield rados("rm", "o")
    yield rados("put", "o", "-", given=b"hello")
    yield rados("get", "o", "-")
    yield rados("stat", "o")
    yield rados("stat2", "o")
    yield rados("append", "o", "-", given=b" world")
    yield rados("get", "o", "-")
    yield rados("put", "o", "-", "--offset", "6", given=b"W")
    yield rados("get", "o", "-")
    yield rados("truncate", "o", "4")
    yield rados("get", "o", "-")
    yield rados("truncate", "o", "-1")
    yield rados("truncate", "o", "6")
    yield rados("stat", "o")
    yield rados("create", "o")
    yield rados("create", "made")
    yield rados("stat", "made")
    yield rados("touch", "o", "100000")
    yield rados("touch", "touched")
    yield rados("set-alloc-hint", "o", "4096", "4096")
    yield rados("set-alloc-hint", "hinted", "4096", "4096")
    yield rados("put", "large", "-", given=b"z" * (9 << 20))
    yield rados("stat", "large")
    yield rados("get", "large", HERE + "/large")
    yield str(os.path.getsize(HERE + "/large"))
    yield rados("get", "o", HERE + "/nosuch/file")
    yield rados("put", "o", HERE + "/nosuch")
    yield rados("rm", "made", "touched", "hinted")
    yield rados("rm", "made", "o")
    yield rados("stat", "o")
    yield rados("put", "n" * 2049, "-", given=b"x")


@case
def mapped():
    rados("put", "m", "-", given=b"x" * 8192)
    yield rados("mapext", "m")
    yield rados("mapext", "absent")


@case
def xattrs():
    yield rados("setxattr", "x", "a", "1")
    yield rados("setxattr", "x", "b", "-", given=b"from input")
    yield rados("listxattr", "x")
    yield rados("getxattr", "x", "a")
    yield rados("getxattr", "x", "b")
    yield rados("getxattr", "x", "none")
    yield rados("rmxattr", "x", "a")
    yield rados("rmxattr", "x", "a")
    yield rados("listxattr", "x")
    yield rados("listxattr", "absent")
    yield rados("setxattr", "x", "n" * 101, "1")


@case
def omap():
    yield rados("listomapkeys", "om")
    yield rados("setomapval", "om", "k", "v")
    yield rados("setomapval", "om", "l", given=b"from input")
    yield rados("listomapkeys", "om")
    yield rados("listomapvals", "om")
    yield rados("getomapval", "om", "k")
    yield rados("getomapval", "om", "none")
    yield rados("getomapheader", "om")
    yield rados("setomapheader", "om", "head")
    yield rados("getomapheader", "om")
    yield rados("rmomapkey", "om", "k")
    yield rados("rmomapkey", "om", "k")
    yield rados("listomapkeys", "om")
    yield rados("clearomap", "om")
    yield rados("listomapkeys", "om")
    yield rados("getomapheader", "om")
    yield rados("clearomap", "absent")


@case
def copies():
    rados("put", "source", "-", given=b"content")
    rados("setxattr", "source", "a", "1")
    rados("setomapval", "source", "k", "v")
    yield rados("cp", "source", "target")
    yield rados("get", "target", "-")
    yield rados("listxattr", "target")
    yield rados("listomapkeys", "target")
    yield rados("cp", "absent", "target")
    yield rados("cp", "source", "source")
    yield rados("cp", "source", "elsewhere", "--target-nspace", "n")
    yield rados("get", "elsewhere", "-", "-N", "n")


@case
def spaces():
    for space in ("one", "two"):
        for name in "ab":
            rados("put", name, "-", "-N", space, given=space.encode())
    rados("put", "located", "-", "--object-locator", "k", "-N", "one", given=b"by key")
    yield rados("ls", "-N", "one", order=True)
    yield rados("ls", "-N", "two", order=True)
    yield rados("ls", "-N", "none")
    yield rados("get", "a", "-", "-N", "two")
    yield rados("get", "located", "-", "-N", "one")
    yield rados("get", "located", "-", "-N", "one", "--object-locator", "k")
    lines = rados("ls", "--all", order=True).split(" | ")
    yield str([line for line in lines if line.startswith(("one", "two"))])
    yield rados("ls", "-N", "two", "--format", "json")[:2]
    yield rados("rm", "a", "-N", "two")
    yield rados("ls", "-N", "two")


@case
def locks():
    rados("create", "locked")
    get = ("lock", "get", "locked", "L", "--lock-cookie", "c")
    yield rados(*get)
    yield rados(*get)
    yield rados("lock", "list", "locked", "--format", "json")
    yield rados("lock", "info", "locked", "L", "--format", "json")
    yield rados("lock", "info", "locked", "none", "--format", "json")
    yield rados("lock", "break", "locked", "L", "client.1", "--lock-cookie", "c")
    yield rados("lock", "get", "locked", "S", "--lock-type", "shared", "--lock-tag", "t", "--lock-cookie", "one")
    yield rados("lock", "get", "locked", "S", "--lock-type", "shared", "--lock-tag", "t", "--lock-cookie", "two")
    yield rados("lock", "get", "locked", "S", "--lock-type", "shared", "--lock-tag", "u", "--lock-cookie", "two")
    yield rados("lock", "get", "locked", "D", "--lock-duration", "3600", "--lock-cookie", "c")
    yield rados("lock", "list", "locked", "--format", "json")


@case
def watchers():
    rados("create", "watched")
    yield rados("listwatchers", "watched")
    yield rados("listwatchers", "absent")
    yield rados("notify", "watched", "hello")
    yield rados("notify", "absent", "hello")
    yield rados("watch", "absent")
    yield rados("watch", "watched", given=b"\n")


@case
def snapshots():
    yield rados("put", "s", "-", given=b"one")
    yield rados("mksnap", "first")
    yield rados("mksnap", "first")
    yield rados("put", "s", "-", given=b"two")
    yield rados("lssnap")
    yield rados("get", "s", "-", "-s", "first")
    yield rados("get", "s", "-", "-s", "none")
    yield rados("listsnaps", "s")
    yield rados("listsnaps", "absent")
    yield rados("rollback", "s", "first")
    yield rados("rollback", "s", "none")
    yield rados("get", "s", "-")
    yield rados("rmsnap", "first")
    yield rados("rmsnap", "first")
    yield rados("lssnap")


@case
def whole_pools():
    rados("put", "kept", "-", "-N", "moved", given=b"kept")
    yield rados("export", HERE + "/dump", order=True)[:2]
    yield rados("rm", "kept", "-N", "moved")
    yield rados("import", HERE + "/nosuch")
    yield rados("import", HERE + "/dump", order=True)[:2]
    yield rados("get", "kept", "-", "-N", "moved")
    yield rados("bench", "1", "write", "-b", "4096", "-t", "4", "--no-cleanup", order=True, errors=False)[:2]
    yield rados("bench", "1", "seq", order=True, errors=False)[:2]
    yield rados("bench", "1", "rand", order=True, errors=False)[:2]
    yield rados("cleanup")[:2]
    yield rados("purge", POOL, pool=None)
    yield rados("purge", POOL, "--yes-i-really-really-mean-it", pool=None)
    # Objects with a locator are not found by the purge.
    lines = rados("ls", "--all", order=True).split(" | ")
    yield str([line for line in lines if not line.endswith("\ts")])


if __name__ == "__main__":
    main()

"""Carries out steps on volumes as programs do: commands by rados_mgr_command, files by libcephfs.

Run as: python3 volumes.py CEPH.CONF [NAME KEYRING] < steps.json > results.json
A step is {"mgr": {...}}, {"mon": {...}}, {"write": PATH, "text": T}, {"read": PATH}, {"list": PATH},
{"xattr": PATH, "name": N}, or {"until": {...}, "has": T}: a command that is repeated until its output has T.
"""

import json
import sys
import time

import cephfs
import rados

PATIENCE = 60


def main():
    conf = sys.argv[1]
    name, keyring = (sys.argv[2:4] + ["client.admin", None])[:2] if len(sys.argv) > 3 else ("client.admin", None)
    settings = {"keyring": keyring} if keyring else {}
    cluster = rados.Rados(conffile=conf, name=name, conf=settings)
    cluster.connect(timeout=20)
    files = None

    def mounted():
        nonlocal files
        if files is None:
            files = cephfs.LibCephFS(conffile=conf)
            files.mount()
        return files

    def command(send, step):
        code, output, status = send(json.dumps(step), b"")
        return [code, output.decode(), status]

    results = []
    for step in json.load(sys.stdin):
        if "mgr" in step:
            results.append(command(cluster.mgr_command, step["mgr"]))
        elif "mon" in step:
            results.append(command(cluster.mon_command, step["mon"]))
        elif "until" in step:
            end = time.monotonic() + PATIENCE
            while True:
                found = command(cluster.mgr_command, step["until"])
                if step["has"] in found[1] or time.monotonic() > end:
                    break
            results.append(found)
        elif "write" in step:
            fs = mounted()
            fd = fs.open(step["write"], "w", 0o640)
            fs.write(fd, step["text"].encode(), 0)
            fs.fsync(fd, False)
            fs.close(fd)
            results.append(None)
        elif "read" in step:
            fs = mounted()
            fd = fs.open(step["read"], "r")
            results.append(fs.read(fd, 0, 1 << 20).decode())
            fs.close(fd)
        elif "list" in step:
            fs = mounted()
            with fs.opendir(step["list"]) as entries:
                names = []
                entry = fs.readdir(entries)
                while entry:
                    names.append(entry.d_name.decode())
                    entry = fs.readdir(entries)
            results.append(sorted(n for n in names if n not in (".", "..")))
        elif "xattr" in step:
            results.append(mounted().getxattr(step["xattr"], step["name"]).decode())
    json.dump(results, sys.stdout)
    sys.stdout.flush()
    if files is not None:
        files.shutdown()
    cluster.shutdown()


main()

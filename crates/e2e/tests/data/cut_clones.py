"""Clones whose flattening or removal was cut short: one line a case, `name: result`.

    cut_clones.py CONF POOL [PREFIX]

POOL is to be new; clones are in POOL-clones. A client that may not call methods that change a clone's header ends
where the parent has forgotten the clone, and the clone not yet its parent.
"""
import json
import os
import subprocess
import sys
import tempfile

CONF, POOL, PREFIX = (sys.argv + [""])[1:4]
CLONES = POOL + "-clones"
HERE = tempfile.mkdtemp()
DATA = os.path.join(HERE, "data")
KEYRING = os.path.join(HERE, "keyring")
CASES = []


def case(f):
    CASES.append((f.__name__.replace("_", "-"), f))
    return f


def run(program, *args, who=()):
    ran = subprocess.run([program, "-c", CONF, *who, *args], capture_output=True, timeout=50)
    return ran.returncode, ran.stdout


def ok(program, *args):
    code, said = run(program, *args)
    if code:
        raise SystemExit(f"{program} {args}: {code}")
    return said


def rbd(*args):
    """The exit status."""
    return run("rbd", *args)[0]


def cut(*args):
    """The same by the client that may not do all of it."""
    return run("rbd", *args, who=("--id", "cut-" + POOL, "--keyring", KEYRING))[0]


def read_json(*args):
    return json.loads(ok("rbd", *args, "--format", "json"))


def export(image):
    code, data = run("rbd", "export", "--no-progress", image, "-")
    wanted = open(DATA, "rb").read()
    return code if code else "right" if data == wanted else "wrong"


def parent(image):
    if not any(name == image.split("/")[1] for name in read_json("ls", CLONES)):
        return "no image"
    code, said = run("rbd", "info", image, "--format", "json")
    if code:
        return f"info {code}"
    info = json.loads(said)
    return f"a clone {info['op_features']}" if info.get("parent") else f"no clone {info.get('op_features')}"


def snaps(image):
    """Name or `trash`, and the number of clones, of each snapshot."""
    def text(s):
        kind = s["namespace"]["type"]
        return s["name"] if kind == "user" else kind
    listed = [text(s) for s in read_json("snap", "ls", "--all", image)]
    return f"{listed} {len(read_json('children', '--all', image))} clones"


def clone(name, *more, trash=False):
    """An image with a clone; with `trash` its snapshot is there for the clone alone."""
    base, child = f"{POOL}/{name}", f"{CLONES}/{name}"
    ok("rbd", "import", "--no-progress", DATA, base)
    ok("rbd", "snap", "create", "--no-progress", base + "@s")
    for one in (child, *more):
        ok("rbd", "clone", "--rbd-default-clone-format", "2", "--image-feature", "layering,deep-flatten", base + "@s", one)
    if trash:
        ok("rbd", "snap", "rm", "--no-progress", base + "@s")
    return base, child


@case
def flattened_again():
    base, child = clone("again")
    yield cut("flatten", "--no-progress", child)
    yield parent(child), snaps(base), export(child)
    yield rbd("flatten", "--no-progress", child)
    yield parent(child), snaps(base), export(child)
    yield rbd("flatten", "--no-progress", child)
    yield rbd("snap", "rm", "--no-progress", base + "@s"), rbd("rm", "--no-progress", base), export(child)


@case
def removed_after_flatten():
    base, child = clone("removed")
    yield cut("flatten", "--no-progress", child)
    yield rbd("rm", "--no-progress", child)
    yield parent(child), snaps(base)
    yield rbd("snap", "rm", "--no-progress", base + "@s"), rbd("rm", "--no-progress", base)


@case
def removal_cut():
    base, child = clone("rm")
    yield cut("rm", "--no-progress", child)
    yield parent(child), snaps(base)
    yield rbd("rm", "--no-progress", child)
    yield parent(child), snaps(base)


@case
def used_meanwhile():
    base, child = clone("used")
    yield cut("flatten", "--no-progress", child)
    yield rbd("snap", "create", "--no-progress", child + "@then"), export(child + "@then")
    yield rbd("resize", "--no-progress", child, "--size", "20M", "--allow-shrink")
    yield parent(child), snaps(base)
    yield rbd("flatten", "--no-progress", child)
    yield parent(child), snaps(base), export(child + "@then")


@case
def other_clones_stay():
    base, child = clone("others", CLONES + "/other")
    yield cut("flatten", "--no-progress", child)
    yield snaps(base), rbd("snap", "rm", "--no-progress", base + "@s"), snaps(base)
    yield export(child), export(CLONES + "/other")
    yield rbd("flatten", "--no-progress", CLONES + "/other"), snaps(base)
    yield parent(child), parent(CLONES + "/other")


@case
def last_of_the_trash():
    base, child = clone("trash", trash=True)
    yield cut("flatten", "--no-progress", child)
    yield parent(child), snaps(base)
    yield rbd("flatten", "--no-progress", child)
    yield rbd("rm", "--no-progress", child), parent(child), snaps(base)
    yield rbd("rm", "--no-progress", base)


@case
def snapshot_gone():
    base, child = clone("gone")
    yield cut("flatten", "--no-progress", child)
    yield rbd("snap", "rm", "--no-progress", base + "@s"), snaps(base)
    yield parent(child), export(child)
    yield rbd("flatten", "--no-progress", child), rbd("snap", "create", "--no-progress", child + "@then")
    yield rbd("rm", "--no-progress", child), parent(child)


@case
def parent_gone():
    base, child = clone("orphan")
    yield cut("flatten", "--no-progress", child)
    yield rbd("snap", "rm", "--no-progress", base + "@s"), rbd("rm", "--no-progress", base)
    yield parent(child), rbd("flatten", "--no-progress", child)
    yield rbd("rm", "--no-progress", child), parent(child)


def main():
    with open(DATA, "wb") as file:
        # An object is absent, and one ends early.
        for byte in (1, 0, 2):
            file.write(bytes([byte]) * (4 << 20))
        file.write(b"3" * 5000)
    ok("ceph", "osd", "pool", "create", CLONES, "8", "8")
    ok("rbd", "pool", "init", POOL)
    ok("rbd", "pool", "init", CLONES)
    data = f"allow rwx pool={CLONES} object_prefix rbd_data."
    caps = f"allow rwx pool={POOL}, {data}, allow rw class-read pool={CLONES}"
    ok("ceph", "auth", "get-or-create", "client.cut-" + POOL, "mon", "profile rbd", "osd", caps, "-o", KEYRING)
    for name, f in CASES:
        if name.startswith(PREFIX):
            for i, result in enumerate(f()):
                result = result if isinstance(result, tuple) else (result,)
                print(f"{name}.{i + 1}: {' | '.join(map(str, result))}", flush=True)


main()

"""A workload on mounted file systems whose every name and byte is known: workers, each in a directory of its own, change it through one
mount and read it through all.

    checked_files.py SEED RANKS MOUNT [MOUNT]...

Meanwhile directories are pinned to ranks 0 to RANKS - 1 at random, and set free. It ends as `driver.py` says: every directory is
compared through every mount, and every snapshot with what it is of.
"""
import errno
import os
import random
import sys
import time

from driver import Worker, Wrong, drive

WORKERS, DEPTH, SNAPS, NAMES = 6, 5, 3, "abcdefghijklmnop"
SIZES = (1, 100, 5000, 70000)


def join(directory, name):
    return f"{directory}/{name}" if directory else name


def is_below(path, directory):
    return not directory or path.startswith(directory + "/")


class Files(Worker):
    def __init__(self, number, seed, mounts):
        super().__init__()
        self.rng, self.number, self.mounts = random.Random(f"{seed}.{number}"), number, mounts
        self.mount, self.top = mounts[number % len(mounts)], f"w{number}"
        self.files, self.dirs, self.snaps, self.taken = {}, {""}, {}, 0
        self.stale, self.what = 0, ""
        os.mkdir(self.at(""))

    def at(self, path, mount=None):
        return f"{mount or self.mount}/{self.top}/{path}".rstrip("/")

    def place(self):
        return join(self.rng.choice(sorted(self.dirs)), self.rng.choice(NAMES))

    def expect(self, is_so, what):
        self.checked += 1
        if not is_so:
            raise Wrong(what)

    # What changes the directory.

    def write(self):
        path = self.place()
        if path in self.dirs:
            return
        data = self.rng.randbytes(self.rng.choice(SIZES))
        self.what = f"write {path}"
        with open(self.at(path), "wb") as file:
            file.write(data)
            if self.rng.random() < 0.2:
                file.flush()
                os.fsync(file.fileno())
        self.files[path] = data

    def append(self):
        if path := self.some_file():
            data = self.rng.randbytes(300)
            self.what = f"append {path}"
            with open(self.at(path), "ab") as file:
                file.write(data)
            self.files[path] += data

    def mkdir(self):
        path = self.place()
        if path not in self.files and path not in self.dirs and path.count("/") < DEPTH:
            self.what = f"mkdir {path}"
            os.mkdir(self.at(path))
            self.dirs.add(path)

    def unlink(self):
        if path := self.some_file():
            self.what = f"unlink {path}"
            os.unlink(self.at(path))
            del self.files[path]

    def rmdir(self):
        path = self.rng.choice(sorted(self.dirs))
        if not path or any(is_below(other, path) for other in [*self.files, *self.dirs]):
            return
        self.what = f"rmdir {path}"
        try:
            os.rmdir(self.at(path))
            self.dirs.remove(path)
        except OSError as error:
            # It has a snapshot.
            if error.errno != errno.ENOTEMPTY or not any(of == path for of, _ in self.snaps):
                raise

    def rename(self):
        old, new = self.place(), self.place()
        if new in self.dirs or new == old:
            return
        self.what = f"rename {old} {new}"
        if old in self.files:
            os.rename(self.at(old), self.at(new))
            self.files[new] = self.files.pop(old)
        elif old in self.dirs and new not in self.files and not is_below(new, old):
            os.rename(self.at(old), self.at(new))

            def moved(path):
                return new + path[len(old):] if path == old or is_below(path, old) else path
            self.dirs = {moved(path) for path in self.dirs}
            self.files = {moved(path): data for path, data in self.files.items()}
            self.snaps = {(moved(path), name): files for (path, name), files in self.snaps.items()}

    def some_file(self):
        return self.rng.choice(sorted(self.files)) if self.files else None

    # Snapshots.

    def snap(self):
        if len(self.snaps) < SNAPS and self.rng.random() < 0.6:
            of, self.taken = self.rng.choice(sorted(self.dirs)), self.taken + 1
            name = f"s{self.number}-{self.taken}"
            self.what = f"make snapshot {name} of {of or '.'}"
            os.mkdir(f"{self.at(of)}/.snap/{name}")
            start = len(join(of, ""))
            self.snaps[(of, name)] = {path[start:]: data for path, data in self.files.items() if is_below(path, of)}
        elif self.snaps:
            of, name = self.rng.choice(sorted(self.snaps))
            if self.rng.random() < 0.4:
                self.what = f"remove snapshot {name} of {of or '.'}"
                os.rmdir(f"{self.at(of)}/.snap/{name}")
                del self.snaps[(of, name)]
            else:
                self.read_snap(of, name, 3)

    def read_snap(self, of, name, most):
        files = self.snaps[(of, name)]
        for path in self.rng.sample(sorted(files), min(most, len(files))):
            self.what = f"read {path} in snapshot {name} of {of or '.'}"
            with open(f"{self.at(of)}/.snap/{name}/{path}", "rb") as file:
                self.expect(file.read() == files[path], "other content")

    # What reads it.

    def read(self):
        path, mount = self.place(), self.rng.choice([self.mount] * 3 + self.mounts)
        self.what = f"read {path} through {mount}"
        if path in self.files:
            data = self.read_file(path, mount)
            self.expect(data == self.files[path], f"{len(data)} bytes, which are not the {len(self.files[path])} expected")
        elif path not in self.dirs:
            self.expect(not os.path.lexists(self.at(path, mount)), "it exists")

    def read_file(self, path, mount):
        """Linux says ESTALE where another mount has moved a directory, for as long as a rename is under way there."""
        for _ in range(60):
            try:
                with open(self.at(path, mount), "rb") as file:
                    return file.read()
            except OSError as error:
                if error.errno != errno.ESTALE or mount == self.mount:
                    raise
                self.stale += 1
                time.sleep(0.1)
        raise Wrong("ESTALE for six seconds")

    def list(self):
        directory = self.rng.choice(sorted(self.dirs))
        self.what = f"list {directory or '.'}"
        start = len(join(directory, ""))
        below = [path[start:] for path in [*self.files, *self.dirs] if path and path != directory and is_below(path, directory)]
        known, found = {path for path in below if "/" not in path}, set(os.listdir(self.at(directory)))
        self.expect(found == known, f"differs in {sorted(found ^ known)}")

    def verify_all(self):
        for mount in self.mounts:
            top, found = self.at("", mount), {}
            self.what = f"all through {mount}"
            for at, dirs, files in os.walk(top, onerror=self.fail):
                at = os.path.relpath(at, top).removeprefix(".")
                found |= {join(at, name): None for name in dirs}
                found |= {join(at, name): self.read_file(join(at, name), mount) for name in files}
            known = {**{path: None for path in self.dirs if path}, **self.files}
            differ = sorted(path for path in {**found, **known} if found.get(path, 0) != known.get(path, 0))
            self.expect(not differ, f"differs in {differ[:5]}")
            self.checked += len(found)
        for of, name in self.snaps:
            self.read_snap(of, name, len(self.files) + 1000)

    def fail(self, error):
        raise error

    # Its course.

    def step(self):
        kinds = (self.write, self.append, self.read, self.mkdir, self.unlink, self.rmdir, self.rename, self.list, self.snap)
        self.rng.choices(kinds, (30, 8, 12, 10, 12, 4, 12, 5, 3))[0]()

    def __str__(self):
        return f"worker {self.number} on {self.mount}, {self.what},"


class Pins:
    """Pins directories of the workers, and sets them free."""

    def __init__(self, workers, seed, ranks):
        self.workers, self.rng, self.ranks, self.done = workers, random.Random(f"{seed}.pins"), ranks, 0

    def run(self, stop):
        while not stop.wait(self.rng.uniform(0.2, 3.0)):
            worker = self.rng.choice(self.workers)
            directory, mount = self.rng.choice(sorted(worker.dirs)), self.rng.choice(worker.mounts)
            try:
                os.setxattr(worker.at(directory, mount), "ceph.dir.pin", str(self.rng.randrange(-1, self.ranks)).encode())
                self.done += 1
            except OSError as error:
                # It has been moved or removed.
                if error.errno not in (errno.ENOENT, errno.ESTALE, errno.ENOTDIR):
                    worker.error = f"pin of {directory} through {mount}: {error!r}"


def main():
    seed, ranks, mounts = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    workers = [Files(n, seed, mounts) for n in range(WORKERS)]
    pins = Pins(workers, seed, ranks)
    drive(workers, [pins], lambda: {
        "snapshots": sum(w.taken for w in workers),
        "stale": sum(w.stale for w in workers),
        "pins": pins.done,
    })


main()

"""What workloads of known content have in common: workers in threads, their errors, and the report.

A workload prints `ready`, then a line a second: operations so far, and for how long the one under way waits that waits longest, in
milliseconds. With the first line on its standard input it ends: each worker compares everything, and a line of JSON says what was done.
Any error, and anything that differs, is told on standard error and ends it with 1.
"""
import json
import sys
import threading
import time


class Wrong(Exception):
    """Something is not as it was written."""


class Worker:
    """One that changes what is its own by `step`, and compares all of it by `verify_all`. Its name is `str(self)`."""

    def __init__(self):
        self.done, self.checked, self.longest, self.began, self.error = 0, 0, 0.0, None, None

    def run(self, stop):
        try:
            while not stop.is_set():
                self.began = time.monotonic()
                self.step()
                self.longest = max(self.longest, time.monotonic() - self.began)
                self.done += 1
            self.began = time.monotonic()
            self.verify_all()
        except Exception as error:
            what = error if isinstance(error, Wrong) else repr(error)
            self.error = f"{self} after {self.done} operations, {time.monotonic() - self.began:.1f} s: {what}"
        finally:
            self.began = None


def drive(workers, others=(), more=dict):
    """Runs workers, and others beside them, to the end; `more` gives what else the report says."""
    stop, began = threading.Event(), time.monotonic()
    threads = [threading.Thread(target=one.run, args=(stop,), daemon=True) for one in [*workers, *others]]
    for t in threads:
        t.start()
    threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
    print("ready", flush=True)
    while any(t.is_alive() for t in threads):
        for t in threads:
            t.join(1.0 / len(threads))
        errors = [w.error for w in workers if w.error]
        if errors:
            print("\n".join(errors), file=sys.stderr, flush=True)
            sys.exit(1)
        waits = [time.monotonic() - b for b in (w.began for w in workers) if b]
        print(sum(w.done for w in workers), round(max(waits, default=0) * 1000), flush=True)
    print(json.dumps({
        "operations": sum(w.done for w in workers),
        "verified": sum(w.checked for w in workers),
        "longest_ms": round(max(w.longest for w in workers) * 1000),
        "seconds": round(time.monotonic() - began),
        **more(),
    }), flush=True)

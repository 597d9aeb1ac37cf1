"""rbd_compare_and_write of librbd: compare_and_write.py CONF POOL.

Prints what each case gives: its result, the offset of the first difference, and if the image has what it should
have afterwards. Then clients in processes of their own count in one sector, each step by comparing.
"""
import ctypes as c
import multiprocessing
import struct
import sys

SECTOR = 512
NONE = 2**64 - 1
EILSEQ = -84

rados = c.CDLL("librados.so.2")
rbd = c.CDLL("librbd.so.1")
OFFSET, IMAGE = c.c_uint64, c.c_void_p
for name, result, *args in [
    ("read", c.c_ssize_t, IMAGE, OFFSET, c.c_size_t, c.c_char_p),
    ("create", c.c_int, IMAGE, c.c_char_p, OFFSET, c.POINTER(c.c_int)),
    ("open", c.c_int, IMAGE, c.c_char_p, c.POINTER(IMAGE), c.c_char_p),
    ("close", c.c_int, IMAGE),
    ("compare_and_write", c.c_ssize_t, IMAGE, OFFSET, c.c_size_t, c.c_char_p, c.c_char_p, c.POINTER(OFFSET), c.c_int),
    ("aio_create_completion", c.c_int, IMAGE, IMAGE, c.POINTER(IMAGE)),
    ("aio_compare_and_write", c.c_int, IMAGE, OFFSET, c.c_size_t, c.c_char_p, c.c_char_p, IMAGE, c.POINTER(OFFSET), c.c_int),
    ("aio_wait_for_complete", c.c_int, IMAGE),
    ("aio_get_return_value", c.c_ssize_t, IMAGE),
    ("aio_release", None, IMAGE),
]:
    function = getattr(rbd, "rbd_" + name)
    function.restype, function.argtypes = result, args


def check(result, what):
    if result < 0:
        raise SystemExit(f"{what}: {result}")


def connect():
    cluster, pool = c.c_void_p(), c.c_void_p()
    check(rados.rados_create(c.byref(cluster), b"admin"), "rados_create")
    check(rados.rados_conf_read_file(cluster, sys.argv[1].encode()), "the configuration")
    check(rados.rados_connect(cluster), "rados_connect")
    check(rados.rados_ioctx_create(cluster, sys.argv[2].encode(), c.byref(pool)), "the pool")
    return cluster, pool


def opened(pool, name):
    image = c.c_void_p()
    check(rbd.rbd_open(pool, name, c.byref(image), None), "rbd_open")
    return image


def read(image, offset, length):
    data = c.create_string_buffer(length)
    check(rbd.rbd_read(image, offset, length, data), "rbd_read")
    return data.raw


def at_once(image, offset, old, new):
    differs = OFFSET(NONE)
    return rbd.rbd_compare_and_write(image, offset, len(old), old, new, c.byref(differs), 0), differs.value


def later(image, offset, old, new):
    differs, done = OFFSET(NONE), c.c_void_p()
    rbd.rbd_aio_create_completion(None, None, c.byref(done))
    result = rbd.rbd_aio_compare_and_write(image, offset, len(old), old, new, done, c.byref(differs), 0)
    check(result, "rbd_aio_compare_and_write")
    rbd.rbd_aio_wait_for_complete(done)
    result = rbd.rbd_aio_get_return_value(done)
    rbd.rbd_aio_release(done)
    return result, differs.value


def show(what, outcome, is_right):
    result, differs = outcome
    print(what, result, "-" if differs == NONE else differs, "right" if is_right else "WRONG")


def cases(image, call, base):
    zeros, a, b = b"\0" * SECTOR, b"a" * SECTOR, b"b" * SECTOR
    show("absent", call(image, base, zeros, a), read(image, base, SECTOR) == a)
    show("absent-differs", call(image, base + (3 << 20), a, b), read(image, base + (3 << 20), SECTOR) == zeros)
    show("equal", call(image, base, a, b), read(image, base, SECTOR) == b)
    other = b[:100] + b"x" + b[101:]
    show("differs", call(image, base, other, zeros), read(image, base, SECTOR) == b)
    show("behind", call(image, base + 4096, zeros, a), read(image, base + 4096, SECTOR) == a)
    show("part", call(image, base + 1, b[:7], b"1234567"), read(image, base, 9) == b"b1234567b")


def count(steps, counted):
    cluster, pool = connect()
    image = opened(pool, b"counter")
    while steps > 0:
        old = read(image, 0, SECTOR)
        (number,) = struct.unpack("<Q", old[:8])
        result, _ = later(image, 0, old, struct.pack("<Q", number + 1) * 64)
        steps -= result >= 0
        if result < 0 and result != EILSEQ:
            break
    counted.put(steps)
    rbd.rbd_close(image)
    rados.rados_shutdown(cluster)


def main():
    cluster, pool = connect()
    for name, size in [(b"cases", 8 << 20), (b"counter", 1 << 20)]:
        check(rbd.rbd_create(pool, name, size, c.byref(c.c_int(20))), "rbd_create")
    image = opened(pool, b"cases")
    cases(image, at_once, 0)
    cases(image, later, 1 << 20)
    rbd.rbd_close(image)
    sys.stdout.flush()
    left = multiprocessing.Queue()
    clients = [multiprocessing.Process(target=count, args=(30, left)) for _ in range(3)]
    [client.start() for client in clients]
    missed = sum(left.get() for _ in clients)
    [client.join() for client in clients]
    image = opened(pool, b"counter")
    (number,) = struct.unpack("<Q", read(image, 0, 8))
    print("counted", number, missed)
    rbd.rbd_close(image)
    rados.rados_shutdown(cluster)


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()

//! Methods of object classes, called as clients call them.

use super::cluster::{Cluster, GID};
use msgs::{Extent, Op, OsdOpReply, op::input};
use std::collections::BTreeMap;
use stdx::Bufs;
use wire::{EntityId, EntityType, Utime, Writer};

fn call(c: &mut Cluster, name: &str, method: &str, input: Vec<u8>) -> OsdOpReply {
    let (class, method) = method.split_once('.').expect("class.method");
    c.op(name, vec![Op::Call { class: class.into(), method: method.into(), input: input.into() }])
}

/// A structure of version 1/1 with these fields.
fn v1(fields: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut body = Writer::new();
    fields(&mut body);
    let mut w = Writer::new();
    w.put(&(1u8, 1u8));
    w.put(&body.into_vec());
    w.into_vec()
}

fn lock_input(kind: u8, cookie: &str, tag: &str, seconds: u32, flags: u8) -> Vec<u8> {
    v1(|w| {
        w.put(&b"L".to_vec());
        w.put(&kind);
        w.put(&cookie.as_bytes().to_vec());
        w.put(&tag.as_bytes().to_vec());
        w.put(&b"why".to_vec());
        w.put(&Utime { sec: seconds, nsec: 0 });
        w.put(&flags);
    })
}

fn lock(c: &mut Cluster, kind: u8, cookie: &str, tag: &str, flags: u8) -> i32 {
    call(c, "x", "lock.lock", lock_input(kind, cookie, tag, 0, flags)).result
}

fn unlock(c: &mut Cluster, cookie: &str) -> i32 {
    let input = v1(|w| w.put(&(b"L".to_vec(), cookie.as_bytes().to_vec())));
    call(c, "x", "lock.unlock", input).result
}

const EXCLUSIVE: u8 = 1;
const SHARED: u8 = 2;

#[test]
fn an_exclusive_lock_is_had_by_one() {
    let mut c = Cluster::new(3, 3, 2, 8);
    assert_eq!(unlock(&mut c, "a"), -2);
    assert_eq!(lock(&mut c, EXCLUSIVE, "a", "", 0), 0, "it makes the object");
    assert_eq!(lock(&mut c, EXCLUSIVE, "a", "", 0), -17);
    assert_eq!(lock(&mut c, EXCLUSIVE, "a", "", 1), 0, "renewed");
    assert_eq!(lock(&mut c, EXCLUSIVE, "b", "", 2), -2, "what nobody has can not be renewed");
    assert_eq!(lock(&mut c, EXCLUSIVE, "b", "", 0), -16);
    assert_eq!(lock(&mut c, SHARED, "b", "", 0), -16);
    assert_eq!(lock(&mut c, 7, "b", "", 0), -22);
    assert_eq!(lock(&mut c, EXCLUSIVE, "b", "", 3), -22);
    c.client_is(GID + 1);
    assert_eq!(lock(&mut c, EXCLUSIVE, "a", "", 0), -16);
    assert_eq!(unlock(&mut c, "a"), -2);
    let whose = EntityId::new(EntityType::CLIENT, GID as i64);
    let break_it = v1(|w| {
        w.put(&b"L".to_vec());
        w.put(&whose);
        w.put(&b"a".to_vec());
    });
    assert_eq!(call(&mut c, "x", "lock.break_lock", break_it).result, 0);
    assert_eq!(lock(&mut c, EXCLUSIVE, "a", "", 0), 0);
    assert_eq!(unlock(&mut c, "a"), 0);
    c.check();
}

#[test]
fn shared_locks_need_the_same_tag_and_end_with_their_time() {
    let mut c = Cluster::new(3, 3, 2, 8);
    assert_eq!(lock(&mut c, SHARED, "a", "t", 0), 0);
    assert_eq!(lock(&mut c, SHARED, "b", "u", 0), -16);
    assert_eq!(lock(&mut c, SHARED, "b", "t", 0), 0);
    let assert_it = |kind: u8, cookie: &str| {
        v1(|w| {
            w.put(&(b"L".to_vec(), kind));
            w.put(&(cookie.as_bytes().to_vec(), b"t".to_vec()));
        })
    };
    assert_eq!(call(&mut c, "x", "lock.assert_locked", assert_it(SHARED, "a")).result, 0);
    assert_eq!(call(&mut c, "x", "lock.assert_locked", assert_it(EXCLUSIVE, "a")).result, -16);
    assert_eq!(call(&mut c, "x", "lock.assert_locked", assert_it(SHARED, "c")).result, -16);
    let rename = |from: &str, to: &str| {
        let mut input = assert_it(SHARED, from);
        let more = Writer::encode(&to.as_bytes().to_vec());
        input.extend(&more);
        let len = input.len() as u32 - 6;
        input[2..6].copy_from_slice(&len.to_le_bytes());
        input
    };
    assert_eq!(call(&mut c, "x", "lock.set_cookie", rename("a", "b")).result, -16);
    assert_eq!(call(&mut c, "x", "lock.set_cookie", rename("a", "z")).result, 0);
    assert_eq!((unlock(&mut c, "a"), unlock(&mut c, "z"), unlock(&mut c, "b")), (-2, 0, 0));
    let short = lock_input(EXCLUSIVE, "a", "", 5, 0);
    assert_eq!(call(&mut c, "x", "lock.lock", short).result, 0);
    c.run(std::time::Duration::from_secs(4));
    assert_eq!(lock(&mut c, EXCLUSIVE, "b", "", 0), -16);
    c.run(std::time::Duration::from_secs(2));
    assert_eq!(lock(&mut c, EXCLUSIVE, "b", "", 0), 0);
    let reply = c.op("x", vec![Op::GetXattrs]);
    let attrs: BTreeMap<Vec<u8>, Vec<u8>> = input::read(&reply.ops[0].data).expect("xattrs");
    assert_eq!(attrs.keys().collect::<Vec<_>>(), [b"lock.L"]);
    c.check();
}

#[test]
fn hello_says_reads_writes_and_is_held_to_what_it_said_it_does() {
    let mut c = Cluster::new(3, 3, 2, 8);
    assert_eq!(call(&mut c, "x", "hello.say_hello", vec![]).result, -2);
    assert_eq!(call(&mut c, "x", "hello.record_hello", vec![b'x'; 101]).result, -22);
    assert_eq!(call(&mut c, "x", "hello.record_hello", b"you".to_vec()).result, 0);
    assert_eq!(call(&mut c, "x", "hello.record_hello", vec![]).result, -17);
    assert_eq!(call(&mut c, "x", "hello.replay", vec![]).ops[0].data.to_vec(), b"Hello, you!");
    assert_eq!(call(&mut c, "x", "hello.turn_it_to_11", vec![]).result, 0);
    assert_eq!(c.read("x"), Ok("HELLO, YOU!".into()));
    assert_eq!(call(&mut c, "x", "hello.bad_reader", vec![]).result, -5);
    assert_eq!(call(&mut c, "x", "hello.bad_writer", vec![]).result, -5);
    assert_eq!(call(&mut c, "x", "hello.nothing", vec![]).result, -95);
    assert_eq!(call(&mut c, "x", "rgw.bucket_list", vec![]).result, -95);
    assert_eq!(call(&mut c, "x", "nothing.say_hello", vec![]).result, -1);
    let reply = call(&mut c, "x", "hello.write_return_data", vec![]);
    assert_eq!((reply.result, reply.ops[0].data.len()), (0, 0), "who does not ask for it gets nothing");
    c.check();
}

#[test]
fn numbers_are_calculated_beside_other_operations_of_the_vector() {
    let mut c = Cluster::new(3, 3, 2, 8);
    let with = |by: &str| Writer::encode(&(b"n".to_vec(), by.as_bytes().to_vec()));
    assert_eq!(call(&mut c, "x", "numops.add", with("4.5")).result, 0);
    assert_eq!(call(&mut c, "x", "numops.mul", with("-2")).result, 0);
    assert_eq!(call(&mut c, "x", "numops.add", with("4x")).result, -22);
    let add = Op::Call { class: "numops".into(), method: "add".into(), input: with("10").into() };
    let failing = Op::CmpExt { extent: Extent::new(0, 1), data: Bufs::from(vec![1]) };
    assert_eq!(c.op("x", vec![add.clone(), failing]).result, -4095);
    assert_eq!(c.op("x", vec![add, Op::SetXattr { name: b"a".to_vec(), value: Bufs::new() }]).result, 0);
    let keys = input::OmapKeys::from([b"n".to_vec(), b"m".to_vec()]);
    let reply = c.op("x", vec![Op::OmapGetValsByKeys { data: input::write(&keys) }]);
    let values: input::OmapValues = input::read(&reply.ops[0].data).expect("values");
    assert_eq!(values, input::OmapValues::from([(b"n".to_vec(), b"1".to_vec())]));
    let bad = input::OmapValues::from([(b"n".to_vec(), b"text".to_vec())]);
    c.op("x", vec![Op::OmapSetVals { data: input::write(&bad) }]);
    assert_eq!(call(&mut c, "x", "numops.add", with("1")).result, -74);
    c.check();
}

#[test]
fn an_object_goes_with_its_last_reference() {
    let mut c = Cluster::new(3, 3, 2, 8);
    let tag = |tag: &str| {
        v1(|w| {
            w.put(&tag.as_bytes().to_vec());
            w.put(&true);
        })
    };
    assert_eq!(call(&mut c, "x", "refcount.get", tag("a")).result, -2);
    c.write("x", "data");
    assert_eq!(call(&mut c, "x", "refcount.get", tag("a")).result, 0);
    assert_eq!(call(&mut c, "x", "refcount.put", tag("other")).result, 0, "the reference that nobody named");
    assert_eq!(c.read("x"), Ok("data".into()));
    assert_eq!(call(&mut c, "x", "refcount.put", tag("a")).result, 0);
    assert_eq!(c.read("x"), Err(-2));
    c.check();
}

#[test]
fn versions_guard_and_logs_list() {
    let mut c = Cluster::new(3, 3, 2, 8);
    let counter = |ver: u64| {
        v1(|w| {
            w.put(&ver);
            w.put(&b"t".to_vec());
        })
    };
    let one = |ver| v1(|w| w.raw(&counter(ver)));
    let conditions = |kind: u32, ver: u64| {
        v1(|w| {
            w.raw(&counter(0));
            w.count(1);
            w.raw(&v1(|w| {
                w.raw(&counter(ver));
                w.put(&kind);
            }));
        })
    };
    assert_eq!(call(&mut c, "x", "version.set", one(5)).result, 0);
    assert_eq!(call(&mut c, "x", "version.check_conds", conditions(1, 5)).result, 0);
    assert_eq!(call(&mut c, "x", "version.inc_conds", conditions(2, 5)).result, -125);
    assert_eq!(call(&mut c, "x", "version.inc_conds", conditions(3, 5)).result, 0);
    assert_eq!(call(&mut c, "x", "version.read", vec![]).ops[0].data.to_vec(), one(6));
    let entry = |sec: u32| {
        let mut w = Writer::new();
        let mut body = Writer::new();
        body.put(&(b"s".to_vec(), b"n".to_vec()));
        body.put(&Utime { sec, nsec: 0 });
        body.put(&(b"d".to_vec(), Vec::<u8>::new()));
        w.put(&(2u8, 1u8));
        w.put(&body.into_vec());
        w.into_vec()
    };
    for sec in [10, 20, 30] {
        let add = v1(|w| {
            w.count(1);
            w.raw(&entry(sec));
        });
        assert_eq!(call(&mut c, "log", "log.add", add).result, 0);
    }
    let span = |from: u32, to: u32| {
        v1(|w| {
            w.put(&Utime { sec: from, nsec: 0 });
            w.put(&Utime { sec: to, nsec: 0 });
        })
    };
    assert_eq!(call(&mut c, "log", "log.trim", span(0, 20)).result, 0);
    assert_eq!(call(&mut c, "log", "log.trim", span(0, 20)).result, -61);
    let list = v1(|w| {
        w.put(&Utime::default());
        w.put(&Vec::<u8>::new());
        w.put(&Utime::default());
        w.put(&0i32);
    });
    let reply = call(&mut c, "log", "log.list", list);
    assert_eq!(reply.ops[0].data.to_vec()[6..10], 1u32.to_le_bytes(), "one entry is left");
    c.check();
}

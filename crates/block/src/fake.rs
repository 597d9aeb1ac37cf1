//! A cluster in memory, as far as the machines here use one: objects with snapshots, the methods that they
//! call, watches. Operations are carried out when they are sent; answers come when the test wants them.

use crate::call::{Answer, Call, ObjectCall};
use crate::format::{NOSNAP, SnapInfo, SnapNamespace, snap_kind};
use crate::map::ObjectMap;
use maps::SnapId;
use msgs::Op;
use msgs::op::input::{ListWatchersReply, NotifyAckInput, WatchItem};
use std::collections::{BTreeMap, BTreeSet};
use stdx::{Buf, Bufs};
use wire::{Decode, Encode, Errno, Reader, Utime, Writer};

/// A data object: its head, and the states that snapshots see.
#[derive(Clone, Debug, Default)]
pub(crate) struct Data {
    pub(crate) head: Option<Vec<u8>>,
    seq: u64,
    clones: Vec<(Vec<u64>, Vec<u8>)>,
}

impl Data {
    pub(crate) fn at(&self, snap: SnapId) -> Option<&Vec<u8>> {
        if snap == SnapId::HEAD {
            return self.head.as_ref();
        }
        let clone = self.clones.iter().find(|(snaps, _)| snaps.contains(&snap.0)).map(|(_, data)| data);
        clone.or_else(|| self.head.as_ref().filter(|_| snap.0 > self.seq))
    }

    fn preserve(&mut self, call: &ObjectCall) {
        let new: Vec<u64> = call.snapc.snaps.iter().map(|s| s.0).filter(|s| *s > self.seq).collect();
        if let (Some(head), false) = (&self.head, new.is_empty()) {
            self.clones.push((new, head.clone()));
        }
        self.seq = self.seq.max(call.snapc.seq.0);
    }
}

/// An image's header.
#[derive(Clone, Debug, Default)]
pub(crate) struct FakeHeader {
    pub(crate) size: u64,
    pub(crate) features: u64,
    pub(crate) flags: u64,
    pub(crate) snap_seq: u64,
    /// Name and size of each snapshot.
    pub(crate) snaps: BTreeMap<u64, (String, u64)>,
    pub(crate) parent: Option<(crate::format::ParentSpec, u64)>,
    /// Only its snapshots share with the parent any more.
    pub(crate) flattened: bool,
    /// Clones of snapshots, and snapshots in the trash.
    pub(crate) children: BTreeMap<u64, u32>,
    pub(crate) trash: BTreeSet<u64>,
    /// Bytes that snapshots share with the parent.
    pub(crate) overlaps: BTreeMap<u64, u64>,
    /// Client and cookie.
    pub(crate) lock: Option<(u64, Vec<u8>)>,
}

/// The objects have 2^12 bytes.
pub(crate) const ORDER: u8 = 12;

/// A cluster with images `i` (of id `1`) and so on.
#[derive(Debug, Default)]
pub(crate) struct Fake {
    pub(crate) headers: BTreeMap<String, FakeHeader>,
    pub(crate) data: BTreeMap<String, Data>,
    pub(crate) maps: BTreeMap<String, ObjectMap>,
    map_locks: BTreeMap<String, u64>,
    /// By cookie: client and object.
    pub(crate) watches: BTreeMap<u64, (u64, String)>,
    pub(crate) blocklist: Vec<String>,
    pub(crate) last_snap: u64,
    /// Clones that their parents were told to forget.
    pub(crate) detached: u32,
    /// Fails changes of object maps.
    pub(crate) breaks_maps: bool,
}

type Output = Result<Vec<u8>, Errno>;

fn input<T: Decode>(bytes: &Bufs) -> T {
    Reader::new(&bytes.to_buf()).get().expect("an input of the method")
}

fn gives(value: &impl Encode) -> Output {
    Ok(Writer::encode(value))
}

/// Methods that change a header.
fn change_header(header: &mut FakeHeader, method: &str, bytes: &Bufs) -> Output {
    match method {
        "parent_detach" => {
            let is_deep = header.features & crate::format::feature::DEEP_FLATTEN != 0;
            header.flattened = true;
            if is_deep || header.overlaps.is_empty() {
                header.parent = None;
                header.overlaps.clear();
            }
            Ok(Vec::new())
        }
        "snapshot_trash_add" => {
            header.trash.insert(input(bytes));
            Ok(Vec::new())
        }
        "snapshot_remove" => {
            let id: u64 = input(bytes);
            if header.children.contains_key(&id) {
                return Err(Errno::EBUSY);
            }
            header.snaps.remove(&id).ok_or(Errno::ENOENT)?;
            header.overlaps.remove(&id);
            Ok(Vec::new())
        }
        "set_flags" => {
            let ((flags, mask), _): ((u64, u64), u64) = input(bytes);
            header.flags = header.flags & !mask | flags & mask;
            Ok(Vec::new())
        }
        "set_size" => {
            header.size = input(bytes);
            if let Some((_, overlap)) = &mut header.parent {
                *overlap = header.size.min(*overlap);
            }
            Ok(Vec::new())
        }
        "snapshot_add" => {
            let ((name, id), _): ((String, u64), SnapNamespace) = input(bytes);
            header.snap_seq = id;
            let overlap = header.parent.as_ref().map(|p| (id, p.1)).filter(|_| !header.flattened);
            header.overlaps.extend(overlap);
            header.snaps.insert(id, (name, header.size));
            Ok(Vec::new())
        }
        other => panic!("{other}"),
    }
}

impl Fake {
    /// Carries out a call of a client. `None` for a notification, whose answer takes its watchers.
    pub(crate) fn carry_out(&mut self, client: u64, call: &Call) -> Option<Answer> {
        Some(match call {
            Call::Object(call) => self.object(client, call),
            Call::Watch { object, cookie, .. } => {
                self.watches.insert(*cookie, (client, text(object)));
                Answer::Watching(Ok(client))
            }
            Call::Unwatch { cookie } => {
                Answer::Done(self.watches.remove(cookie).map(drop).ok_or(Errno::ENOTCONN))
            }
            Call::Notify { .. } => return None,
            Call::Command(command) => {
                self.blocklist.push(command.clone());
                Answer::Command { result: Ok(()), status: String::new(), output: Vec::new() }
            }
            Call::PoolSnap { remove, .. } => {
                self.last_snap += u64::from(remove.is_none());
                Answer::Snap(Ok(remove.unwrap_or(SnapId(self.last_snap))))
            }
            Call::NewestMap => Answer::Done(Ok(())),
        })
    }

    fn object(&mut self, client: u64, call: &ObjectCall) -> Answer {
        let name = text(&call.object);
        let before = (self.headers.clone(), self.data.get(&name).cloned(), self.maps.clone());
        let mut outputs = Vec::new();
        let mut preserved = false;
        for op in &call.ops {
            if op.code().writes() || matches!(op, Op::Call { method, .. } if method == "copyup") {
                if let Some(id) = name.strip_prefix("rbd_data.").and_then(|rest| rest.split('.').next()) {
                    let header = &self.headers[id];
                    let owner = header.lock.as_ref().map(|(owner, _)| *owner);
                    let locks = header.features & crate::format::feature::EXCLUSIVE_LOCK != 0;
                    assert!(!locks || owner == Some(client), "{client} writes, the lock is of {owner:?}");
                }
                if !preserved && name.starts_with("rbd_data") {
                    self.data.entry(name.clone()).or_default().preserve(call);
                }
                preserved = true;
            }
            match self.step(client, &name, call.snap, op) {
                Ok(output) => outputs.push(Bufs::from(output)),
                Err(errno) => {
                    // All or nothing.
                    (self.headers, self.maps) = (before.0, before.2);
                    match before.1 {
                        Some(data) => drop(self.data.insert(name, data)),
                        None => drop(self.data.remove(&name)),
                    }
                    return Answer::Object { result: Err(errno), outputs: Vec::new() };
                }
            }
        }
        Answer::Object { result: Ok(0), outputs }
    }

    fn step(&mut self, client: u64, name: &str, snap: SnapId, op: &Op) -> Output {
        match op {
            Op::Call { class, method, input } if class == "lock" => self.lock(client, name, method, input),
            Op::Call { method, input, .. } if method == "copyup" => {
                let data = self.data.entry(name.to_owned()).or_default();
                data.head.get_or_insert_with(|| input.to_vec());
                Ok(Vec::new())
            }
            Op::Call { method, input, .. } if name.starts_with("rbd_object_map.") => {
                self.map(name, method, input)
            }
            Op::Call { method, input, .. } => self.header(name, method, input),
            Op::ListWatchers => {
                let here = self.watches.iter().filter(|(_, (_, object))| object == name);
                let entry = |(cookie, (client, _)): (&u64, &(u64, String))| WatchItem {
                    cookie: *cookie,
                    addr: address(*client),
                    ..WatchItem::default()
                };
                gives(&ListWatchersReply { entries: here.map(entry).collect() })
            }
            Op::NotifyAck { .. } => Ok(Vec::new()),
            op => self.data_op(name, snap, op),
        }
    }

    fn data_op(&mut self, name: &str, snap: SnapId, op: &Op) -> Output {
        let data = self.data.entry(name.to_owned()).or_default();
        let put = |head: &mut Vec<u8>, at: u64, bytes: &[u8]| {
            let end = at as usize + bytes.len();
            head.resize(head.len().max(end), 0);
            head[at as usize..end].copy_from_slice(bytes);
        };
        match op {
            Op::Read(e) => {
                let all = data.at(snap).ok_or(Errno::ENOENT)?;
                let end = ((e.off + e.len) as usize).min(all.len());
                return Ok(all[(e.off as usize).min(end)..end].to_vec());
            }
            Op::Stat => drop(data.at(snap).ok_or(Errno::ENOENT)?),
            Op::Write { extent, data: bytes } => {
                put(data.head.get_or_insert_default(), extent.off, &bytes.to_vec());
            }
            Op::Create { .. } => drop(data.head.get_or_insert_default()),
            Op::Truncate(e) => data.head.get_or_insert_default().resize(e.off as usize, 0),
            Op::Zero(e) => {
                if let Some(head) = &mut data.head {
                    let end = ((e.off + e.len) as usize).min(head.len());
                    head[(e.off as usize).min(end)..end].fill(0);
                }
            }
            Op::Delete if name.starts_with("rbd_object_map.") => {
                self.maps.remove(name).ok_or(Errno::ENOENT)?;
            }
            Op::Delete => drop(data.head.take().ok_or(Errno::ENOENT)?),
            Op::Rollback { snap } => data.head = data.at(*snap).cloned(),
            other => panic!("{name}: {other:?}"),
        }
        Ok(Vec::new())
    }

    fn lock(&mut self, client: u64, name: &str, method: &str, input: &Bufs) -> Output {
        // The first fields of each input are the lock's name, and then the kind or the cookie.
        let bytes = input.to_buf();
        let (is_map, id) = match name.strip_prefix("rbd_object_map.") {
            Some(id) => (true, id.to_owned()),
            None => (false, name.strip_prefix("rbd_header.").expect("a header").to_owned()),
        };
        let cookie = |with_kind: bool| {
            Reader::new(&bytes).versioned(1, |_, r| {
                r.blob()?;
                if with_kind {
                    r.get::<u8>()?;
                }
                r.get::<Vec<u8>>()
            })
        };
        if is_map {
            let owner = self.map_locks.get(&id).copied();
            return match (method, owner) {
                ("lock", Some(other)) if other != client => Err(Errno::EBUSY),
                ("lock", Some(_)) => Err(Errno::EEXIST),
                ("lock", None) => gives(&self.map_locks.insert(id, client).map_or(0u8, |_| 0)),
                ("assert_locked", owner) => {
                    if owner == Some(client) {
                        Ok(Vec::new())
                    } else {
                        Err(Errno::EBUSY)
                    }
                }
                ("unlock" | "break_lock", _) => {
                    self.map_locks.remove(&id);
                    Ok(Vec::new())
                }
                ("get_info", owner) => gives_lock(owner.map(|owner| (owner, Vec::new())), b""),
                other => panic!("{other:?}"),
            };
        }
        let header = self.headers.get_mut(&id).ok_or(Errno::ENOENT)?;
        match (method, &header.lock) {
            ("lock", Some((owner, _))) if *owner != client => Err(Errno::EBUSY),
            ("lock", Some(_)) => Err(Errno::EEXIST),
            ("lock", None) => {
                header.lock = Some((client, cookie(true).expect("a cookie")));
                Ok(Vec::new())
            }
            ("assert_locked", Some((owner, held))) if *owner == client => {
                if cookie(true).expect("a cookie") == *held { Ok(Vec::new()) } else { Err(Errno::EBUSY) }
            }
            ("assert_locked", _) => Err(Errno::EBUSY),
            ("unlock" | "break_lock", _) => {
                header.lock = None;
                Ok(Vec::new())
            }
            ("get_info", lock) => gives_lock(lock.clone(), b"internal"),
            ("set_cookie", Some((owner, _))) if *owner == client => {
                let new = Reader::new(&bytes).versioned(1, |_, r| {
                    let _: (Vec<u8>, u8) = r.get()?;
                    let _: (Vec<u8>, Vec<u8>) = r.get()?;
                    r.get::<Vec<u8>>()
                });
                header.lock = Some((client, new.expect("a cookie")));
                Ok(Vec::new())
            }
            ("set_cookie", _) => Err(Errno::EBUSY),
            other => panic!("{other:?}"),
        }
    }

    fn map(&mut self, name: &str, method: &str, bytes: &Bufs) -> Output {
        if self.breaks_maps && method == "object_map_update" {
            return Err(Errno::EIO);
        }
        if method == "object_map_save" {
            self.maps.insert(name.to_owned(), input(bytes));
            return Ok(Vec::new());
        }
        let map = self.maps.get_mut(name).ok_or(Errno::ENOENT)?;
        match method {
            "object_map_load" => return gives(map),
            "object_map_resize" => map.resize(input::<(u64, u8)>(bytes).0),
            "object_map_snap_remove" => {
                let old: ObjectMap = input(bytes);
                let changed = |n: &u64| old.get(*n) == 1 && map.get(*n) == 3;
                let changed: Vec<u64> = (0..map.len()).filter(changed).collect();
                changed.into_iter().for_each(|n| map.set(n, 1));
            }
            "object_map_snap_add" => {
                let there: Vec<u64> = (0..map.len()).filter(|n| map.get(*n) == 1).collect();
                there.into_iter().for_each(|n| map.set(n, 3));
            }
            "object_map_update" => {
                let ((start, end), (new, current)): ((u64, u64), (u8, Option<u8>)) = input(bytes);
                if end > map.len() {
                    return Err(Errno::ERANGE);
                }
                let old: Vec<u64> =
                    (start..end).filter(|n| current.is_none_or(|current| map.get(*n) == current)).collect();
                old.into_iter().for_each(|n| map.set(n, new));
            }
            other => panic!("{other}"),
        }
        Ok(Vec::new())
    }

    fn header(&mut self, name: &str, method: &str, bytes: &Bufs) -> Output {
        match method {
            "get_id" => return gives(&"1".to_owned()),
            "dir_remove_image" => return Err(Errno::ENOENT),
            "child_detach" => {
                self.detached += 1;
                return Ok(Vec::new());
            }
            _ => {}
        }
        let id = name.strip_prefix("rbd_header.").expect("a header").to_owned();
        let header = self.headers.get_mut(&id).ok_or(Errno::ENOENT)?;
        let snap = |header: &FakeHeader| {
            let id: u64 = input(bytes);
            header.snaps.get(&id).cloned().map(|(name, size)| (id, name, size))
        };
        match method {
            "get_size" => gives(&(ORDER, header.size)),
            "get_features" => gives(&(header.features, 0u64)),
            "get_object_prefix" => gives(&format!("rbd_data.{id}")),
            "get_snapcontext" => {
                gives(&(header.snap_seq, header.snaps.keys().rev().copied().collect::<Vec<u64>>()))
            }
            "get_flags" => gives(&header.flags),
            "parent_get" => {
                let none = crate::format::ParentSpec { pool: -1, snap: NOSNAP, ..Default::default() };
                gives(&header.parent.as_ref().map_or(none, |(spec, _)| spec.clone()))
            }
            "parent_overlap_get" => match input(bytes) {
                NOSNAP => gives(&header.parent.as_ref().map(|p| p.1).filter(|_| !header.flattened)),
                snap => gives(&header.overlaps.get(&snap).copied()),
            },
            "get_data_pool" => gives(&-1i64),
            "snapshot_get" => {
                let (id, name, image_size) = snap(header).ok_or(Errno::ENOENT)?;
                let mut namespace = SnapNamespace::default();
                if header.trash.contains(&id) {
                    namespace.kind = snap_kind::TRASH;
                }
                let child_count = header.children.get(&id).copied().unwrap_or(0);
                gives(&SnapInfo { id, namespace, name, image_size, timestamp: Utime::default(), child_count })
            }
            "get_protection_status" => gives(&0u8),
            _ => change_header(header, method, bytes),
        }
    }

    /// The bytes of an image as they are stored, without a parent's.
    pub(crate) fn stored(&self, id: &str) -> Vec<u8> {
        let size = self.headers[id].size as usize;
        let mut all = vec![0; size];
        for n in 0..size.div_ceil(1 << ORDER) {
            let found = self.data.get(&format!("rbd_data.{id}.{n:016x}")).and_then(|data| data.head.as_ref());
            let from = n << ORDER;
            if let Some(head) = found {
                let len = head.len().min(size - from);
                all[from..from + len].copy_from_slice(&head[..len]);
            }
        }
        all
    }
}

fn gives_lock(lock: Option<(u64, Vec<u8>)>, tag: &[u8]) -> Output {
    let mut w = Writer::new();
    w.versioned(1, 1, |w| {
        w.count(lock.iter().count());
        if let Some((client, cookie)) = &lock {
            let id = wire::EntityId::new(wire::EntityType::CLIENT, *client as i64);
            w.versioned(1, 1, |w| w.put(&(id, cookie)));
            w.versioned(1, 1, |w| w.put(&((Utime::default(), address(*client)), Vec::<u8>::new())));
        }
        w.put(&(1u8, tag.to_vec()));
    });
    Ok(w.into_vec())
}

fn address(client: u64) -> wire::EntityAddr {
    wire::EntityAddr::parse(&format!("v1:10.0.0.1:0/{client}")).expect("an address")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The answer in an acknowledgement, the number of the notification, and the watch.
pub(crate) fn ack_of(call: &Call) -> Option<(u64, u64, Vec<u8>)> {
    let Call::Object(call) = call else { return None };
    let Some(Op::NotifyAck { data, .. }) = call.ops.first() else { return None };
    let data: Buf = data.to_buf();
    let ack: NotifyAckInput = Reader::new(&data).get().expect("an acknowledgement");
    Some((ack.notify_id, ack.watch_cookie, ack.reply))
}

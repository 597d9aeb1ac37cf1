//! Checker `images_consistent`: what holds of a pool of block-device images that nobody uses, looked at by
//! asking a client.
//!
//! - The directory lists the images that exist, and no others; each has its snapshots, and those of the trash
//!   have clones. A snapshot counts the clones that there are.
//! - No lock and no watch is left.
//! - Every object belongs to an image, to a snapshot of it, or to the directory.
//! - Object maps: an object that exists is in the map, in that of each snapshot too; one that is said not to
//!   have changed since the snapshot before has not.

use crate::cluster::{Cluster, IMAGES};
use crate::image_calls::{answer_of, request_of};
use block::{Answer, Call, Cx, Flow, Header, ObjectCall, Place, Progress, Script, feature};
use fsclient::{Answer as ClientAnswer, PoolRef, Request};
use maps::SnapId;
use msgs::class::lock::{GetInfoOp, LockInfo};
use msgs::{Extent, Op};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wire::{Errno, Reader, Writer};

/// The longest time until an answer.
const LIMIT: Duration = Duration::from_secs(60);
/// Longer than a watch outlives its client.
const LONGEST_WATCH: Duration = Duration::from_secs(40);
/// Objects of one page of the list.
const PAGE: usize = 1000;
const ABSENT: u8 = 0;
const CLEAN: u8 = 3;

/// An image that exists.
#[derive(Clone, Debug)]
pub struct Expected {
    /// Name.
    pub name: String,
    /// Id.
    pub id: String,
    /// Names of its snapshots; true if the creation of one was answered.
    pub snaps: BTreeMap<String, bool>,
}

/// Checks the images of the pool [`IMAGES`], of this id.
pub fn check(cluster: &mut Cluster, pool: i64, expected: &[Expected]) -> Result<(), String> {
    let place = Place { pool, namespace: Vec::new() };
    let mut audit = Audit { cluster, place };
    let here = audit.place.clone();
    let listed = audit.run(move |cx| block::list(cx, &here))?;
    let wanted: BTreeMap<String, String> = expected.iter().map(|e| (e.name.clone(), e.id.clone())).collect();
    if listed != wanted {
        return Err(format!("the directory has {listed:?}, there are {wanted:?}"));
    }
    let mut headers = BTreeMap::new();
    for image in expected {
        let header = audit.header(image)?;
        headers.insert(image.id.clone(), header);
    }
    check_clones(&headers)?;
    audit.strays(expected, &headers)?;
    expected.iter().try_for_each(|image| audit.maps(&headers[&image.id], &image.snaps))
}

/// Each snapshot counts its clones.
fn check_clones(headers: &BTreeMap<String, Header>) -> Result<(), String> {
    for (id, header) in headers {
        for snap in &header.snaps {
            let is_clone =
                |h: &&Header| h.parent.as_ref().is_some_and(|p| p.image == *id && p.snap == snap.info.id);
            let count = headers.values().filter(is_clone).count();
            if count != snap.info.child_count as usize || count == 0 && snap.is_trash() {
                return Err(format!("{id} has {:?}, and there are {count} clones of it", snap.info));
            }
        }
    }
    Ok(())
}

struct Audit<'a> {
    cluster: &'a mut Cluster,
    place: Place,
}

impl Audit<'_> {
    fn ask(&mut self, call: Call) -> Result<Answer, String> {
        let (request, kind) = request_of(call, 0);
        let admin = self.cluster.admin;
        let reply = self.cluster.ask(admin, request, LIMIT);
        reply.map(|reply| answer_of(kind, &reply)).ok_or_else(|| "no answer".to_owned())
    }

    fn run<T>(&mut self, run: impl FnMut(&mut Cx<'_>) -> Flow<T> + Send + 'static) -> Result<T, String> {
        let mut script = Script::new(run);
        let mut progress = script.start();
        loop {
            match progress {
                Progress::Ended(result) => return result.map_err(|error| error.to_string()),
                Progress::Waits => return Err("a script waits for nothing".to_owned()),
                Progress::Calls(calls) => {
                    progress = Progress::Waits;
                    for (i, call) in calls.into_iter().enumerate() {
                        let answer = self.ask(call)?;
                        progress = script.answer(i, answer);
                    }
                }
            }
        }
    }

    /// A vector on an object: `None` if there is no such object.
    fn object(&mut self, name: &[u8], snap: SnapId, op: Op) -> Result<Option<Vec<u8>>, String> {
        let call = ObjectCall::new(&self.place, name, vec![op]).at(snap);
        let answer = self.ask(Call::Object(call))?;
        match answer.result() {
            Ok(()) => Ok(Some(answer.output(0).to_vec())),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(format!("{}: {errno}", String::from_utf8_lossy(name))),
        }
    }

    /// The header of an image without watchers, locks and stale snapshots.
    fn header(&mut self, image: &Expected) -> Result<Header, String> {
        let (place, name) = (self.place.clone(), image.name.clone());
        let describe = move |cx: &mut Cx<'_>| block::info(cx, &place, &name);
        let mut info = self.run(describe.clone())?;
        if !info.watchers.is_empty() {
            // Watches outlive clients that died.
            self.cluster.world.run_for(LONGEST_WATCH);
            info = self.run(describe)?;
        }
        let (header, name) = (info.header, &image.name);
        if !info.watchers.is_empty() {
            return Err(format!("{name} is still watched by {:?}", info.watchers));
        }
        let users = header.snaps.iter().filter(|s| s.is_users()).map(|s| s.info.name.as_str());
        let (users, wanted): (BTreeSet<&str>, BTreeSet<&str>) =
            (users.collect(), image.snaps.keys().map(String::as_str).collect());
        if users != wanted {
            return Err(format!("{name} has the snapshots {users:?}, not {wanted:?}"));
        }
        if header.flags != 0 {
            return Err(format!("{name} has flags {}", header.flags));
        }
        for object in [format!("rbd_header.{}", image.id), format!("rbd_object_map.{}", image.id)] {
            let input = Writer::encode(&GetInfoOp { name: b"rbd_lock".to_vec() });
            let op = Op::Call { class: "lock".into(), method: "get_info".into(), input: input.into() };
            let Some(info) = self.object(object.as_bytes(), SnapId::HEAD, op)? else { continue };
            let info: LockInfo = Reader::new(&info).get().map_err(|error| error.to_string())?;
            if !info.lockers.is_empty() {
                return Err(format!("{object} is still locked: {info:?}"));
            }
        }
        Ok(header)
    }

    fn objects(&mut self) -> Result<Vec<String>, String> {
        let (mut all, mut cursor) = (Vec::new(), Vec::new());
        loop {
            let pool = PoolRef::from(IMAGES);
            let request = Request::ListObjects { pool, namespace: Vec::new(), cursor, max: PAGE };
            let admin = self.cluster.admin;
            match self.cluster.ask(admin, request, LIMIT) {
                Some(Ok(ClientAnswer::Objects { names, cursor: next })) => {
                    all.extend(names.into_iter().map(|(n, _)| String::from_utf8_lossy(&n).into_owned()));
                    if next.is_empty() {
                        return Ok(all);
                    }
                    cursor = next;
                }
                other => return Err(format!("the objects cannot be listed: {other:?}")),
            }
        }
    }

    fn strays(&mut self, expected: &[Expected], headers: &BTreeMap<String, Header>) -> Result<(), String> {
        let objects = self.objects()?;
        let belongs = |object: &String| {
            let of = |prefix: &str| object.strip_prefix(prefix);
            if let Some(name) = of("rbd_id.") {
                return expected.iter().any(|e| e.name == name);
            }
            if let Some(id) = of("rbd_header.") {
                return headers.contains_key(id);
            }
            if let Some(rest) = of("rbd_object_map.") {
                let (id, snap) = rest.split_once('.').unwrap_or((rest, ""));
                let has = |h: &Header| h.snaps.iter().any(|s| format!("{:016x}", s.info.id) == snap);
                let mapped = |h: &&Header| h.features & feature::OBJECT_MAP != 0;
                return headers.get(id).filter(mapped).is_some_and(|h| snap.is_empty() || has(h));
            }
            if let Some((id, n)) = of("rbd_data.").and_then(|rest| rest.split_once('.')) {
                let n = u64::from_str_radix(n, 16).unwrap_or(u64::MAX);
                return headers.get(id).is_some_and(|h| n < h.striper.object_count(h.size));
            }
            object == "rbd_directory"
        };
        match objects.iter().find(|object| !belongs(object)) {
            Some(object) => Err(format!("{object} belongs to no image")),
            None => Ok(()),
        }
    }

    /// Compares the maps of an image and its snapshots with the objects.
    fn maps(&mut self, header: &Header, made: &BTreeMap<String, bool>) -> Result<(), String> {
        if header.features & feature::OBJECT_MAP == 0 {
            return Ok(());
        }
        // A snapshot whose creation was interrupted has no map perhaps. Those of the trash are forgotten.
        let is_whole = |s: &block::Snap| made.get(&s.info.name).copied().unwrap_or(false);
        let of_snap = |s: &block::Snap| (s.id(), s.info.image_size, s.flags, is_whole(s));
        let head = (SnapId::HEAD, header.size, header.flags, true);
        let states: Vec<_> = header.snaps.iter().map(of_snap).chain([head]).collect();
        let mut before = None;
        for (snap, size, flags, is_whole) in states {
            let name = match snap {
                SnapId::HEAD => format!("rbd_object_map.{}", header.id),
                SnapId(snap) => format!("rbd_object_map.{}.{snap:016x}", header.id),
            };
            let load =
                Op::Call { class: "rbd".into(), method: "object_map_load".into(), input: Default::default() };
            let Some(map) = self.object(name.as_bytes(), SnapId::HEAD, load)? else {
                if !is_whole {
                    before = None;
                    continue;
                }
                return Err(format!("{name} is not there"));
            };
            let map = states_of(&map);
            let objects = header.striper.object_count(size);
            if flags != 0 || map.len() as u64 != objects {
                return Err(format!("{name} has flags {flags} and {} of {objects} objects", map.len()));
            }
            for (n, state) in map.into_iter().enumerate() {
                let data = format!("{}.{n:016x}", header.prefix).into_bytes();
                let read = || Op::Read(Extent::new(0, 0));
                let now = self.object(&data, snap, read())?;
                if now.is_some() && state == ABSENT {
                    return Err(format!("{name} does not have object {n}, which exists"));
                }
                let fast = header.features & feature::FAST_DIFF != 0 && state == CLEAN;
                if let (true, Some(before)) = (fast, before) {
                    let old = self.object(&data, before, read())?;
                    if trimmed(&old) != trimmed(&now) {
                        return Err(format!("{name} says that object {n} has not changed since {before}"));
                    }
                }
            }
            before = Some(snap);
        }
        Ok(())
    }
}

/// Content without the zeros at its end.
fn trimmed(data: &Option<Vec<u8>>) -> &[u8] {
    let data = data.as_deref().unwrap_or_default();
    let end = data.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &data[..end]
}

/// The states in a stored map: after a sized header with their number, four in a byte, the first highest.
fn states_of(map: &[u8]) -> Vec<u8> {
    let number = |at: usize, len: usize| {
        let bytes = map.get(at..at + len).unwrap_or_default();
        bytes.iter().rev().fold(0usize, |all, byte| all << 8 | usize::from(*byte))
    };
    let (head, count) = (4 + number(0, 4), number(10, 8));
    let state = |n: usize| map.get(head + n / 4).map(|byte| byte >> (6 - 2 * (n % 4)) & 3);
    (0..count).filter_map(state).collect()
}

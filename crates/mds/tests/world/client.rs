//! A scripted client: it keeps what it is given, gives back what is revoked (flushing first what it changed)
//! and builds requests.

use msgs::{
    Body, CapReconnect, Caps, ClientCaps, ClientReconnect, ClientReply, ClientRequest, FilePath, InodeStat,
    MdsOp, cap, cap_op,
};
use std::collections::BTreeMap;
use stdx::Now;
use wire::{Reader, Utime};

/// What Linux takes for granted on a file that it makes.
pub const TAKEN: u32 = cap::PIN
    | cap::ANY_RD
    | cap::AUTH_EXCL
    | cap::XATTR_EXCL
    | cap::FILE_EXCL
    | cap::FILE_WR
    | cap::FILE_BUFFER;

#[derive(Clone, Debug, Default)]
pub struct Held {
    pub cap_id: u64,
    pub caps: u32,
    pub wanted: u32,
    pub seq: u32,
    pub issue_seq: u32,
    pub size: u64,
    pub max_size: u64,
    pub mode: u32,
    pub truncate_seq: u32,
    /// Changed without telling.
    pub dirty: u32,
    pub mtime: wire::Timespec,
}

#[derive(Default)]
pub struct Client {
    pub id: u64,
    pub open: bool,
    pub next_tid: u64,
    pub next_flush: u64,
    pub held: BTreeMap<u64, Held>,
    pub replies: BTreeMap<u64, ClientReply>,
    /// Inode numbers that it may give to files that it creates asynchronously.
    pub delegated: std::collections::BTreeSet<u64>,
    /// Requests without their safe answer.
    pub unsafe_requests: BTreeMap<u64, ClientRequest>,
    /// Requests that were answered early and then repeated in vain.
    pub lost: Vec<u64>,
    /// Requests that it has to send to another rank, and how often they were forwarded.
    pub forwards: BTreeMap<u64, (i32, u32)>,
    /// The last capabilities that moved from one rank to another, by inode, as the rank has told.
    pub moved: BTreeMap<u64, ClientCaps>,
    /// Those that came, which it does not hold of the former rank any more.
    pub imported: Vec<ClientCaps>,
    /// What it holds of another rank from now on.
    pub exported: Vec<(u64, Held, msgs::CapPeer)>,
    pub flush_acks: Vec<u64>,
    /// Flushes whose data the MDS has taken.
    pub data_taken: std::collections::BTreeSet<u64>,
    /// Flushes that are not acknowledged, as they were sent.
    pub flushing: BTreeMap<u64, ClientCaps>,
    /// Gives nothing back.
    pub stubborn: bool,
    /// An inode of which it gives nothing back.
    pub keeps: Option<u64>,
    /// What a stubborn one was to give up.
    pub unconfirmed: std::collections::BTreeSet<u64>,
    /// Says that it is Linux's.
    pub is_linux: bool,
    /// Says that it makes directories asynchronously.
    pub makes_dirs: bool,
    /// Knows nothing of delegated numbers.
    pub is_old: bool,
    /// The identity that it keeps when it is restarted.
    pub uuid: Option<String>,
    /// The seconds for which its session is to be kept.
    pub timeout: Option<u32>,
    /// Why it was refused a session.
    pub rejected: Option<String>,
    /// Answers about its predecessor.
    pub reclaimed: Vec<msgs::ClientReclaimReply>,
    /// The OSD map that it must have before it accesses data, now and when a request was answered.
    pub barrier: maps::Epoch,
    pub barriers: BTreeMap<u64, maps::Epoch>,
    pub recalled: Option<u32>,
    pub revokes_seen: usize,
    /// Realms that it was told of: sequence number, and the snapshots that its writes preserve.
    pub realms: BTreeMap<u64, (u64, Vec<u64>)>,
    /// The realm of what it holds.
    pub realm_of: BTreeMap<u64, u64>,
    /// File locks that it claims, by inode: those of fcntl, and those of flock.
    pub locks: BTreeMap<u64, [Vec<msgs::FileLock>; 2]>,
    /// The claims of locks that were refused, as the server tells it.
    pub refused: String,
    /// What it was last told of trees with quotas.
    pub quotas: BTreeMap<u64, msgs::ClientQuota>,
}

impl Client {
    pub fn new(id: u64) -> Self {
        Self { id, next_tid: 1, next_flush: 1, ..Self::default() }
    }

    pub fn number(&mut self, mut request: ClientRequest, now: Now) -> (u64, ClientRequest) {
        let tid = self.next_tid;
        self.next_tid += 1;
        request.head_version = request.head_version.max(1);
        request.stamp = Utime::from(now.wall);
        request.oldest_client_tid = self.unsafe_requests.keys().next().copied().unwrap_or(tid);
        self.unsafe_requests.insert(tid, request.clone());
        (tid, request)
    }

    fn take(&mut self, stat: &InodeStat) {
        if stat.cap.cap_id == 0 {
            return;
        }
        let h = self.held.entry(stat.ino).or_default();
        h.cap_id = stat.cap.cap_id;
        h.caps = stat.cap.caps;
        h.wanted |= stat.cap.wanted;
        h.seq = stat.cap.seq;
        h.issue_seq = stat.cap.seq;
        if h.dirty == 0 {
            h.size = stat.size;
            h.mtime = stat.mtime;
        }
        h.max_size = stat.max_size;
        h.mode = stat.mode;
        h.truncate_seq = stat.truncate_seq;
    }

    pub fn receive(&mut self, tid: u64, body: Body) -> Vec<(u64, Body)> {
        match body {
            Body::ClientSession(m) => {
                self.session_told(&m);
                Vec::new()
            }
            Body::ClientReply(m) => {
                self.barriers.insert(tid, self.barrier);
                let request = self.unsafe_requests.get_mut(&tid).expect("an answer to a request");
                if request.flags & msgs::request_flag::REPLAY != 0 {
                    assert!(m.safe, "request {tid} has its early answer");
                    self.lost.extend((m.result != 0).then_some(tid));
                    self.unsafe_requests.remove(&tid);
                    return Vec::new();
                }
                if m.safe {
                    self.unsafe_requests.remove(&tid);
                } else {
                    request_again(request, &m);
                }
                if let Some(d) = &m.trace.dentry {
                    self.take(&d.dir);
                }
                if let Some(t) = &m.trace.target {
                    self.take(t);
                }
                if m.op == MdsOp::READDIR && !m.extra.is_empty() {
                    let listing: msgs::ReaddirReply = Reader::new(&m.extra).get().expect("a listing");
                    for e in &listing.entries {
                        self.take(&e.inode);
                    }
                }
                let delegates = m.op == MdsOp::CREATE || m.op == MdsOp::MKDIR && self.makes_dirs;
                assert!(
                    delegates || m.op != MdsOp::MKDIR || m.extra.is_empty(),
                    "Linux closes the connection"
                );
                if delegates && !m.extra.is_empty() && !self.is_old {
                    let created: msgs::CreatedInode = Reader::new(&m.extra).get().expect("an inode");
                    let numbers = created.delegated.iter().flat_map(|(first, count)| first..first + count);
                    for number in numbers {
                        assert!(self.delegated.insert(number), "{number:x} is delegated twice");
                    }
                }
                assert!(self.replies.insert(tid, *m).is_none(), "one answer for request {tid}");
                Vec::new()
            }
            Body::ClientCaps(m) => self.caps(tid, &m),
            Body::ClientSnap(m) => {
                self.snap_told(&m);
                Vec::new()
            }
            Body::ClientQuota(m) => {
                self.quotas.insert(m.ino, *m);
                Vec::new()
            }
            Body::ClientReclaimReply(m) => {
                self.reclaimed.push(*m);
                Vec::new()
            }
            Body::ClientRequestForward(m) => {
                self.unsafe_requests.remove(&tid).expect("a forward of a request without an answer");
                self.forwards.insert(tid, (m.dest_mds, m.num_fwd));
                Vec::new()
            }
            other => panic!("client gets {}", other.name()),
        }
    }

    fn session_told(&mut self, m: &msgs::ClientSession) {
        match m.head.op {
            msgs::session_op::OPEN => {
                self.open = true;
                let refused = m.metadata.get(msgs::session_metadata::REFUSED_LOCKS);
                self.refused = refused.map_or(String::new(), String::clone);
            }
            msgs::session_op::CLOSE => self.open = false,
            msgs::session_op::REJECT => self.rejected = m.metadata.get("error_string").cloned(),
            msgs::session_op::RECALL_STATE => self.recalled = Some(m.head.max_caps),
            _ => {}
        }
    }

    fn snap_told(&mut self, m: &msgs::ClientSnap) {
        if m.op == msgs::snap_op::SPLIT {
            self.realm_of.extend(m.split_inos.iter().map(|ino| (*ino, m.split)));
        } else {
            assert!(m.split_inos.is_empty() && m.split_realms.is_empty(), "newer kernels refuse that");
        }
        for realm in &m.trace {
            let known = self.realms.entry(realm.ino).or_default();
            if realm.seq.0 > known.0 {
                *known = (realm.seq.0, realm.snaps.iter().map(|snap| snap.0).collect());
            }
        }
    }

    fn caps(&mut self, tid: u64, m: &ClientCaps) -> Vec<(u64, Body)> {
        self.barrier = self.barrier.max(m.osd_epoch_barrier);
        match m.op {
            cap_op::FLUSH_ACK => {
                self.flush_acks.push(tid);
                self.data_taken.extend((m.inline_version == msgs::small_file::IN_JOURNAL).then_some(tid));
                self.flushing.remove(&tid);
                Vec::new()
            }
            cap_op::EXPORT => {
                // The other rank may have told it before.
                if self.held.get(&m.ino).is_some_and(|known| known.cap_id == m.cap_id) {
                    let held = self.held.remove(&m.ino).expect("just seen");
                    if let msgs::CapBody::Peer(next) = m.body {
                        self.exported.push((m.ino, held, next));
                    }
                }
                self.moved.insert(m.ino, m.clone());
                Vec::new()
            }
            cap_op::IMPORT => {
                let (cap_id, caps, wanted, seq) = (m.cap_id, m.caps.0, m.wanted.0, m.seq);
                let (size, max_size, mode) = (m.file().size, m.file().max_size, m.mode);
                let h = Held {
                    cap_id,
                    caps,
                    wanted,
                    seq,
                    issue_seq: seq,
                    size,
                    max_size,
                    mode,
                    ..Held::default()
                };
                let known = self.held.insert(m.ino, h);
                assert!(known.is_none_or(|known| known.cap_id == m.cap_id), "{:x} comes twice", m.ino);
                self.moved.insert(m.ino, m.clone());
                self.imported.push(m.clone());
                Vec::new()
            }
            cap_op::GRANT | cap_op::REVOKE => {
                let Some(h) = self.held.get_mut(&m.ino) else { return Vec::new() };
                if h.cap_id != m.cap_id {
                    return Vec::new();
                }
                let revoked = h.caps & !m.caps.0;
                h.caps = m.caps.0;
                h.seq = m.seq;
                h.max_size = m.file().max_size;
                h.mode = m.mode;
                if h.dirty == 0 && m.caps.0 & cap::ANY_SHARED != 0 {
                    h.size = m.file().size;
                }
                assert_eq!(m.op == cap_op::REVOKE, revoked != 0, "a revocation takes something");
                let keeps = self.stubborn || self.keeps == Some(m.ino);
                if revoked != 0 && keeps {
                    self.unconfirmed.insert(m.ino);
                }
                if revoked == 0 || keeps {
                    return Vec::new();
                }
                self.revokes_seen += 1;
                vec![self.update(m.ino)]
            }
            _ => Vec::new(),
        }
    }

    /// Tells the MDS what is held of an inode, flushing what was changed.
    pub fn update(&mut self, ino: u64) -> (u64, Body) {
        let h = self.held.get_mut(&ino).expect("held");
        let dirty = std::mem::take(&mut h.dirty);
        let mut m = ClientCaps {
            op: cap_op::UPDATE,
            ino,
            cap_id: h.cap_id,
            seq: h.seq,
            issue_seq: h.issue_seq,
            caps: Caps(h.caps),
            wanted: Caps(h.wanted),
            dirty: Caps(dirty),
            mode: h.mode,
            ..ClientCaps::default()
        };
        let file = msgs::CapFile {
            size: h.size,
            max_size: 0,
            // Linux does not say truncate_seq either.
            mtime: h.mtime,
            ..msgs::CapFile::default()
        };
        m.body = msgs::CapBody::File(file);
        let mut tid = 0;
        if dirty != 0 {
            tid = self.next_flush;
            self.next_flush += 1;
            self.flushing.insert(tid, m.clone());
        }
        (tid, m.into())
    }

    /// Writes up to `size` under the cap, without telling.
    pub fn write_to(&mut self, ino: u64, size: u64) -> bool {
        let h = self.held.get_mut(&ino).expect("held");
        if h.caps & cap::FILE_WR == 0 || size > h.max_size {
            return false;
        }
        h.size = h.size.max(size);
        h.dirty |= cap::FILE_WR;
        h.mtime.sec += 1;
        true
    }

    /// Syncs a new file that has this content: the flush that carries it.
    pub fn sync_small(&mut self, ino: u64, content: &[u8]) -> (u64, Body) {
        assert!(self.write_to(ino, content.len() as u64), "it may write");
        let (tid, body) = self.update(ino);
        let Body::ClientCaps(mut m) = body else { panic!("a message about a capability") };
        (m.op, m.flags) = (cap_op::FLUSH, msgs::cap_flag::SYNC);
        (m.inline_version, m.inline_data) = (msgs::small_file::IN_JOURNAL, content.to_vec());
        self.flushing.insert(tid, (*m).clone());
        (tid, (*m).into())
    }

    /// An asynchronous create, with the number that it takes for it.
    pub fn create_async(&mut self, path: &str) -> (u64, ClientRequest) {
        let number = self.delegated.pop_first().expect("a delegated number");
        (number, ClientRequest { ino: number, ..asynchronous(create(path, 0o202)) })
    }

    /// The same of a directory.
    pub fn mkdir_async(&mut self, path: &str) -> (u64, ClientRequest) {
        let number = self.delegated.pop_first().expect("a delegated number");
        (number, ClientRequest { ino: number, ..asynchronous(mkdir(path)) })
    }

    /// The flushes that it repeats before its claims, as Linux does: those of changes under bits that it gave
    /// up with them. It counts anew.
    pub fn flushes_again(&self) -> Vec<(u64, ClientCaps)> {
        let has_given_up = |m: &ClientCaps| self.held.get(&m.ino).is_some_and(|h| m.dirty.0 & !h.caps != 0);
        let again = self.flushing.iter().filter(|(_, m)| has_given_up(m));
        again.map(|(tid, m)| (*tid, ClientCaps { seq: 0, issue_seq: 0, ..m.clone() })).collect()
    }

    pub fn reconnect(&mut self) -> ClientReconnect {
        let mut m = ClientReconnect::default();
        self.delegated.clear();
        for (ino, h) in &mut self.held {
            h.seq = 0;
            h.issue_seq = 0;
            let locks = self.locks.get(ino).cloned().unwrap_or_default();
            let claim = CapReconnect {
                cap_id: h.cap_id,
                wanted: h.wanted,
                issued: h.caps,
                flock: locks.iter().flat_map(wire::Writer::encode).collect(),
                ..CapReconnect::default()
            };
            m.caps.insert(*ino, claim);
        }
        m
    }
}

/// Makes of a request that was answered early what is sent after a restart.
fn request_again(request: &mut ClientRequest, answer: &ClientReply) {
    request.flags |= msgs::request_flag::REPLAY;
    request.ino = answer.trace.target.as_ref().map_or(0, |t| t.ino);
}

/// A request on a path from the root.
pub fn request(op: MdsOp, path: &str) -> ClientRequest {
    ClientRequest {
        op,
        path: at_root(path),
        flags: msgs::request_flag::WANT_DENTRY,
        ..ClientRequest::default()
    }
}

pub fn at_root(path: &str) -> FilePath {
    FilePath { ino: 1, path: path.as_bytes().to_vec() }
}

pub fn create(path: &str, flags: u32) -> ClientRequest {
    let args = msgs::OpenArgs { flags: flags | 0o100, mode: 0o644, ..msgs::OpenArgs::default() };
    ClientRequest { args: args.into(), ..request(MdsOp::CREATE, path) }
}

/// A request whose client does not wait for the answer.
pub fn asynchronous(request: ClientRequest) -> ClientRequest {
    ClientRequest { flags: request.flags | msgs::request_flag::ASYNC, ..request }
}

pub fn open(path: &str, flags: u32) -> ClientRequest {
    let args = msgs::OpenArgs { flags, ..msgs::OpenArgs::default() };
    ClientRequest { args: args.into(), ..request(MdsOp::OPEN, path) }
}

pub fn mkdir(path: &str) -> ClientRequest {
    ClientRequest { args: msgs::MkdirArgs { mode: 0o755 }.into(), ..request(MdsOp::MKDIR, path) }
}

pub fn getattr(path: &str, mask: u32) -> ClientRequest {
    ClientRequest { args: msgs::GetattrArgs { mask }.into(), ..request(MdsOp::GETATTR, path) }
}

pub fn lookup(path: &str) -> ClientRequest {
    request(MdsOp::LOOKUP, path)
}

/// LOOKUP of a name in the directory that has this number.
pub fn lookup_in(dir: u64, name: &str) -> ClientRequest {
    let path = FilePath { ino: dir, path: name.as_bytes().to_vec() };
    ClientRequest { path, ..lookup("") }
}

pub fn two(op: MdsOp, new: &str, old: &str) -> ClientRequest {
    ClientRequest { path2: at_root(old), ..request(op, new) }
}

pub fn setxattr(path: &str, name: &str, value: &[u8]) -> ClientRequest {
    let path2 = FilePath { ino: 0, path: name.as_bytes().to_vec() };
    ClientRequest { path2, data: stdx::Bufs::from(value.to_vec()), ..request(MdsOp::SETXATTR, path) }
}

pub fn setattr_size(path: &str, size: u64) -> ClientRequest {
    let args = msgs::SetattrArgs { size, mask: msgs::setattr_mask::SIZE, ..msgs::SetattrArgs::default() };
    ClientRequest { args: args.into(), ..request(MdsOp::SETATTR, path) }
}

pub fn setattr_mode(path: &str, mode: u32) -> ClientRequest {
    let args = msgs::SetattrArgs { mode, mask: msgs::setattr_mask::MODE, ..msgs::SetattrArgs::default() };
    ClientRequest { args: args.into(), ..request(MdsOp::SETATTR, path) }
}

pub fn readdir(path: &str, after: &[u8], max_entries: u32) -> ClientRequest {
    readdir_of(0, path, after, max_entries)
}

/// A page of a fragment, by its number.
pub fn readdir_of(frag: u32, path: &str, after: &[u8], max_entries: u32) -> ClientRequest {
    let args = msgs::ReaddirArgs { frag, max_entries, flags: 1, ..msgs::ReaddirArgs::default() };
    ClientRequest {
        args: args.into(),
        path2: FilePath { ino: 0, path: after.to_vec() },
        ..request(MdsOp::READDIR, path)
    }
}

/// The place after a page: a fragment, and the name in it after which to go on; `None` after the last page.
pub fn next_page(listing: &msgs::ReaddirReply) -> Option<(u32, Vec<u8>)> {
    let frag = listing.dir.frag;
    if listing.flags & msgs::readdir_flag::FRAG_END == 0 {
        let last = listing.entries.last().expect("a page that is not the last has entries");
        return Some((frag, last.name.clone()));
    }
    let (bits, value) = (frag >> 24, u64::from(frag & 0xff_ffff));
    let next = value + (1u64 << (24 - bits));
    (next < 1 << 24).then_some((bits << 24 | next as u32, Vec::new()))
}

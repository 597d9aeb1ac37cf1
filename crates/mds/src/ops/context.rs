//! An operation's view: its request, and reads of the cache that record the newest event they depend on.

use super::flags::{is_async, is_replay};
use super::open_flags;
use super::path::{base, components};
use super::plan::Plan;
use super::promises::Promises;
use crate::authority::{Auth, Hold};
use crate::cache::{Cache, Dir, Inode, SlotLink};
use crate::config::RankConfig;
use crate::page::Page;
use crate::types::{ClientId, Holder, LastChange, Lsn, Need, OpId, Place, Stop};
use auth::{Access, Caller, MdsCap};
use fsfmt::{DentryKey, DirFrag, Ino, InodeKey, Realm};
use maps::{MdsRank, SnapId};
use msgs::{ClientRequest, FilePath, MdsOp, cap};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use wire::Errno;
use wire::Utime;

/// An inode that was sought so often does not exist.
const MOST_SEEKS: u32 = 4;

/// The view of one run of an operation.
pub struct Cx<'a> {
    /// The rank's cache.
    pub cache: &'a Cache,
    /// Configuration of the rank.
    pub cfg: &'a RankConfig,
    /// The client that asks.
    pub client: ClientId,
    /// Its request.
    pub request: &'a ClientRequest,
    /// The next free inode number.
    pub ino_next: u64,
    /// If the request was executed before: the inode that it created, or 0.
    pub done: Option<Ino>,
    /// Time of the operation.
    pub now: Utime,
    missing: &'a BTreeMap<InodeKey, Errno>,
    sought: Option<&'a BTreeMap<InodeKey, u32>>,
    pages: &'a [Page],
    auth: Option<&'a MdsCap>,
    async_work: AsyncWork,
    earlier: &'a dyn Fn(InodeKey) -> Option<OpId>,
    promises: Option<&'a Promises>,
    /// The directory that was last found to be nobody else's alone.
    checked: Cell<Option<InodeKey>>,
    seen: Cell<Lsn>,
    snap_id: Option<Result<SnapId, Errno>>,
    used_snap_id: Cell<bool>,
    has_absent: bool,
    revokes: RefCell<Vec<Need>>,
    /// The subtree of what the request is about first, once that is found to be this rank's.
    here: Cell<Option<Ino>>,
}

/// What the client does without waiting for answers.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsyncWork {
    /// It creates files and removes names.
    pub files: bool,
    /// It makes and removes directories.
    pub dirs: bool,
    /// It repeats what it did before a restart.
    pub is_repeating: bool,
}

/// Target of a path.
#[derive(Clone, Debug)]
pub struct Target {
    /// The inode at the end of the path.
    pub ino: InodeKey,
    /// The last entry on the way, if the path has a name.
    pub place: Option<Place>,
}

impl<'a> Cx<'a> {
    /// A view for one run.
    pub fn new(
        cache: &'a Cache,
        cfg: &'a RankConfig,
        client: ClientId,
        request: &'a ClientRequest,
        missing: &'a BTreeMap<InodeKey, Errno>,
        pages: &'a [Page],
        ino_next: u64,
    ) -> Self {
        Self {
            cache,
            cfg,
            client,
            request,
            ino_next,
            done: None,
            now: request.stamp,
            missing,
            sought: None,
            pages,
            auth: None,
            async_work: AsyncWork::default(),
            earlier: &|_| None,
            promises: None,
            checked: Cell::new(None),
            seen: Cell::new(0),
            snap_id: None,
            used_snap_id: Cell::new(false),
            has_absent: false,
            revokes: RefCell::new(Vec::new()),
            here: Cell::new(None),
        }
    }

    /// Adds the session's rights, and the result of an earlier execution of the same request.
    pub fn with_session(mut self, auth: &'a MdsCap, done: Option<Ino>) -> Self {
        self.auth = Some(auth);
        self.done = done;
        self
    }

    /// Adds what the client does asynchronously, and the last asynchronous request before this one in a
    /// directory, if it is under way.
    pub fn with_async(
        mut self,
        async_work: AsyncWork,
        earlier: &'a dyn Fn(InodeKey) -> Option<OpId>,
    ) -> Self {
        (self.async_work, self.earlier) = (async_work, earlier);
        self
    }

    /// Adds what other clients repeat, unless the client repeats something itself or has told its caller
    /// already what it does: such requests precede all others.
    pub fn with_promises(mut self, promises: &'a Promises) -> Self {
        let is_ahead = self.async_work.is_repeating || is_async(self.request);
        self.promises = (!is_ahead && !promises.is_empty()).then_some(promises);
        self
    }

    /// True if the plan must wait for what other clients repeat.
    pub fn must_wait(&self, plan: &Plan) -> bool {
        self.promises.is_some_and(|promises| promises.forbid(self.cache, self.request, plan))
    }

    fn check_promises(&self, is_promised: impl FnOnce(&Promises) -> bool) -> Result<(), Stop> {
        if self.promises.is_some_and(is_promised) { Err(Need::Promised.into()) } else { Ok(()) }
    }

    /// True if the answer that tells of an inode delegates numbers for further ones: other clients expect
    /// that of CREATE alone.
    pub fn delegates_numbers(&self) -> bool {
        match self.request.op {
            MdsOp::CREATE => true,
            MdsOp::MKDIR => self.async_work.dirs,
            _ => false,
        }
    }

    /// Adds an unused snapshot id, if the monitors have given one, and whether clients are absent.
    pub fn with_snapshots(mut self, snap_id: Option<Result<SnapId, Errno>>, has_absent: bool) -> Self {
        self.snap_id = snap_id;
        self.has_absent = has_absent;
        self
    }

    /// A new id for a change of realms. It is used up with the operation.
    pub fn snap_id(&self) -> Result<SnapId, Stop> {
        match self.snap_id {
            Some(id) => {
                self.used_snap_id.set(true);
                id.map_err(Stop::from)
            }
            None => Err(Need::SnapId.into()),
        }
    }

    /// True if the run used the snapshot id.
    pub fn used_snap_id(&self) -> bool {
        self.used_snap_id.get()
    }

    /// True if clients of the predecessor are absent.
    pub fn has_absent(&self) -> bool {
        self.has_absent
    }

    /// Adds how often the operation has waited for an inode until other ranks had stored what they have.
    pub fn with_sought(mut self, sought: &'a BTreeMap<InodeKey, u32>) -> Self {
        self.sought = Some(sought);
        self
    }

    /// Sets the time, for requests that carry none.
    pub fn at(mut self, now: Utime) -> Self {
        if self.now == Utime::default() {
            self.now = now;
        }
        self
    }

    /// The newest event of others that this run depends on: its answer must wait for it.
    pub fn seen(&self) -> Lsn {
        self.seen.get()
    }

    pub(super) fn see(&self, change: LastChange) {
        self.seen.set(self.seen.get().max(change.before(self.client)));
    }

    /// Stops unless this rank has the authority over an inode. Until it is known that it has it over what the
    /// request is about first, the client asks another rank; after that, it needs both.
    pub(super) fn check_authority(&self, ino: Ino) -> Result<(), Stop> {
        let authority = self.cache.authority(ino).map_err(|need| self.unless_missing(need))?;
        let there = match authority {
            Auth::Here if self.cache.unannounced.contains_key(&ino.head()) => {
                return Err(Need::Announced(ino.head()).into());
            }
            Auth::Here => return Ok(()),
            Auth::Frozen(root) => match self.leaves_to(root) {
                // It is handed over only once nothing is repeated here any more.
                Some(rank) if self.is_replay() || is_async(self.request) => {
                    return Err(Need::Remote(rank).into());
                }
                _ => return Err(Need::Thaw(root).into()),
            },
            Auth::Rank(_) if stdx::mutants::is_active("mds_answers_from_copies") => return Ok(()),
            Auth::Rank(_) if self.is_answered_from_replica(ino) => return Ok(()),
            Auth::Rank(rank) => rank,
        };
        match self.here.get() {
            None => Err(Need::Remote(self.nearer(there)).into()),
            Some(here) => Err(Need::Together { here, there: self.cache.root_of(ino)? }.into()),
        }
    }

    /// True if this rank has a replica that answers what the request wants to know of an inode: a file, or a
    /// name in a directory.
    fn is_answered_from_replica(&self, ino: Ino) -> bool {
        let path = &self.request.path;
        let is_name = ino.0 == path.ino && components(path).is_ok_and(|names| names.len() == 1);
        let reads = match self.request.op {
            MdsOp::LOOKUP => true,
            MdsOp::GETATTR => !is_name,
            MdsOp::OPEN => !is_name && !open_flags::changes(self.request),
            _ => false,
        };
        let has_names = || self.cache.replicas.kept(ino).is_some_and(|kept| !kept.is_returning);
        reads && (self.cache.is_shown_replica(ino) || is_name && has_names())
    }

    /// The rank that a subtree is being handed over to.
    fn leaves_to(&self, root: Ino) -> Option<MdsRank> {
        let is_leaving = self.cache.subtrees.hold(root) == Some(Hold::Leaving);
        self.cache.subtrees.record(root).filter(|_| is_leaving).map(|record| record.rank)
    }

    /// The rank to ask about the request, of which another one has what leads there.
    fn nearer(&self, rank: MdsRank) -> MdsRank {
        let path = &self.request.path;
        let names = components(path).unwrap_or_default().into_iter();
        self.cache.subtrees.rank_of_path(base(path).ino, names).unwrap_or(rank)
    }

    /// The request is about this inode first: whatever else it needs has to be under the same authority.
    pub(super) fn stay(&self, ino: InodeKey) -> Result<(), Stop> {
        if !self.cache.subtrees.is_sole() && ino.is_head() {
            self.check_authority(ino.ino)?;
            // What only a replica answers needs no authority.
            let is_here =
                self.cache.replicas.keeps_none() || matches!(self.cache.authority(ino.ino), Ok(Auth::Here));
            self.here.set(if is_here { Some(self.cache.root_of(ino.ino)?) } else { None });
        }
        Ok(())
    }

    /// True for the path of the request that says what it is about first.
    fn is_first(&self, path: &FilePath) -> bool {
        std::ptr::eq(path, &self.request.path)
    }

    /// `stay`, if this inode was found by the first path.
    fn stay_for(&self, path: &FilePath, ino: InodeKey) -> Result<(), Stop> {
        if self.is_first(path) { self.stay(ino) } else { Ok(()) }
    }

    /// Requires that no directory below this one is the root of a subtree of its own: something changes on
    /// which such a subtree relies.
    pub fn gather_below(&self, dir: InodeKey) -> Result<(), Stop> {
        if let Some(given) = self.cache.given_below(dir.ino).filter(|_| dir.is_head()) {
            return Err(Need::Alone(given).into());
        }
        match self.cache.subtrees.below(dir.ino).next() {
            Some(_) if stdx::mutants::is_active("mds_works_without_what_is_below") => Ok(()),
            Some((there, _)) => Err(Need::Together { here: self.cache.root_of(dir.ino)?, there }.into()),
            None => Ok(()),
        }
    }

    /// Requires that no fragment of a directory is a shard.
    pub fn gather_shards(&self, dir: InodeKey) -> Result<(), Stop> {
        match self.cache.subtrees.shards_of(dir.ino).next().filter(|_| dir.is_head()) {
            Some(there) => Err(Need::Together { here: self.cache.root_of(dir.ino)?, there }.into()),
            None => Ok(()),
        }
    }

    /// The same of a directory that gets another name.
    pub fn gather(&self, dir: InodeKey) -> Result<(), Stop> {
        match self.cache.subtrees.hold(dir.ino) {
            Some(_) => Err(Need::Together { here: dir.ino, there: dir.ino }.into()),
            None => self.gather_below(dir),
        }
    }

    /// Requires that all below a directory, or a file, is rank 0's: it changes the table of snapshots.
    pub fn gather_for_snaps(&self, ino: InodeKey) -> Result<(), Stop> {
        if self.cfg.rank != 0 {
            return Err(Need::Together { here: self.cache.root_of(ino.ino)?, there: Ino::ROOT }.into());
        }
        self.gather_below(ino)
    }

    /// Requires that the other ranks wait for a change of the table of snapshots: files with several names,
    /// of which all snapshots count, may be theirs.
    pub fn fence(&self) -> Result<(), Stop> {
        match self.cache.snaps.others_wait() || self.cache.subtrees.has_no_others() {
            true => Ok(()),
            false => Err(Need::Fence.into()),
        }
    }

    /// A file with several names waits while rank 0 may change the table of snapshots. What a client repeats
    /// was done before that.
    pub fn stay_outside_fence(&self, realm: Ino) -> Result<(), Stop> {
        let is_repeated = self.is_replay() || self.async_work.is_repeating;
        let is_closed = self.cache.snaps.is_fenced() && !is_repeated;
        match is_closed && realm == Realm::GLOBAL {
            true => Err(Need::Thaw(Realm::GLOBAL).into()),
            false => Ok(()),
        }
    }

    /// True if the client repeats the request although it has an answer.
    pub fn is_replay(&self) -> bool {
        is_replay(self.request)
    }

    /// True if the request must not be refused for lack of room: its client was told that it succeeds, or has
    /// told its caller so, as it may with the directory for itself.
    pub fn is_promised(&self) -> bool {
        let has_alone = |(dir, _): Place| {
            let held = self.cache.inodes.get(&dir.inode()).and_then(|inode| inode.caps.get(self.client));
            held.is_some_and(|c| c.held() & cap::DIR_ASYNC == cap::DIR_ASYNC)
        };
        let may_assume =
            || self.async_work.is_repeating || self.parent(&self.request.path).is_ok_and(has_alone);
        let is_repeated = self.is_replay() && self.async_work.is_repeating;
        is_repeated || is_async(self.request) && may_assume()
    }

    /// Looks up an inode.
    pub fn inode(&self, ino: InodeKey) -> Result<&'a Inode, Stop> {
        if let Some(errno) = self.missing.get(&ino).filter(|_| !self.cache.inodes.contains_key(&ino)) {
            return Err(self.unless_elsewhere(ino, *errno));
        }
        // A snapshot's states may be in directories that are gone.
        if ino.is_head() {
            self.check_authority(ino.ino)?;
        }
        let inode = self.cache.inode(ino)?;
        if inode.is_being_purged() || inode.is_abandoned() && !self.cache.is_kept(&inode.data) {
            return Err(Errno::ESTALE.into());
        }
        if ino.is_head() {
            self.stay_outside_fence(inode.data.realm)?;
        }
        self.see(inode.change);
        Ok(inode)
    }

    /// An inode that is not where the inode index says: another rank may have it in its journal.
    fn unless_elsewhere(&self, ino: InodeKey, errno: Errno) -> Stop {
        let subtrees = &self.cache.subtrees;
        // It may move again just then.
        let seeks = self.sought.and_then(|sought| sought.get(&ino)).copied().unwrap_or_default();
        let has_waited = seeks >= MOST_SEEKS;
        if errno != Errno::ESTALE || subtrees.is_sole() {
            return errno.into();
        }
        match subtrees.arriving() {
            // It may be in there.
            Some(root) => Need::Thaw(root).into(),
            None if has_waited => errno.into(),
            None => Need::Sought(ino).into(),
        }
    }

    /// An inode that is only shown under its name: of the root of a subtree that another rank has, a copy
    /// does. Clients ask the other rank for more.
    pub fn shown(&self, ino: InodeKey) -> Result<&'a Inode, Stop> {
        if !self.cache.subtrees.is_foreign_root(ino.ino) {
            return self.inode(ino);
        }
        let inode = self.cache.inode(ino)?;
        self.see(inode.change);
        Ok(inode)
    }

    /// A directory's inode.
    pub fn dir(&self, ino: InodeKey) -> Result<&'a Inode, Stop> {
        let inode = self.inode(ino)?;
        if inode.data.is_dir() { Ok(inode) } else { Err(Errno::ENOTDIR.into()) }
    }

    /// The directory of a fragment. Of one that is a shard there is a copy of it: what matters for a name in
    /// it does not change meanwhile.
    pub fn dir_of(&self, dir: DirFrag) -> Result<&'a Inode, Stop> {
        let keeper = self.cache.subtrees.keeper(dir);
        if keeper == dir.ino {
            return self.dir(dir.inode());
        }
        self.check_authority(keeper)?;
        self.copy_of(dir.ino)
    }

    /// A directory, whoever has the authority over it.
    pub fn copy_of(&self, dir: Ino) -> Result<&'a Inode, Stop> {
        self.cache.inode(dir.head()).map_err(|need| self.unless_missing(need))
    }

    /// Stops unless nobody else works asynchronously in a directory: its names are not known here until that
    /// client has given it up. What the asking client has done there is carried out first.
    pub fn check_alone(&self, dir: InodeKey) -> Result<(), Stop> {
        // A listing asks for each of its names.
        if self.checked.get() == Some(dir) {
            return Ok(());
        }
        if let Some(id) = (self.earlier)(dir) {
            return Err(Need::Earlier(id).into());
        }
        let is_dir = self.cache.inodes.get(&dir).is_some_and(|inode| inode.data.is_dir());
        let except = Some(self.client.into());
        match self.cache.revocation(dir, except, cap::DIR_ASYNC).filter(|_| is_dir) {
            Some(need) => Err(need.into()),
            None => {
                self.checked.set(Some(dir));
                Ok(())
            }
        }
    }

    /// True if the client may be let create and unlink in a directory asynchronously: it does so, and whoever
    /// asks there may change it, since nobody is asked then.
    pub fn may_create_async(&self, dir: InodeKey) -> bool {
        let may_write = |auth: &MdsCap| may_all_write(self.cache, &self.cfg.fs_name, auth, dir);
        self.async_work.files && !self.cfg.full && self.auth.is_some_and(may_write)
    }

    /// Looks up the target of a name.
    pub fn entry(&self, dir: DirFrag, key: &DentryKey) -> Result<SlotLink, Stop> {
        self.check_authority(self.cache.subtrees.keeper(dir))?;
        self.check_promises(|promises| promises.has_name(dir.ino, key))?;
        self.check_alone(dir.inode()).map_err(|stop| self.meanwhile(stop, dir, key))?;
        let (link, change) = self.cache.entry(dir, key)?;
        if let Some(kept) = self.cache.replicas.kept(dir.ino) {
            // A file comes with a capability, which is taken back before anything changes. Nothing would tell
            // a client that a name is there by now, or leads elsewhere.
            let is_shown = link.inode().is_some_and(|ino| self.cache.is_shown_replica(ino.ino));
            return if is_shown { Ok(link) } else { Err(Need::Remote(kept.from).into()) };
        }
        self.see(change);
        Ok(link)
    }

    /// While an operation waits for an earlier one, its entry is loaded: one client may have sent many, which
    /// would be looked for one by one.
    fn meanwhile(&self, stop: Stop, dir: DirFrag, key: &DentryKey) -> Stop {
        match stop {
            Stop::Need(mut needs) if needs.iter().any(|need| matches!(need, Need::Earlier(_))) => {
                needs.extend(self.cache.entry(dir, key).err());
                Stop::Need(needs)
            }
            other => other,
        }
    }

    /// The cached part of a fragment, for a listing.
    pub fn fragment(&self, dir: DirFrag) -> Result<Option<&'a Dir>, Stop> {
        self.check_authority(self.cache.subtrees.keeper(dir))?;
        self.check_promises(|promises| promises.has_name_in(dir.ino))?;
        self.check_alone(dir.inode())?;
        Ok(self.cache.dirs.get(&dir))
    }

    /// The fragment and key under which a directory keeps a name.
    pub fn place(&self, dir: InodeKey, name: &[u8]) -> Result<Place, Stop> {
        let key = DentryKey::new(name);
        if let Some(root) = self.cache.subtrees.shard(dir.ino, key.hash).filter(|_| dir.is_head()) {
            self.check_authority(root)?;
            return Ok((root.as_shard().expect("the root of a shard"), key));
        }
        let frag = self.dir(dir)?.data.frag_of(key.hash);
        Ok((frag, key))
    }

    /// `stay_for`, for what keeps a name.
    fn stay_in(&self, path: &FilePath, dir: DirFrag) -> Result<(), Stop> {
        self.stay_for(path, self.cache.subtrees.keeper(dir).head())
    }

    /// The directory of a path's last name, and that name.
    fn walk<'p>(&self, path: &'p FilePath) -> Result<(InodeKey, &'p [u8]), Stop> {
        let mut names = components(path)?;
        let Some(last) = names.pop() else { return Err(Errno::EINVAL.into()) };
        let mut dir = base(path);
        for name in names {
            dir = self.step(dir, name)?;
        }
        Ok((dir, last))
    }

    /// Fragment and key of a path's last name.
    pub fn parent(&self, path: &FilePath) -> Result<Place, Stop> {
        let (dir, last) = self.walk(path)?;
        let place = self.place(dir, last)?;
        self.stay_in(path, place.0)?;
        Ok(place)
    }

    pub(super) fn step(&self, dir: InodeKey, name: &[u8]) -> Result<InodeKey, Stop> {
        if let Some(ino) = self.prefix(dir, name) {
            return Ok(ino);
        }
        let (dir, key) = self.place(dir, name)?;
        self.entry(dir, &key)?.inode().ok_or(Errno::ENOENT.into())
    }

    /// Resolves a path.
    pub fn resolve(&self, path: &FilePath) -> Result<Target, Stop> {
        if path.path.is_empty() {
            let ino = base(path);
            self.inode(ino)?;
            self.stay_for(path, ino)?;
            return Ok(Target { ino, place: None });
        }
        let (dir, last) = self.walk(path)?;
        if let Some(ino) = self.prefix(dir, last) {
            // The root of a subtree of this rank, in a directory of another.
            self.stay_for(path, ino)?;
            return Ok(Target { ino, place: None });
        }
        let (dir, key) = self.place(dir, last)?;
        self.stay_in(path, dir)?;
        let link = self.entry(dir, &key)?;
        let Some(ino) = link.inode() else { return Err(Errno::ENOENT.into()) };
        if self.cache.subtrees.is_foreign_root(ino.ino) && self.is_first(path) {
            // The rank that has the subtree finds the way to it.
            self.here.set(None);
        }
        self.inode(ino)?;
        Ok(Target { ino, place: Some((dir, key)) })
    }

    /// The inode that a name on the way to a subtree of this rank leads to, in a directory that another rank
    /// has.
    fn prefix(&self, dir: InodeKey, name: &[u8]) -> Option<InodeKey> {
        let ino = self.cache.subtrees.prefix(dir.ino, name).filter(|_| dir.is_head())?;
        let keeper = self.cache.subtrees.keeper_of_name(dir.ino, name);
        let is_here = matches!(self.cache.authority(keeper), Ok(Auth::Here));
        (!is_here).then_some(ino.head())
    }

    /// What a path leads to, whoever has the authority over that.
    pub fn find(&self, path: &FilePath) -> Result<InodeKey, Stop> {
        if path.path.is_empty() {
            return Ok(base(path));
        }
        let (dir, last) = self.walk(path)?;
        self.step(dir, last)
    }

    /// Requires that nobody but `except` holds bits of `mask` on an inode when the operation is carried out.
    pub fn revoke(&self, ino: InodeKey, except: Option<Holder>, mask: u32) {
        self.revokes.borrow_mut().extend(self.cache.revocation(ino, except, mask));
    }

    /// Like [`Self::revoke`], for all holders but the asking client.
    pub fn revoke_others(&self, ino: InodeKey, mask: u32) {
        self.revoke(ino, Some(self.client.into()), mask);
    }

    /// Ends a run: returns the plan, unless bits must be revoked first.
    pub fn finish(&self, plan: Plan) -> Result<Plan, Stop> {
        let revokes = self.revokes.take();
        if revokes.is_empty() { Ok(plan) } else { Err(Stop::Need(revokes)) }
    }

    /// Initial `max_size` of a client that opens a file of `size` bytes.
    pub fn max_size_for(&self, size: u64) -> u64 {
        max_size_step(size, 0, self.cfg.max_file_size)
    }

    /// True if the client wants a dentry in the answer.
    pub fn wants_dentry(&self) -> bool {
        self.request.flags & msgs::request_flag::WANT_DENTRY != 0
    }

    /// The parts of a directory that have been cached without gaps since the last run.
    pub fn pages(&self, dir: DirFrag) -> impl Iterator<Item = &'a Page> {
        self.pages.iter().filter(move |p| p.dir == dir)
    }

    /// Checks the path of a request against what the session's key allows.
    pub fn check_access(&self) -> Result<(), Stop> {
        let Some(auth) = self.auth.filter(|a| !a.is_allow_all()) else { return Ok(()) };
        let writes = self.request.op.writes() || open_flags::changes(self.request);
        let access = match self.request.op {
            MdsOp::MKSNAP | MdsOp::RMSNAP | MdsOp::RENAMESNAP => Access::Snapshot,
            MdsOp::SETXATTR | MdsOp::RMXATTR if self.request.path2.path.starts_with(b"ceph.") => {
                Access::SetPolicy
            }
            MdsOp::SETLAYOUT | MdsOp::SETDIRLAYOUT => Access::SetPolicy,
            _ if writes => Access::Write,
            _ => Access::Read,
        };
        let ClientRequest { caller_uid: uid, caller_gid: gid, gid_list: more_gids, .. } = self.request;
        let caller = Caller { uid: *uid, gid: *gid, more_gids };
        let two = [&self.request.path, &self.request.path2];
        let op = self.request.op;
        let second = matches!(op, MdsOp::LINK | MdsOp::RENAME | MdsOp::RENAME_FLAGS);
        for path in two.into_iter().take(if second { 2 } else { 1 }) {
            let mut whole = self.cache.path_of(base(path)).map_err(|need| self.unless_missing(need))?;
            if let Some(whole) = &mut whole {
                for name in components(path)? {
                    if !whole.is_empty() {
                        whole.push(b'/');
                    }
                    whole.extend_from_slice(name);
                }
            }
            let text = String::from_utf8_lossy(whole.as_deref().unwrap_or(b""));
            if !auth.allows(&self.cfg.fs_name, &text, &caller, access) {
                return Err(Errno::EACCES.into());
            }
        }
        Ok(())
    }

    pub(super) fn unless_missing(&self, need: Need) -> Stop {
        match need {
            Need::Inode(ino) => {
                self.missing.get(&ino).map_or(Need::Inode(ino).into(), |e| self.unless_elsewhere(ino, *e))
            }
            need => need.into(),
        }
    }
}

/// The `max_size` granted to a client that asks for `asked` bytes of a file of `size` bytes. It grows in
/// steps, so that a writer rarely has to ask.
pub fn max_size_step(size: u64, asked: u64, most: u64) -> u64 {
    const STEP: u64 = 4 << 20;
    let wish = asked.max(size.saturating_mul(2)).max(size.saturating_add(1));
    wish.div_ceil(STEP).saturating_mul(STEP).min(most)
}

/// True if a key lets everybody at its client change a directory of the file system `fs_name`.
pub fn may_all_write(cache: &Cache, fs_name: &str, auth: &MdsCap, dir: InodeKey) -> bool {
    let lets = |path: Vec<u8>| auth.lets_all_write(fs_name, &String::from_utf8_lossy(&path));
    auth.is_allow_all() || cache.path_of(dir).ok().flatten().is_some_and(lets)
}

//! Commands by name, and what is done with time.

use crate::attributes;
use crate::background::{Background, Shared};
use crate::cluster::{Cluster, FileSystem};
use crate::evict::{self, Tell};
use crate::failure::{Done, Failure, invalid, missing};
use crate::outcome::Outcome;
use crate::place::{Group, Place, snapshot_name};
use crate::schedule::book::Book;
use crate::schedule::{commands, runner};
use crate::subvolume::{Op, Subvolume, open_group};
use crate::tree::Tree;
use crate::{access, clones, copying, groups, info, lifecycle, output, snapshots, trash, volume};
use client::Options;
use decl::{Args, MgrCmd};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use wire::Errno;

/// The object that says that a file system has subvolumes: then its trash and clones are looked at.
const IN_USE: &str = "in-use";
/// The object with a file system's snapshot schedules.
const SCHEDULES: &str = "schedules";
/// Seconds for which a new active manager looks back for snapshots that its predecessor did not take.
const LOOK_BACK: u64 = 120;
/// Seconds between two tries of what failed in the background.
const RETRY: u64 = 10;

/// What a command says.
enum Said {
    Nothing,
    Output(String),
    Status(String),
}

/// The commands, and what goes on in the background.
pub struct Volumes {
    shared: Arc<Shared>,
    purge: Background,
    copy: Background,
    /// The schedules of file systems; `None` until they are read.
    books: Option<BTreeMap<String, Book>>,
    /// File systems that are known to be noted as in use.
    noted: BTreeSet<String>,
    /// The time up to which schedules were looked at, in seconds since 1970.
    looked_at: u64,
    tried_at: u64,
}

impl Volumes {
    /// Connects as `options` say when there is something to do.
    pub fn new(options: Options) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::new(Cluster::new(options)));
        let purge =
            Background::start("purge", Arc::clone(&shared), |_, tree, go_on| trash::purge(tree, go_on))?;
        let copy = Background::start("clone", Arc::clone(&shared), |shared, tree, go_on| {
            copying::work(tree, &shared.files, go_on)
        })?;
        Ok(Self { shared, purge, copy, books: None, noted: BTreeSet::new(), looked_at: 0, tried_at: 0 })
    }

    /// This manager is the active one from now on, or not.
    pub fn set_active(&mut self, is_active: bool, now: u64) {
        self.shared.set_active(is_active);
        (self.books, self.looked_at) = (None, now.saturating_sub(LOOK_BACK));
        self.noted.clear();
        if !is_active {
            self.shared.cluster.leave();
        }
    }

    /// To be called every second or so: takes the snapshots that are due at `now`, in seconds since 1970, and
    /// gives up what is not used.
    pub fn tick(&mut self, now: u64) {
        if !self.shared.is_active() {
            return;
        }
        let retries = now.saturating_sub(self.tried_at) >= RETRY;
        if retries {
            self.tried_at = now;
            self.purge.retry();
            self.copy.retry();
        }
        if self.books.is_none() && retries {
            match self.read_books() {
                Ok(books) => self.books = Some(books),
                Err(failure) => tracing::warn!(error = failure.text, "snapshot schedules can't be read yet"),
            }
        }
        if self.books.is_some() && now > self.looked_at {
            self.run_schedules(now);
            self.looked_at = now;
        }
        self.shared.cluster.rest();
    }

    /// The nonces of its clients of the cluster, in order.
    pub fn clients(&self) -> Vec<u32> {
        self.shared.cluster.nonces()
    }

    /// Reads the schedules of all file systems, and wakes the background where there may be work.
    fn read_books(&self) -> Done<BTreeMap<String, Book>> {
        let mut books = BTreeMap::new();
        for fs in self.shared.cluster.file_systems()? {
            if self.shared.cluster.object(&fs, IN_USE)?.is_some() {
                self.purge.begin(&fs.name);
                self.copy.begin(&fs.name);
            }
            if let Some(stored) = self.shared.cluster.object(&fs, SCHEDULES)? {
                books.insert(fs.name, Book::parse(&stored)?);
            }
        }
        Ok(books)
    }

    fn run_schedules(&mut self, now: u64) {
        let (after, cluster) = (self.looked_at, &self.shared.cluster);
        let Some(books) = &mut self.books else { return };
        let due = books.iter_mut().filter(|(_, book)| runner::is_due(book, after, now));
        let mut gone = Vec::new();
        for (name, book) in due {
            let done = cluster.file_system(name).and_then(|fs| {
                let tree = cluster.tree(name)?;
                if runner::run(&tree, book, after, now)? {
                    cluster.write_object(&fs, SCHEDULES, book.to_bytes())?;
                }
                Ok(())
            });
            match done {
                Err(failure) if failure.errno == Errno::ENOENT => gone.push(name.clone()),
                Err(failure) => tracing::warn!(fs = name, error = failure.text, "scheduled snapshots"),
                Ok(()) => {}
            }
        }
        gone.iter().for_each(|name| drop(books.remove(name)));
    }

    /// Carries a command out at `now`, in seconds since 1970. Its permission has been checked. `tell` reaches
    /// metadata servers.
    pub fn run(&mut self, command: MgrCmd, args: &Args, now: u64, tell: &Tell<'_>) -> Outcome {
        if !self.shared.is_active() {
            return failed(&Failure::new(Errno::EAGAIN, "this manager is not active"));
        }
        let shared = Arc::clone(&self.shared);
        let _guard = shared.files.lock().unwrap_or_else(PoisonError::into_inner);
        match self.dispatch(command, args, now, tell) {
            Ok(Said::Nothing) => Outcome::default(),
            // Ceph's manager ends every output with a line feed.
            Ok(Said::Output(output)) => {
                let output = format!("{}\n", output.trim_end_matches('\n'));
                Outcome { output, ..Outcome::default() }
            }
            Ok(Said::Status(status)) => Outcome { status, ..Outcome::default() },
            Err(failure) => failed(&failure),
        }
    }

    #[expect(clippy::too_many_lines, reason = "one line a command: the table from declaration to code")]
    fn dispatch(&mut self, command: MgrCmd, args: &Args, now: u64, tell: &Tell<'_>) -> Done<Said> {
        use MgrCmd as C;
        use Said::{Nothing, Output, Status};
        let shared = Arc::clone(&self.shared);
        let cluster = &shared.cluster;
        let volume = args.opt_str("vol_name").unwrap_or_default();
        let tree = || cluster.tree(volume);
        let fs = || cluster.file_system(volume);
        let group = || Group::new(args.opt_str("group_name"));
        let place = || Place::new(group()?, args.str("sub_name"));
        let clone = || Place::new(group()?, args.str("clone_name"));
        let snap = args.opt_str("snap_name").unwrap_or_default();
        let force = args.flag("force");
        Ok(match command {
            C::VolumeLs => Output(volume::list(cluster)?),
            C::VolumeInfo => Output(volume::info(cluster, &tree()?, &fs()?, args.flag("human_readable"))?),
            C::VolumeCreate => {
                volume::create(cluster, args)?;
                Nothing
            }
            C::VolumeRm => Status(volume::remove(cluster, args)?),

            C::GroupLs => Output(output::names(groups::list(&tree()?)?)),
            C::GroupCreate => {
                self.note_use(&fs()?)?;
                done(groups::create(&tree()?, &group()?, args))?
            }
            C::GroupRm => done(groups::remove(&tree()?, &group()?, force))?,
            C::GroupInfo => Output(groups::info(cluster, &tree()?, volume, &group()?)?),
            C::GroupResize => Output(groups::resize(&tree()?, &group()?, args)?),
            C::GroupExist => Output(exist("subvolumegroup", !groups::list(&tree()?)?.is_empty())),
            C::GroupGetpath => Output(groups::path(&tree()?, &group()?)?),
            C::GroupPin => done(pin(&tree()?, &group()?.path(), args))?,
            C::GroupSnapLs => Output(output::names(groups::snapshots(&tree()?, &group()?)?)),
            C::GroupSnapCreate => {
                let text = "subvolume group snapshots are not supported";
                return Err(Failure::new(Errno::ENOSYS, text));
            }
            C::GroupSnapRm => done(groups::remove_snapshot(&tree()?, &group()?, args))?,

            C::SubvolumeLs => Output(output::names(subvolumes(&tree()?, &group()?)?)),
            C::SubvolumeExist => Output(exist("subvolume", !subvolumes(&tree()?, &group()?)?.is_empty())),
            C::SubvolumeCreate => {
                let fs = fs()?;
                self.note_use(&fs)?;
                done(lifecycle::create(&tree()?, &fs, &place()?, args))?
            }
            C::SubvolumeRm => {
                if lifecycle::remove(&tree()?, &place()?, force, args.flag("retain_snapshots"))? {
                    self.purge.begin(volume);
                }
                Nothing
            }
            C::SubvolumeAuthorize => Output(access::authorize(cluster, &tree()?, &fs()?, &place()?, args)?),
            C::SubvolumeDeauthorize => {
                done(access::deauthorize(cluster, &tree()?, &fs()?, &place()?, args.str("auth_id")))?
            }
            C::SubvolumeAuthorizedList => Output(access::list(&tree()?, &place()?)?),
            C::SubvolumeEvict => {
                let sub = Subvolume::open(&tree()?, &place()?, Op::EVICT)?;
                done(evict::run(cluster, tell, volume, sub.path(), args.str("auth_id")))?
            }
            C::SubvolumeGetpath => {
                Output(Subvolume::open(&tree()?, &place()?, Op::GETPATH)?.path().to_owned())
            }
            C::SubvolumeInfo => {
                let tree = tree()?;
                let sub = Subvolume::open(&tree, &place()?, Op::INFO)?;
                Output(info::of_subvolume(cluster, &tree, volume, &sub)?)
            }
            C::SubvolumeResize => {
                let tree = tree()?;
                let node = Subvolume::open(&tree, &place()?, Op::RESIZE)?.data(&tree)?;
                let (size, no_shrink) = (args.text("new_size"), args.flag("no_shrink"));
                let (size, used) = attributes::resize(&tree, &node, &size, no_shrink)?;
                Output(groups::resized(size, used))
            }
            C::SubvolumePin => {
                let tree = tree()?;
                let sub = Subvolume::open(&tree, &place()?, Op::PIN)?;
                done(pin(&tree, &sub.place.base(), args))?
            }

            C::MetadataSet | C::SnapMetadataSet => done(snapshots::set_value(&tree()?, &place()?, args))?,
            C::MetadataGet | C::SnapMetadataGet => Output(snapshots::get_value(&tree()?, &place()?, args)?),
            C::MetadataLs | C::SnapMetadataLs => Output(snapshots::list_values(&tree()?, &place()?, args)?),
            C::MetadataRm | C::SnapMetadataRm => done(snapshots::remove_value(&tree()?, &place()?, args))?,

            C::SnapLs => Output(snapshots::list(&tree()?, &place()?)?),
            C::SnapCreate => done(snapshots::create(&tree()?, &place()?, snap))?,
            C::SnapRm => {
                if snapshots::remove(&tree()?, &place()?, snap, force)? {
                    self.purge.begin(volume);
                }
                Nothing
            }
            C::SnapInfo => Output(snapshots::info(&tree()?, &fs()?, &place()?, snap)?),
            C::SnapProtect => Status(snapshots::protect(&tree()?, &place()?, "protect")?),
            C::SnapUnprotect => Status(snapshots::protect(&tree()?, &place()?, "unprotect")?),
            C::SnapClone => {
                snapshot_name(snap)?;
                clones::create(&tree()?, &fs()?, &place()?, args)?;
                self.copy.begin(volume);
                Nothing
            }
            C::CloneStatus => Output(clones::status(&tree()?, &clone()?)?),
            C::CloneCancel => {
                clones::cancel(&tree()?, &clone()?)?;
                self.copy.begin(volume);
                Nothing
            }

            C::ScheduleStatus => Output(self.book(args)?.with(|fs, book| commands::status(book, fs, args))?),
            C::ScheduleList => Output(self.book(args)?.with(|_, book| commands::list(book, args))?),
            C::ScheduleAdd => Output(self.book(args)?.change(|fs, book| commands::add(book, fs, args, now))?),
            C::ScheduleRemove => Output(self.book(args)?.change(|_, book| commands::remove(book, args))?),
            C::ScheduleActivate => {
                Output(self.book(args)?.change(|_, book| commands::activate(book, args, true))?)
            }
            C::ScheduleDeactivate => {
                Output(self.book(args)?.change(|_, book| commands::activate(book, args, false))?)
            }
            C::RetentionAdd => {
                Output(self.book(args)?.change(|_, book| commands::add_retention(book, args))?)
            }
            C::RetentionRemove => {
                Output(self.book(args)?.change(|_, book| commands::remove_retention(book, args))?)
            }
        })
    }

    /// Notes beside a file system's metadata that it has subvolumes, before the first is made.
    fn note_use(&mut self, fs: &FileSystem) -> Done<()> {
        if !self.noted.contains(&fs.name) {
            self.shared.cluster.write_object(fs, IN_USE, b"1".to_vec())?;
            self.noted.insert(fs.name.clone());
        }
        Ok(())
    }

    /// The schedules of the file system that a command names, or of the first.
    fn book(&mut self, args: &Args) -> Done<OpenBook<'_>> {
        if self.books.is_none() {
            self.books = Some(self.read_books()?);
        }
        let all = self.shared.cluster.file_systems()?;
        let fs = match args.opt_str("fs") {
            None => all.into_iter().next(),
            Some(name) => match all.into_iter().find(|fs| fs.name == name) {
                None => return invalid(format!("no such filesystem: {name}")),
                found => found,
            },
        };
        let (Some(fs), Some(books)) = (fs, &mut self.books) else { return missing("no filesystem found") };
        let book = books.entry(fs.name.clone()).or_default();
        Ok(OpenBook { cluster: &self.shared.cluster, fs, book })
    }
}

/// A file system's schedules, to be read or changed.
struct OpenBook<'a> {
    cluster: &'a Cluster,
    fs: FileSystem,
    book: &'a mut Book,
}

impl OpenBook<'_> {
    fn with(self, read: impl FnOnce(&str, &Book) -> Done<String>) -> Done<String> {
        read(&self.fs.name, self.book)
    }

    /// Changes the schedules, once they are stored.
    fn change(self, change: impl FnOnce(&str, &mut Book) -> Done<String>) -> Done<String> {
        let mut new = self.book.clone();
        let said = change(&self.fs.name, &mut new)?;
        self.cluster.write_object(&self.fs, SCHEDULES, new.to_bytes())?;
        *self.book = new;
        Ok(said)
    }
}

fn failed(failure: &Failure) -> Outcome {
    Outcome { code: failure.errno.to_result_code(), status: failure.text.clone(), ..Outcome::default() }
}

fn done(result: Done<()>) -> Done<Said> {
    result.map(|()| Said::Nothing)
}

fn exist(what: &str, any: bool) -> String {
    format!("{}{what} exists", if any { "" } else { "no " })
}

/// The subvolumes of a group.
fn subvolumes(tree: &Tree, group: &Group) -> Done<Vec<String>> {
    open_group(tree, group)?;
    match tree.dirs(&group.path()) {
        Err(Errno::ENOENT) if group.name().is_none() => Ok(Vec::new()),
        found => Ok(found?),
    }
}

fn pin(tree: &Tree, path: &str, args: &Args) -> Done<()> {
    let name = match args.str("pin_type") {
        "export" => "ceph.dir.pin",
        "distributed" => "ceph.dir.pin.distributed",
        _ => "ceph.dir.pin.random",
    };
    let node = tree.find(path)?;
    Ok(tree.set_xattr(&node, name, &args.text("pin_setting"))?)
}

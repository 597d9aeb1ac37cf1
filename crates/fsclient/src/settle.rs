//! Settling an inode that something happened to: buffered data leave, stale pages are invalidated, its MDS is
//! told.

use crate::api::{Answer, Invalidate};
use crate::cache::Cache;
use crate::key::InodeKey;
use crate::op::Outs;
use crate::services::{Services, Token};
use crate::sessions::Sessions;
use crate::transfer::extent;
use crate::window::Window;
use msgs::{Op as ObjectOp, osd_flag};
use node::{Output, RequestId};
use stdx::Now;
use wire::Utime;

/// The largest write of buffered data, in bytes.
const MAX_FLIGHT: u64 = 4 << 20;

/// The owners that settling needs.
pub(crate) struct Settling<'a> {
    pub(crate) cache: &'a mut Cache,
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) services: &'a mut Services,
    pub(crate) window: &'a mut Window,
}

impl Settling<'_> {
    /// Settles an inode.
    pub(crate) fn settle(&mut self, now: Now, key: InodeKey, out: &mut Outs) {
        self.write_back(now, key, out);
        self.cache.recount(key);
        self.invalidate(now, key, out);
        self.sessions.send_cap_message(now, self.cache, key, out);
        self.cache.end_settling(now, key);
        self.sessions.send_releases(now, self.cache, out);
    }

    /// Sends buffered data if somebody waits for them, they may not stay, or there are enough for a whole
    /// object: as many as the window has space for. The rest goes when others have arrived.
    fn write_back(&mut self, now: Now, key: InodeKey, out: &mut Outs) {
        if let Some(inode) = self.cache.inode_mut(key) {
            inode.discard_removed();
        }
        if self.hands_over(now, key) {
            return self.window.note_sync(now.mono);
        }
        loop {
            let is_due = |inode| self.cache.is_write_back_due(now, inode);
            if !self.cache.inode(key).is_some_and(is_due) {
                return;
            }
            let snapc = self.cache.snap_context(key);
            let inode = self.cache.open_inode(key);
            let is_urgent = inode.has_urgent_data();
            if !self.window.has_space(now.mono, is_urgent) {
                if inode.data().dirty().waiting_bytes() > 0 {
                    self.window.wait(now.mono, key, is_urgent);
                }
                return;
            }
            let Some((striper, flight)) = inode.take_off(MAX_FLIGHT) else { return };
            self.window.took_off(now.mono, flight.data.len() as u64, is_urgent);
            let (attrs, len) = (inode.attrs(), flight.data.len() as u64);
            let (object_no, off) = striper.locate(flight.offset);
            let extent = extent(attrs.truncation(), &striper, object_no, off, len);
            let (pool, ns) = (attrs.layout().pool, attrs.layout().pool_ns.clone().into_bytes());
            let oid = striper::object_name(key.ino(), object_no);
            let write = ObjectOp::Write { extent, data: flight.data };
            // In a full pool, who syncs gets an error instead of waiting for somebody to remove something.
            let mut request = rados::Request::write(pool, &ns, oid, vec![write])
                .with_snapc(snapc)
                .with_flags(osd_flag::FULL_TRY);
            request.mtime = Utime { sec: attrs.mtime().sec, nsec: attrs.mtime().nsec };
            let token = Token::Flight { key, offset: flight.offset, bytes: len };
            self.services.submit(now, token, request, out);
        }
    }

    /// Has a small new file go to its MDS, if that takes it. Returns true if it does from now on.
    fn hands_over(&mut self, now: Now, key: InodeKey) -> bool {
        let is_due = self.cache.inode(key).is_some_and(|inode| self.cache.is_write_back_due(now, inode));
        let Some(inode) = self.cache.inode_mut(key) else { return false };
        let rank = inode.caps().cap().map(|cap| cap.auth_rank());
        if rank.is_some_and(|rank| self.sessions.takes_small_files(rank)) {
            return is_due && inode.hand_over();
        }
        inode.keep_from_journal();
        false
    }

    /// Has local callers drop pages, attributes and names that may be stale: they go before the capability
    /// may that they rest on.
    fn invalidate(&mut self, now: Now, key: InodeKey, out: &mut Outs) {
        let ino = self.cache.number(key);
        let pages = self.cache.start_invalidation(key);
        let pages = pages.map(|id| (id, Invalidate::Inode { ino }));
        let attributes = self.cache.start_withdrawal(key).map(|id| (id, Invalidate::Attributes { ino }));
        let names = self.cache.start_name_withdrawal(now, key);
        let names = names.map(|(id, names)| (id, Invalidate::Names { parent: ino, names }));
        for (id, what) in [pages, attributes, names].into_iter().flatten() {
            out.push(Output::Reply { id: RequestId(0), reply: Ok(Answer::Invalidate { id, what }) });
        }
    }
}

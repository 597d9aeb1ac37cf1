//! What administrators ask of a rank, and are shown.

use super::Rank;
use super::fragments::Fragments;
use super::scrub::ScrubOptions;
use crate::authority::Auth;
use decl::Code;
use fsfmt::Ino;
use msgs::Caps;
use std::collections::BTreeMap;
use wire::Errno;

impl Rank {
    /// Sessions for people.
    pub fn session_list(&self) -> Vec<serde_json::Value> {
        self.sessions.describe(self.env.now())
    }

    /// Running operations, with what each waits for.
    pub fn op_list(&self) -> Vec<serde_json::Value> {
        self.ops.describe()
    }

    /// A cached live inode, for people: who holds what of it, and what is being revoked. `None` if it is not
    /// cached.
    pub fn describe_inode(&self, ino: Ino) -> Option<serde_json::Value> {
        let inode = self.cache.inodes.get(&ino.head())?;
        let path = self.cache.path_of(ino.head()).ok().flatten();
        let caps = inode.caps.iter().filter_map(|(holder, cap)| Some((holder.client()?, cap)));
        let caps = caps.map(|(client, cap)| {
            serde_json::json!({
                "client_id": client.0,
                "cap_id": cap.id,
                "pending": Caps(cap.pending).to_string(),
                "issued": Caps(cap.held()).to_string(),
                "wanted": Caps(cap.wanted).to_string(),
                "last_sent": cap.seq,
                "has_claimed": !cap.is_presumed,
            })
        });
        let revocations = inode.under_way.revocations.iter().map(|(op, all)| {
            let bits = all.iter().fold(0, |bits, one| bits | one.mask);
            serde_json::json!({ "op": format!("{op:?}"), "bits": Caps(bits).to_string() })
        });
        Some(serde_json::json!({
            "ino": inode.data.ino.0,
            "path": path.map(|path| String::from_utf8_lossy(&path).into_owned()),
            "nlink": inode.data.nlink,
            "size": inode.data.size,
            "auth": self.cache.authority(ino) == Ok(Auth::Here),
            "client_caps": caps.collect::<Vec<_>>(),
            "revocations": revocations.collect::<Vec<_>>(),
        }))
    }

    /// Writes back everything that is journaled so far; [`Self::is_flushed`] tells when that is done.
    pub fn flush_journal(&mut self) {
        self.write_back.flush(&mut self.env);
    }

    /// True if everything up to the last [`Self::flush_journal`] is written back.
    pub fn is_flushed(&self) -> bool {
        self.write_back.is_flushed(&self.env)
    }

    /// The fragments of a cached directory, for people.
    pub fn list_fragments(&self, path: &str) -> Result<serde_json::Value, (Errno, String)> {
        Fragments::list(&self.cache, path)
    }

    /// Has a fragment of a cached directory split into 2^`bits`.
    pub fn split_fragment(&mut self, path: &str, frag: &str, bits: u32) -> Result<(), (Errno, String)> {
        self.fragments.ask_split(&self.cache, path, (frag, bits))
    }

    /// Has all parts of a fragment of a cached directory joined.
    pub fn join_fragments(&mut self, path: &str, frag: &str) -> Result<(), (Errno, String)> {
        self.fragments.ask_join(&self.cache, path, frag)
    }

    /// Queues a scrub.
    pub fn start_scrub(&mut self, tag: String, path: String, options: ScrubOptions) {
        self.scrub.start(tag, path, options);
    }

    /// Ends all scrubs.
    pub fn abort_scrub(&mut self) {
        self.scrub.abort();
    }

    /// Stops scrubs after their present step, or lets them go on.
    pub fn pause_scrub(&mut self, is_paused: bool) {
        self.scrub.pause(is_paused);
    }

    /// Scrubs for people.
    pub fn scrub_status(&self) -> serde_json::Value {
        self.scrub.status()
    }

    /// What was found damaged, for people.
    pub fn damage_list(&self) -> Vec<serde_json::Value> {
        self.damage.list()
    }

    /// What the cluster's health is to show of this rank: lines by code.
    pub fn health(&self) -> BTreeMap<Code, Vec<String>> {
        let damage =
            if self.damage.len() > 0 { vec!["Metadata damage detected".to_owned()] } else { Vec::new() };
        let behind = self.env.journal().behind(self.env.now());
        let trim = behind.map(|(have, most)| {
            format!("Behind on trimming ({have}/{most}) max_segments: {most}, num_segments: {have}")
        });
        let all = [
            (Code::MdsDamage, damage),
            (Code::MdsTrim, trim.into_iter().collect()),
            (Code::MdsClientLateRelease, self.sessions.late_clients()),
            (Code::MdsClientOldestTid, self.sessions.clients_with_old_tids(self.env.cfg())),
        ];
        all.into_iter().filter(|(_, lines)| !lines.is_empty()).collect()
    }

    /// Forgets a damaged item, if there is one of that number.
    pub fn forget_damage(&mut self, id: u64) {
        self.damage.remove(id);
    }
}

//! Requests that clients repeat after a restart of the rank, because it may have lost what they were told
//! early, or did asynchronously: Ceph's client replay.
//!
//! A client sends them before its claims. They are carried out in order, one after the other, before anything
//! else that it asks for, and before requests of others. One may wait for a client that is absent: then
//! others go on, except with what it is about ([`Promises`]). If one fails, because the client came too late,
//! those after it are refused too: of what a client did, a suffix is lost and nothing from the middle.

use super::env::{Due, Env};
use super::ops::{Ops, empty_reply};
use super::reconnect::{Said, Unflushed, claim_cap};
use super::sessions::Sessions;
use crate::cache::Cache;
use crate::ops::{Promise, Promises, is_async, is_replay};
use crate::types::{ClientId, Need};
use fsfmt::{Ino, InodeKey};
use msgs::{
    Body, CapBody, CapPeer, CapReconnect, ClientCapRelease, ClientCaps, ClientReply, ClientRequest, cap_op,
};
use node::Level;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use stdx::Instant;
use wire::Errno;

/// The longest time for which all requests of others wait: a repeated one may wait for an absent client.
const OTHERS_WAIT: Duration = Duration::from_millis(500);

/// True if a request from before a restart is carried out before all others of its client.
fn is_repeated(request: &ClientRequest) -> bool {
    is_replay(request) || is_async(request)
}

/// A request that is being repeated.
struct Running {
    tid: u64,
    /// What it is about.
    promise: Promise,
    /// The number of the inode that it may make.
    ino: InodeKey,
}

/// A client whose requests are repeated.
#[derive(Default)]
struct Repeating {
    /// Those that have not begun.
    requests: VecDeque<(u64, ClientRequest)>,
    /// The one under way.
    running: Option<Running>,
    has_failed: bool,
    /// Its claims on inodes that do not exist yet.
    claims: BTreeMap<InodeKey, CapReconnect>,
    /// Its other messages that wait.
    said: Vec<Said>,
    /// The inodes of those that are about capabilities: what follows about them waits too.
    late: BTreeSet<u64>,
    /// What it flushes with these.
    unflushed: Unflushed,
    search: Search,
}

/// The search for claimed inodes that the inode index does not lead to: another rank may have in its journal
/// only what they are in.
#[derive(Default)]
enum Search {
    #[default]
    NotBegun,
    /// Others store what they have, for this inode and all others that the client claims.
    Storing(InodeKey),
    /// The claimed inodes are loaded again: which waits for which.
    Loading(BTreeMap<InodeKey, Vec<InodeKey>>),
    Ended,
}

impl Repeating {
    fn is_searching(&self) -> bool {
        matches!(self.search, Search::Storing(_) | Search::Loading(_))
    }

    /// Keeps a message that must wait, or returns it, or of a release each part as it should be.
    fn hold_back(&mut self, cache: &Cache, client: ClientId, (tid, body): Said) -> Option<Said> {
        let has_cap = |ino| cache.inodes.get(&Ino(ino).head()).is_some_and(|i| i.caps.contains_key(client));
        let waits = |ino| self.late.contains(&ino) || !has_cap(ino);
        let (now, late) = match body {
            Body::ClientCapRelease(mut m) => {
                let (late, now) = std::mem::take(&mut m.caps).into_iter().partition(|item| waits(item.ino));
                let part = |caps: Vec<_>| (!caps.is_empty()).then_some(ClientCapRelease { caps, ..*m });
                (part(now).map(Body::from), part(late).map(Body::from))
            }
            Body::ClientCaps(m) if waits(m.ino) => (None, Some(Body::ClientCaps(m))),
            Body::ClientRequest(m) => (None, Some(Body::ClientRequest(m))),
            body => (Some(body), None),
        };
        match &late {
            Some(Body::ClientCaps(m)) => {
                self.late.extend([m.ino]);
                self.unflushed.note(m);
            }
            Some(Body::ClientCapRelease(m)) => self.late.extend(m.caps.iter().map(|item| item.ino)),
            _ => {}
        }
        self.said.extend(late.map(|body| (tid, body)));
        now.map(|body| (tid, body))
    }
}

/// Repeated requests, and the messages that wait for them.
///
/// Invariants: between inputs each client here has a request under way, once the rank serves, or what it
/// claims is searched for; messages of others wait only while there is such a client; the promises are those
/// of the requests that are under way or have not begun, also of clients that are still absent.
#[derive(Default)]
pub(super) struct ClientReplay {
    clients: BTreeMap<ClientId, Repeating>,
    promises: Promises,
    /// Those of clients whose claims are not settled.
    expected: BTreeMap<ClientId, Vec<Promise>>,
    /// True if some were kept, or their client is gone, since [`Self::take_kept`].
    has_kept: bool,
    /// Messages of other clients that wait.
    others: VecDeque<(ClientId, Said)>,
    /// Time until which others wait.
    until: Option<Instant>,
}

/// A client whose requests were all repeated.
pub(super) struct Repeated {
    pub client: ClientId,
    claims: BTreeMap<InodeKey, CapReconnect>,
    unflushed: Unflushed,
    late: BTreeSet<u64>,
    has_searched: bool,
    pub said: Vec<Said>,
}

impl ClientReplay {
    /// A request of a client that is still absent has come.
    pub fn expect(&mut self, client: ClientId, request: &ClientRequest) {
        if is_repeated(request) {
            let promise = Promise::of(request);
            self.promises.add(&promise);
            self.expected.entry(client).or_default().push(promise);
        }
    }

    /// Forgets the requests of a client that is still absent: they come again, or never.
    pub fn expect_nothing(&mut self, client: ClientId) {
        for promise in self.expected.remove(&client).unwrap_or_default() {
            self.promises.remove(&promise);
            self.has_kept = true;
        }
    }

    /// A client has come back with `said`: takes the requests that it repeats, and returns the others.
    pub fn add(
        &mut self,
        sessions: &mut Sessions,
        client: ClientId,
        said: Vec<Said>,
        claims: Vec<(InodeKey, CapReconnect)>,
    ) -> Vec<Said> {
        let mut one = Repeating { claims: claims.into_iter().collect(), ..Repeating::default() };
        let mut rest = Vec::new();
        for (tid, body) in said {
            match body {
                Body::ClientRequest(r) if is_repeated(&r) => one.requests.push_back((tid, *r)),
                body => rest.push((tid, body)),
            }
        }
        sessions.keep_numbers(client);
        self.expect_nothing(client);
        one.requests.iter().for_each(|(_, request)| self.promises.add(&Promise::of(request)));
        one.requests.make_contiguous().sort_by_key(|(tid, _)| *tid);
        self.clients.insert(client, one);
        rest
    }

    /// The rank serves from now on.
    pub fn serve(&mut self, now: Instant) {
        self.until = Some(now + OTHERS_WAIT);
    }

    /// What is promised to clients and not yet carried out.
    pub fn promises(&self) -> &Promises {
        &self.promises
    }

    /// True if others who wait for promises should look again.
    pub fn take_kept(&mut self) -> bool {
        std::mem::take(&mut self.has_kept)
    }

    /// Time at which others go on.
    pub fn deadline(&self) -> Option<Instant> {
        self.until.filter(|_| !self.others.is_empty())
    }

    /// Keeps a message that must wait, or returns it. Capabilities are given back meanwhile, since repeated
    /// requests may need them; but nothing is said of an inode that they may be about to make.
    pub fn hold_back(&mut self, env: &Env, cache: &Cache, client: ClientId, said: Said) -> Option<Said> {
        if let Some(one) = self.clients.get_mut(&client) {
            return one.hold_back(cache, client, said);
        }
        let is_waiting = |(other, _): &(ClientId, Said)| *other == client;
        let others_wait = !self.clients.is_empty() && self.until.is_some_and(|at| env.now() < at);
        let asks = matches!(&said.1, Body::ClientRequest(r) if !is_replay(r));
        if others_wait && (asks || self.others.iter().any(is_waiting)) {
            self.others.push_back((client, said));
            return None;
        }
        Some(said)
    }

    /// Begins the next request of each client that has none under way. Returns a client that has no more.
    pub fn advance(&mut self, env: &mut Env, sessions: &mut Sessions, ops: &mut Ops) -> Option<Repeated> {
        for (client, one) in &mut self.clients {
            while one.running.is_none()
                && let Some((tid, request)) = one.requests.pop_front()
            {
                let promise = Promise::of(&request);
                if !sessions.begin_request(env.now(), *client, tid, request.oldest_client_tid) {
                    self.promises.remove(&promise);
                    continue;
                }
                if one.has_failed {
                    self.promises.remove(&promise);
                    sessions.end_request(*client, tid);
                    let result = Errno::ESTALE.to_result_code();
                    let refusal = ClientReply { result, ..empty_reply(env, request.op) };
                    sessions.send(env, *client, env.journal().last(), tid, refusal);
                } else {
                    one.running = Some(Running { tid, promise, ino: Ino(request.ino).head() });
                    ops.start(env.now(), *client, tid, request);
                }
            }
        }
        let has_ended =
            |one: &Repeating| one.running.is_none() && one.requests.is_empty() && !one.is_searching();
        let client = self.clients.iter().find(|(_, one)| has_ended(one)).map(|(client, _)| *client)?;
        let Repeating { claims, unflushed, said, late, search, .. } = self.clients.remove(&client)?;
        let has_searched = matches!(search, Search::Ended);
        Some(Repeated { client, claims, unflushed, late, has_searched, said })
    }

    /// Other ranks are asked to store what they have, because the inode `first` and others that the client
    /// claims are not found. Until then it waits.
    pub fn search(&mut self, repeated: Repeated, first: InodeKey) {
        let Repeated { client, claims, unflushed, late, said, .. } = repeated;
        let search = Search::Storing(first);
        let one = Repeating { claims, unflushed, late, said, search, ..Repeating::default() };
        self.clients.insert(client, one);
    }

    /// Others have stored what they had, for this inode: what clients claim is loaded again.
    pub fn all_is_stored(&mut self, env: &mut Env, cache: &Cache, first: InodeKey) {
        let waiting = self.clients.values_mut();
        for one in waiting.filter(|one| matches!(&one.search, Search::Storing(ino) if *ino == first)) {
            let unfound = one.claims.keys().filter(|ino| !cache.inodes.contains_key(ino));
            let loading: BTreeMap<InodeKey, Vec<InodeKey>> = unfound.map(|ino| (*ino, vec![*ino])).collect();
            loading.keys().for_each(|ino| env.due(Due::Load(Need::Inode(*ino), None)));
            one.search = if loading.is_empty() { Search::Ended } else { Search::Loading(loading) };
        }
    }

    /// An inode was loaded, or does not exist: decides the claims that waited for it and are found.
    pub fn loaded(&mut self, env: &mut Env, cache: &mut Cache, sessions: &mut Sessions, loaded: InodeKey) {
        for (client, one) in &mut self.clients {
            let Search::Loading(loading) = &mut one.search else { continue };
            for ino in loading.remove(&loaded).unwrap_or_default() {
                if let Some(missing) = cache.missing_for_claim(ino).filter(|missing| *missing != loaded) {
                    loading.entry(missing).or_default().push(ino);
                    env.due(Due::Load(Need::Inode(missing), None));
                } else if cache.inodes.contains_key(&ino)
                    && let Some(claim) = one.claims.remove(&ino)
                {
                    settle_claim(env, cache, sessions, *client, (ino, &claim, &one.unflushed));
                }
            }
            if loading.is_empty() {
                one.search = Search::Ended;
            }
        }
    }

    /// A request of a client is answered; if it is a repeated one, the next may begin. The client has what it
    /// claims of the inode that was made before others see that.
    pub fn ended(
        &mut self,
        env: &mut Env,
        cache: &mut Cache,
        sessions: &mut Sessions,
        client: ClientId,
        (tid, errno): (u64, Option<Errno>),
    ) {
        let Some(one) = self.clients.get_mut(&client) else { return };
        let Some(Running { promise, ino, .. }) = one.running.take_if(|running| running.tid == tid) else {
            return;
        };
        if cache.inodes.contains_key(&ino)
            && let Some(claim) = one.claims.remove(&ino)
        {
            settle_claim(env, cache, sessions, client, (ino, &claim, &one.unflushed));
        }
        self.promises.remove(&promise);
        self.has_kept = true;
        if let Some(errno) = errno {
            one.has_failed = true;
            let (why, more) = (errno.name().unwrap_or("an error"), one.requests.len());
            let text = format!("{client} repeats a request that fails with {why}; {more} more are refused");
            env.log(Level::Warn, "unsafe_requests_lost", text);
        }
    }

    /// The messages of others that need wait no longer.
    pub fn release_others(&mut self, now: Instant) -> VecDeque<(ClientId, Said)> {
        if self.clients.is_empty() || self.until.is_none_or(|at| now >= at) {
            return std::mem::take(&mut self.others);
        }
        VecDeque::new()
    }

    /// Forgets a client whose session has ended.
    pub fn drop_client(&mut self, client: ClientId) {
        self.expect_nothing(client);
        if let Some(one) = self.clients.remove(&client) {
            one.running.iter().for_each(|running| self.promises.remove(&running.promise));
            one.requests.iter().for_each(|(_, request)| self.promises.remove(&Promise::of(request)));
            self.has_kept = true;
        }
        self.others.retain(|(other, _)| *other != client);
    }

    /// True if requests of clients are being repeated, or what they claim is searched for.
    pub fn has_clients(&self) -> bool {
        !self.clients.is_empty()
    }

    /// True if requests of clients are being repeated.
    pub fn is_repeating(&self) -> bool {
        self.clients.values().any(|one| !one.is_searching())
    }

    /// True if nothing waits.
    pub fn is_quiet(&self) -> bool {
        self.clients.is_empty() && self.others.is_empty()
    }

    /// Asserts what holds between inputs.
    pub fn check(&self, is_serving: bool) {
        assert!(
            !is_serving || self.clients.values().all(|one| one.running.is_some() || one.is_searching()),
            "repeated requests run"
        );
        let is_nobodys = self.clients.is_empty() && self.expected.is_empty();
        assert!(self.promises.is_empty() || !is_nobodys, "promises are to clients");
        assert!(self.others.is_empty() || !self.clients.is_empty(), "others wait only for a reason");
    }
}

impl Repeated {
    /// An inode that is claimed, not cached and not searched for yet.
    pub fn unfound(&self, cache: &Cache) -> Option<InodeKey> {
        let mut claimed = self.claims.keys().filter(|_| !self.has_searched);
        claimed.find(|ino| !cache.inodes.contains_key(ino)).copied()
    }

    /// Decides the claims on inodes that the repeated requests were to make: those that are not there are
    /// gone. The numbers that the client had reserved are not used again, for lost creates may have used
    /// them.
    pub fn settle(&self, env: &mut Env, cache: &mut Cache, sessions: &mut Sessions) {
        if sessions.get(self.client).is_some_and(|s| s.record().was_absent) {
            let text = format!("{} has come back, after others had gone on", self.client);
            env.log(Level::Info, "client_returned", text);
        }
        sessions.drop_numbers(env, cache, self.client);
        let lsn = env.journal().last();
        for (ino, claim) in &self.claims {
            if cache.inodes.contains_key(ino) {
                settle_claim(env, cache, sessions, self.client, (*ino, claim, &self.unflushed));
                continue;
            }
            let text = format!("{} claims {ino}, which is gone", self.client);
            env.log(Level::Info, "claimed_cap_dropped", text);
            let (op, body) = (cap_op::EXPORT, CapBody::Peer(CapPeer { mds: -1, ..CapPeer::default() }));
            let gone = ClientCaps { op, ino: ino.ino.0, cap_id: claim.cap_id, body, ..ClientCaps::default() };
            sessions.send(env, self.client, lsn, 0, gone);
        }
    }
}

/// Decides a late claim on an inode that exists by now, of which the client may have something `unflushed`.
fn settle_claim(
    env: &mut Env,
    cache: &mut Cache,
    sessions: &mut Sessions,
    client: ClientId,
    (ino, claim, unflushed): (InodeKey, &CapReconnect, &Unflushed),
) {
    if cache.inodes.get(&ino).is_some_and(|inode| inode.caps.contains_key(client)) {
        // An asynchronous create made it, and its answer has the capability.
        return;
    }
    let refused = claim_cap(env, cache, sessions, client, ino, (claim, unflushed));
    if !refused.is_empty() {
        sessions.send_reopened(env, client, &refused);
    }
    env.due(Due::CapsChanged(ino));
}

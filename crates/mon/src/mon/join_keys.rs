//! Keys by which hosts join: the leading monitor removes them when their time is over, and all monitors then
//! end the sessions that still use them.

use crate::entry::Change;
use crate::mon::{Mon, Out};
use crate::quorum::proxies::is_proxy;
use crate::storage::Storage;
use node::Output;
use std::ops::Bound;
use stdx::{Instant, Now};
use wire::{EntityName, EntityType};

impl<S: Storage> Mon<S> {
    /// Removes the keys whose time is over.
    pub(super) fn tick_join_keys(&mut self, now: Now) {
        let (second, _) = now.wall.split();
        let first = EntityName::new(EntityType::CLIENT, "join.");
        let keys = self.log.tail().auth.range((Bound::Included(first), Bound::Unbounded));
        let keys = keys.map(|(name, _)| name).take_while(|name| name.id.starts_with("join."));
        let over = keys.filter(|name| auth::join_expiry(name).is_some_and(|expires| expires <= second));
        let over: Vec<EntityName> = over.cloned().collect();
        if over.is_empty() {
            return;
        }
        self.edit(now, |edit| {
            for name in over {
                edit.notes.push(format!("the join token of {name} has expired"));
                edit.push(Change::Auth(name, None));
            }
        });
    }

    /// Ends the sessions of keys that are gone: a session would outlive its key.
    pub(super) fn end_joins(&mut self, now: Instant, out: &mut Vec<Out>) {
        let known = self.log.state().auth.clone();
        let is_over = |name: &EntityName| auth::join_expiry(name).is_some() && !known.contains_key(name);
        for conn in self.sessions.conns() {
            let over = self.sessions.get(conn).is_some_and(|session| is_over(session.name()));
            if over && !is_proxy(conn) {
                out.push(Output::Close { conn });
                self.closed(now, conn);
                self.forget_requests(now, conn, out);
            }
        }
    }
}

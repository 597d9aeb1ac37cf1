//! WATCH, LIST_WATCHERS, NOTIFY, NOTIFY_ACK: changes of an object's watches, and their effects once they are
//! durable.

use super::exec::Exec;
use super::result::{OpOutput, done, output};
use crate::watch::{DEFAULT_TIMEOUT, Effect, StoredWatch, WATCH_ATTR, to_bytes};
use msgs::op::input::{ListWatchersReply, NotifyInput, WatchItem};
use msgs::op::watch_op;
use stdx::Bufs;
use store::TxnOp;
use wire::{Errno, Reader};

impl Exec<'_> {
    pub(super) fn watch(&mut self, cookie: u64, op: u8, timeout: u32) -> Result<OpOutput, Errno> {
        self.must_exist()?;
        let watcher = (cookie, self.caller.who);
        let timeout = if timeout == 0 { DEFAULT_TIMEOUT } else { timeout };
        let known = self.watches.contains_key(&watcher);
        match op {
            watch_op::WATCH | watch_op::LEGACY_WATCH => {
                if !known {
                    let (client, addr) = (self.caller.who, self.caller.addr);
                    self.watches.insert(watcher, StoredWatch { cookie, client, timeout, addr });
                    self.store_watches();
                }
                let pings = op == watch_op::WATCH;
                self.effects.push(Effect::Connect { watcher, timeout, pings });
            }
            watch_op::RECONNECT | watch_op::PING if !known => return Err(Errno::ENOTCONN),
            watch_op::RECONNECT => self.effects.push(Effect::Connect { watcher, timeout, pings: true }),
            watch_op::PING if !self.caller.watches.is_connected(self.key, watcher) => {
                return Err(Errno::ETIMEDOUT);
            }
            watch_op::PING => self.effects.push(Effect::Ping(watcher)),
            watch_op::UNWATCH => {
                if self.watches.remove(&watcher).is_some() {
                    self.store_watches();
                    self.effects.push(Effect::End { watcher, tell: self.caller.expired });
                }
            }
            _ => return Err(Errno::EINVAL),
        }
        done()
    }

    /// Stores the watches, without a new version of the object.
    pub(super) fn store_watches(&mut self) {
        self.modified = true;
        let (key, name) = (self.key.clone(), WATCH_ATTR.to_vec());
        self.txn.push(match self.watches.is_empty() {
            true => TxnOp::RemoveAttr(key, name),
            false => TxnOp::SetAttr(key, name, to_bytes(&self.watches)),
        });
    }

    /// Ends all watches of a deleted object and informs the watchers.
    pub(super) fn end_watches(&mut self) {
        let ended = std::mem::take(&mut self.watches).into_keys();
        self.effects.extend(ended.map(|watcher| Effect::End { watcher, tell: true }));
    }

    pub(super) fn list_watchers(&mut self) -> Result<OpOutput, Errno> {
        self.must_exist()?;
        let entries = self.watches.values().map(|w| WatchItem {
            name: w.client,
            cookie: w.cookie,
            timeout: w.timeout,
            addr: w.addr,
        });
        output(&ListWatchersReply { entries: entries.collect() })
    }

    /// The client recognizes the completion by the notification's number.
    pub(super) fn notify(&mut self, i: usize, cookie: u64, data: &Bufs) -> Result<OpOutput, Errno> {
        self.must_exist()?;
        let input: NotifyInput = Reader::new(&data.to_buf()).get().unwrap_or_default();
        let timeout = if input.timeout == 0 { DEFAULT_TIMEOUT } else { input.timeout };
        let (id, version) = (self.caller.notify_id + i as u64, self.info.user_version);
        self.effects.push(Effect::Notify { id, cookie, timeout, version, payload: input.payload });
        output(&id)
    }

    /// Old clients send only the notification's number, in place of the cookie.
    pub(super) fn notify_ack(&mut self, cookie: u64, data: &Bufs) -> Result<OpOutput, Errno> {
        self.must_exist()?;
        let bytes = data.to_buf();
        let mut r = Reader::new(&bytes);
        let client = self.caller.who;
        self.effects.push(match r.get::<(u64, u64)>() {
            Ok((id, cookie)) => {
                let reply = r.get().unwrap_or_default();
                Effect::Ack { client, id, cookie: Some(cookie), reply }
            }
            Err(_) => Effect::Ack { client, id: cookie, cookie: None, reply: Vec::new() },
        });
        done()
    }
}

//! Rotating service keys: tickets are sealed under one of three that a service knows at a time, so that a new
//! one can spread before it is used.

use crate::usage::Usage;
use crate::{AuthError, Key, sealed};
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::{Rng, Wall};
use wire::{Utime, wire_structs};

/// Previous, current and next.
const HELD: usize = 3;

wire_structs! {
    /// A key with the moment from which nothing sealed under it may be valid.
    pub struct ExpiringKey[u8 1] {
        /// The key.
        pub key: Key,
        /// Its end.
        pub expiration: Utime,
    }

    /// The keys of one service by secret id; the last is "next", the one before it "current".
    pub struct RotatingKeys[u8 1] {
        /// By secret id.
        pub secrets: BTreeMap<u64, ExpiringKey>,
        /// The newest secret id ever given.
        pub max_ver: u64,
    }
}

impl RotatingKeys {
    /// True if a key is missing or the current one has expired: then commit [`Self::rotated`].
    pub fn needs_rotation(&self, now: Wall) -> bool {
        self.secrets.len() < HELD || self.current().is_none_or(|(_, k)| Wall::from(k.expiration) <= now)
    }

    /// The keys after rotation at `now`, each used for `ttl`. Draws new keys: a monitor calls it once when it
    /// proposes, and commits the result.
    #[must_use]
    pub fn rotated(&self, now: Wall, ttl: Duration, rng: &mut Rng) -> Self {
        let mut next = self.clone();
        while next.needs_rotation(now) {
            let last = next.secrets.values().last().map_or(now, |k| Wall::from(k.expiration).max(now + ttl));
            next.max_ver += 1;
            let key = ExpiringKey { key: Key::generate(now, rng), expiration: (last + ttl).into() };
            next.secrets.insert(next.max_ver, key);
            while next.secrets.len() > HELD {
                next.secrets.pop_first();
            }
        }
        next
    }

    /// The key that tickets are sealed under now.
    pub fn current(&self) -> Option<(u64, &ExpiringKey)> {
        let back = if self.secrets.len() > 1 { 1 } else { 0 };
        self.secrets.iter().rev().nth(back).map(|(id, key)| (*id, key))
    }

    /// The key with this secret id, if still held.
    pub fn get(&self, secret_id: u64) -> Option<&Key> {
        self.secrets.get(&secret_id).map(|k| &k.key)
    }

    /// The validity of a ticket made at `now`: at most `ttl`, and never longer than the *next* key, or its
    /// holder would be refused before it renews.
    pub fn ticket_ttl(&self, now: Wall, ttl: Duration) -> Duration {
        let end = self.secrets.values().last().map_or(now, |k| k.expiration.into());
        ttl.min(end.since(now))
    }

    /// For the way to a daemon: sealed under the daemon's own key.
    pub fn seal_for(&self, principal: &Key, rng: &mut Rng) -> Vec<u8> {
        sealed::seal(principal, Usage::RotatingSecret, self, rng)
    }

    /// The inverse of [`Self::seal_for`].
    pub fn open_sealed(principal: &Key, cipher: &[u8]) -> Result<Self, AuthError> {
        sealed::open(principal, Usage::RotatingSecret, cipher)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyType;

    const HOUR: Duration = Duration::from_secs(3600);
    fn at(hours: u64) -> Wall {
        Wall(0) + Duration::from_secs(1000) + HOUR * u32::try_from(hours).expect("small")
    }

    #[test]
    fn holds_three_and_moves_on_when_the_current_one_expires() {
        let mut rng = Rng::from_seed(1);
        let first = RotatingKeys::default().rotated(at(0), HOUR, &mut rng);
        assert_eq!(first.secrets.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
        let (id, current) = first.current().expect("some");
        assert_eq!(id, 2);
        assert!(!first.needs_rotation(at(0)));
        let expired = Wall::from(current.expiration);
        assert!(first.needs_rotation(expired));
        let second = first.rotated(expired, HOUR, &mut rng);
        assert_eq!(second.secrets.keys().copied().collect::<Vec<_>>(), [2, 3, 4]);
        assert_eq!(second.get(3), first.get(3), "the next key became the current one");
        assert!(!second.needs_rotation(expired));
    }

    #[test]
    fn a_ticket_never_outlives_the_next_key() {
        let keys = RotatingKeys::default().rotated(at(0), HOUR, &mut Rng::from_seed(1));
        let end: Wall = keys.secrets[&3].expiration.into();
        assert_eq!(keys.ticket_ttl(at(0), HOUR), HOUR);
        assert_eq!(keys.ticket_ttl(at(0), HOUR * 100), end.since(at(0)));
        assert_eq!(keys.ticket_ttl(end, HOUR), Duration::ZERO);
    }

    #[test]
    fn travels_sealed() {
        let mut rng = Rng::from_seed(3);
        let keys = RotatingKeys::default().rotated(at(1), HOUR, &mut rng);
        for kind in [KeyType::Aes, KeyType::Aes256k] {
            let mut key = || Key::generate_as(kind, at(0), &mut rng);
            let (mine, other) = (key(), key());
            let sealed = keys.seal_for(&mine, &mut rng);
            assert_eq!(RotatingKeys::open_sealed(&mine, &sealed), Ok(keys.clone()));
            assert!(RotatingKeys::open_sealed(&other, &sealed).is_err());
        }
    }
}

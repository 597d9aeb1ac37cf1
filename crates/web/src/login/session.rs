//! A session is a cookie that only this process can have made: the user's name, a mark of the password, the
//! time of its end and a number, with their HMAC. Nothing is kept for it but the numbers of those that were
//! ended by a log-out.

use super::users::{User, Users};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The cookie's name.
pub(crate) const COOKIE: &str = "nacre_session";
/// The time of a session in seconds: a working day.
const LIFE_S: u64 = 8 * 3600;
/// The most log-outs that are remembered; more end the oldest sessions' memory first.
const MAX_ENDED: usize = 10_000;

/// A valid session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Session {
    /// Who has logged in.
    pub user: User,
    /// Its number.
    id: [u8; 16],
    /// Seconds since 1970.
    until: u64,
}

/// Makes and checks cookies.
pub(crate) struct Keys {
    key: hmac::Key,
    random: SystemRandom,
    ended: Mutex<BTreeMap<[u8; 16], u64>>,
}

impl Keys {
    /// A new key: sessions end with the process.
    pub fn new() -> Result<Self, ring::error::Unspecified> {
        let random = SystemRandom::new();
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &random)?;
        Ok(Self { key, random, ended: Mutex::default() })
    }

    /// The cookie of a new session, from `now` on, in seconds since 1970.
    pub fn begin(&self, user: &User, now: u64) -> Result<String, ring::error::Unspecified> {
        let mut bytes = vec![0; 16];
        self.random.fill(&mut bytes)?;
        bytes.extend((now + LIFE_S).to_be_bytes());
        bytes.extend(user.mark());
        bytes.extend(user.name.as_bytes());
        let tag = hmac::sign(&self.key, &bytes);
        Ok(format!("{}.{}", BASE64.encode(&bytes), BASE64.encode(tag.as_ref())))
    }

    /// The session of a cookie, if it is ours, has not ended and its user is still who logged in.
    pub fn check(&self, cookie: &str, users: &Users, now: u64) -> Option<Session> {
        let (bytes, tag) = cookie.split_once('.')?;
        let (bytes, tag) = (BASE64.decode(bytes).ok()?, BASE64.decode(tag).ok()?);
        hmac::verify(&self.key, &bytes, &tag).ok()?;
        let (id, rest) = bytes.split_first_chunk::<16>()?;
        let (until, rest) = rest.split_first_chunk::<8>()?;
        let (mark, name) = rest.split_first_chunk::<8>()?;
        let until = u64::from_be_bytes(*until);
        let user = users.get(std::str::from_utf8(name).ok()?)?;
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let valid = now < until && user.mark() == *mark && !ended.contains_key(id);
        valid.then(|| Session { user: user.clone(), id: *id, until })
    }

    /// Ends a session.
    pub fn end(&self, session: &Session, now: u64) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.retain(|_, until| *until > now);
        while ended.len() >= MAX_ENDED {
            ended.pop_first();
        }
        ended.insert(session.id, session.until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitors::{Monitors, Refused};
    use serde_json::{Value, json};

    struct Stored(&'static str);

    impl Monitors for Stored {
        fn command(&self, _: &Value) -> Result<Vec<u8>, Refused> {
            let user = json!({ "roles": ["administrator"], "password": self.0 });
            Ok(json!({ "users": { "kim": user } }).to_string().into_bytes())
        }

        fn tell(&self, _: &[(String, Value)]) -> Vec<Result<Vec<u8>, Refused>> {
            Vec::new()
        }
    }

    fn users(password: &'static str) -> Users {
        Users::read(&Stored(password)).expect("users")
    }

    #[test]
    fn a_cookie_holds_until_its_end_a_log_out_or_another_password() {
        let keys = Keys::new().expect("randomness");
        let users_now = users("hash 1");
        let kim = users_now.get("kim").expect("a user");
        let cookie = keys.begin(kim, 1000).expect("randomness");
        let session = keys.check(&cookie, &users_now, 1000).expect("valid");
        assert_eq!(session.user.name, "kim");
        assert!(keys.check(&cookie, &users_now, 1000 + LIFE_S).is_none(), "its time is over");
        assert!(keys.check(&cookie, &users("hash 2"), 1000).is_none(), "the password was changed");
        assert!(keys.check(&cookie, &Users::default(), 1000).is_none(), "the user was removed");
        keys.end(&session, 1001);
        assert!(keys.check(&cookie, &users_now, 1001).is_none());
    }

    #[test]
    fn forged_cookies_are_no_sessions() {
        let (keys, others) = (Keys::new().expect("randomness"), Keys::new().expect("randomness"));
        let users = users("hash");
        let kim = users.get("kim").expect("a user");
        let cookie = others.begin(kim, 1000).expect("randomness");
        let own = keys.begin(kim, 1000).expect("randomness");
        let (bytes, tag) = own.split_once('.').expect("two parts");
        let longer = BASE64.encode([BASE64.decode(bytes).expect("base64"), b"x".to_vec()].concat());
        for forged in [&cookie, "", ".", "a.b", bytes, &format!("{longer}.{tag}"), &format!("{bytes}.")] {
            assert!(keys.check(forged, &users, 1000).is_none(), "{forged}");
        }
    }
}

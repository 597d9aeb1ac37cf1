//! Join tokens: what a further host needs to reach a cluster and to be let in.

use anyhow::{Context, Result, bail};
use auth::Key;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;
use wire::{EntityName, Uuid};

/// The word that the text inside a token begins with.
const FORMAT: &str = "nacre-join-1";

/// What a key in a token allows: to register OSDs.
const STORE_CAPS: &str = "profile bootstrap-osd";
/// What it allows besides, if the host may get a monitor, a metadata server and the administrator's key. The
/// monitors' key is worth as much as the administrator's, and so is that of a metadata server, as the manager
/// is in its process.
const FULL_CAPS: &str = ", allow command \"mon add\", allow command \"auth get\" with entity=mon., \
    allow command \"auth get\" with entity=client.admin, \
    allow command \"auth get-or-create\" with entity prefix mds. \
    caps_mon=\"allow profile mds, allow profile mgr\" caps_osd=\"allow rwx\" \
    caps_mds=\"allow *\" caps_mgr=\"allow profile mds\"";

/// A token's content.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Token {
    /// The cluster.
    pub(crate) fsid: Uuid,
    /// Its monitors.
    pub(crate) mons: Vec<SocketAddr>,
    /// The name that the host authenticates by; it says until when.
    pub(crate) name: EntityName,
    /// The key of that name.
    pub(crate) key: Key,
}

impl Token {
    /// The time left at `now`, in seconds since 1970; zero if it has expired.
    pub(crate) fn left(&self, now: u64) -> Duration {
        Duration::from_secs(auth::join_expiry(&self.name).unwrap_or(0).saturating_sub(now))
    }

    /// The text to be copied.
    pub(crate) fn encode(&self) -> String {
        let mons: Vec<String> = self.mons.iter().map(ToString::to_string).collect();
        let (mons, key) = (mons.join(","), self.key.to_base64());
        URL_SAFE_NO_PAD.encode(format!("{FORMAT} {} {} {mons} {key}", self.fsid, self.name))
    }

    /// Reads it.
    pub(crate) fn decode(text: &str) -> Result<Self> {
        let wrong = "this is not a join token: copy the whole line that `nacre token` prints";
        let bytes = URL_SAFE_NO_PAD.decode(text.trim()).ok().context(wrong)?;
        let text = String::from_utf8(bytes).ok().context(wrong)?;
        let [format, fsid, name, mons, key] = text.split(' ').collect::<Vec<_>>()[..] else {
            bail!(wrong);
        };
        if !format.starts_with("nacre-join-") {
            bail!(wrong);
        }
        if format != FORMAT {
            bail!("this token was made by another version of nacre (`{format}`): use the same on all hosts");
        }
        let read = || {
            let mons: Option<Vec<SocketAddr>> = mons.split(',').map(|mon| mon.parse().ok()).collect();
            let name = EntityName::parse(name).filter(|name| auth::join_expiry(name).is_some())?;
            Some(Self { fsid: Uuid::parse(fsid)?, mons: mons?, name, key: Key::from_base64(key).ok()? })
        };
        read().context(wrong)
    }
}

/// Makes a token: its key is known to the monitors, who drop it when its time is over. With `full`, hosts
/// that join by it may get more than OSDs.
pub(crate) fn make_token(
    admin: &client::Cluster,
    fsid: Uuid,
    mons: &[SocketAddr],
    life: Duration,
    full: bool,
) -> Result<Token> {
    let expires = runtime::now().wall.split().0 + life.as_secs();
    let name = auth::join_name(expires, &mut runtime::rng());
    let caps = if full { format!("{STORE_CAPS}{FULL_CAPS}") } else { STORE_CAPS.to_owned() };
    let make = json!({
        "prefix": "auth get-or-create-key", "entity": name.to_string(), "caps": ["mon", caps],
    });
    let key = crate::cluster::ask(admin, &make).context("the monitors made no key for a token")?;
    let key = Key::from_base64(&String::from_utf8_lossy(&key)).context("the key of the token")?;
    Ok(Token { fsid, mons: mons.to_vec(), name, key })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> Token {
        Token {
            fsid: Uuid::from_random([7; 16]),
            mons: vec![([10, 0, 0, 1], 3300).into(), "[fd00::1]:3300".parse().expect("an address")],
            name: auth::join_name(1_000_000, &mut runtime::rng()),
            key: crate::cluster::new_key(),
        }
    }

    #[test]
    fn a_token_is_one_word_that_is_read_back() {
        let token = token();
        let text = token.encode();
        assert!(text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_'), "{text}");
        assert_eq!(Token::decode(&format!(" {text}\n")).expect("a token"), token);
        assert_eq!(token.left(999_940), Duration::from_secs(60));
        assert_eq!(token.left(2_000_000), Duration::ZERO);
    }

    #[test]
    fn what_is_not_a_whole_token_is_refused() {
        let text = token().encode();
        for wrong in ["", "hello", &text[..text.len() - 3], &text[4..], "bmFjcmU"] {
            let error = Token::decode(wrong).expect_err("refused").to_string();
            assert!(error.contains("copy the whole line"), "{wrong}: {error}");
        }
    }

    #[test]
    fn what_a_token_allows_is_understood_by_monitors() {
        for caps in [STORE_CAPS.to_owned(), format!("{STORE_CAPS}{FULL_CAPS}")] {
            auth::check_caps("mon", &caps).expect("sound capabilities");
        }
    }
}

//! `osd` capabilities.

use super::network::Placed;
use super::parser::{CapsError, Parser};
use super::perm::Perm;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A principal's permissions at the OSDs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OsdCap {
    grants: Vec<Placed<OsdGrant>>,
}

#[derive(Clone, PartialEq, Debug, Default)]
struct OsdGrant {
    what: What,
    perm: Perm,
    /// `class NAME [METHOD]`, instead of `perm`.
    class: Option<(String, Option<String>)>,
}

/// All that is given must match.
#[derive(Clone, PartialEq, Debug, Default)]
struct What {
    pool: Option<String>,
    namespace: Option<String>,
    object_prefix: Option<String>,
    /// Application, key, value; `*` matches any.
    tag: Option<(String, String, String)>,
}

/// The object that an operation is for.
#[derive(Clone, Copy, Debug)]
pub struct OsdTarget<'a> {
    /// The pool's name.
    pub pool: &'a str,
    /// The pool's application metadata: application, then key and value.
    pub applications: &'a BTreeMap<String, BTreeMap<String, String>>,
    /// Its namespace.
    pub namespace: &'a [u8],
    /// The placement name: its locator's key, or its name without one; empty for operations on a whole PG.
    pub object: &'a [u8],
}

/// A call of a class method within an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassCall<'a> {
    /// The class.
    pub class: &'a str,
    /// The method.
    pub method: &'a str,
    /// True if the method reads.
    pub read: bool,
    /// True if the method writes.
    pub write: bool,
}

impl OsdCap {
    /// Parses a capability string.
    pub fn parse(text: &str) -> Result<Self, CapsError> {
        let grants = Parser::grants(text, |p| {
            let grants = grant(p)?;
            Placed::parse(p, grants)
        })?;
        Ok(Self { grants: grants.into_iter().flatten().collect() })
    }

    /// The part that counts for a peer at `from`. Grants for a network allow nothing before this call.
    #[must_use]
    pub fn for_peer(self, from: Option<IpAddr>) -> Self {
        Self { grants: Placed::seen_from(self.grants, from) }
    }

    fn grants(&self) -> impl Iterator<Item = &OsdGrant> {
        Placed::everywhere(&self.grants)
    }

    /// True if it is `allow *`.
    pub fn is_allow_all(&self) -> bool {
        self.grants().any(OsdGrant::is_all)
    }

    /// True if an operation with these reads, writes and method calls may run on `target`. One grant must
    /// allow its reads and writes together; methods may be allowed by several such grants.
    pub fn allows(&self, target: &OsdTarget<'_>, read: bool, write: bool, calls: &[ClassCall<'_>]) -> bool {
        let fits = |g: &&OsdGrant| {
            g.what.matches(target) && (!read || g.perm.has(Perm::R)) && (!write || g.perm.has(Perm::W))
        };
        let mut allowed = vec![false; calls.len()];
        for grant in self.grants().filter(fits) {
            allowed.iter_mut().zip(calls).for_each(|(allowed, call)| *allowed |= grant.may_call(call));
            if allowed.iter().all(|a| *a) {
                return true;
            }
        }
        false
    }

    /// True if a client may manage its own snapshots in the pool: it may write to all of it, or to a part
    /// that is named with the pool.
    pub fn may_snap(&self, pool: &str) -> bool {
        let writes = |g: &OsdGrant| {
            g.perm.has(Perm::W) && (g.what == What::default() || g.what.pool.as_deref() == Some(pool))
        };
        self.grants().any(writes)
    }
}

impl OsdGrant {
    fn is_all(&self) -> bool {
        self.perm == Perm::ALL && self.what == What::default()
    }

    fn may_call(&self, call: &ClassCall<'_>) -> bool {
        let by_kind = (!call.read || self.perm.has(Perm::CLASS_READ))
            && (!call.write || self.perm.has(Perm::CLASS_WRITE));
        by_kind
            || self.class.as_ref().is_some_and(|(class, method)| {
                class == call.class && method.as_ref().is_none_or(|m| m == call.method)
            })
    }
}

impl What {
    fn matches(&self, target: &OsdTarget<'_>) -> bool {
        let tagged = |(app, key, value): &(String, String, String)| {
            let any = |pattern: &str, text: &str| pattern == "*" || pattern == text;
            let found = target.applications.get(app);
            found.is_some_and(|kv| {
                key == "*" && value == "*" || kv.iter().any(|(k, v)| any(key, k) && any(value, v))
            })
        };
        self.pool.as_ref().is_none_or(|p| p == target.pool)
            && self.namespace.as_ref().is_none_or(|n| match n.strip_suffix('*') {
                Some(prefix) => target.namespace.starts_with(prefix.as_bytes()),
                None => n.as_bytes() == target.namespace,
            })
            && self.object_prefix.as_ref().is_none_or(|o| target.object.starts_with(o.as_bytes()))
            && self.tag.as_ref().is_none_or(tagged)
    }

    /// Takes one condition if it is next. None may come twice: it would not be clear which one is meant.
    fn parse_one(&mut self, p: &mut Parser<'_>) -> Result<bool, CapsError> {
        let twice = p.error("each condition once");
        let is_new = if p.eat_word("pool") {
            self.pool.replace(p.value("a pool's name")?).is_none()
        } else if p.eat_word("namespace") {
            self.namespace.replace(p.value("a namespace")?).is_none()
        } else if p.eat_word("object_prefix") {
            self.object_prefix.replace(p.value("a prefix of object names")?).is_none()
        } else if p.eat_word("tag") {
            let (app, key) = (p.word("an application")?, p.word("a key")?);
            if !p.eat('=') {
                return Err(p.error("`=`"));
            }
            self.tag.replace((app, key, p.word("a value")?)).is_none()
        } else {
            return Ok(false);
        };
        if is_new { Ok(true) } else { Err(twice) }
    }
}

fn grant(p: &mut Parser<'_>) -> Result<Vec<OsdGrant>, CapsError> {
    let allow = p.eat_word("allow");
    let at = p.error("").at;
    if p.eat_word("profile") {
        let name = p.value("a profile's name")?;
        let mut what = What::default();
        while what.parse_one(p)? {}
        return profile(&name, what)
            .ok_or_else(|| CapsError { at, expected: format!("a known profile; found `{name}`") });
    }
    if !allow {
        return Err(p.error("`allow` or `profile`"));
    }
    let mut out = OsdGrant::default();
    loop {
        if out.what.parse_one(p)? {
        } else if p.eat_word("class") {
            let class = p.word("a class")?;
            let ends = p.grant_ends() || p.peek() == "network";
            let method = if ends { None } else { Some(p.word("a method")?) };
            if out.class.replace((class, method)).is_some() {
                return Err(p.error("one class in a grant"));
            }
        } else if p.eat_word("class-read") {
            out.perm = out.perm.and(Perm::CLASS_READ);
        } else if p.eat_word("class-write") {
            out.perm = out.perm.and(Perm::CLASS_WRITE);
        } else if let Some(perm) = p.perm() {
            out.perm = out.perm.and(perm);
        } else {
            break;
        }
    }
    if out.perm == Perm::NONE && out.class.is_none() {
        return Err(p.error("a selection of `rwx`, `*`, `class-read`, `class-write` or `class`"));
    }
    Ok(vec![out])
}

/// The grants of a profile, within `what`.
fn profile(name: &str, what: What) -> Option<Vec<OsdGrant>> {
    let on = |prefix: &str, perm| OsdGrant {
        what: What { object_prefix: Some(prefix.to_owned()), ..What::default() },
        perm,
        class: None,
    };
    let rbd = |what: What, method: &str| OsdGrant {
        what,
        perm: Perm::NONE,
        class: Some(("rbd".to_owned(), Some(method.to_owned()))),
    };
    // Metadata of an image in any of the pool's namespaces.
    let metadata = || rbd(What { pool: what.pool.clone(), ..What::default() }, "metadata_list");
    let header = || What { object_prefix: Some("rbd_header.".to_owned()), ..what.clone() };
    let whole = |perm| OsdGrant { what: what.clone(), perm, class: None };
    Some(match name {
        "read-only" => vec![whole(Perm::R)],
        "read-write" => vec![whole(Perm::RW)],
        // The objects by which images of other pools are found are readable in all pools.
        "rbd" => vec![
            on("rbd_info", Perm::R),
            on("rbd_children", Perm::CLASS_READ),
            on("rbd_mirroring", Perm::CLASS_READ),
            metadata(),
            whole(Perm::RW.and(Perm::X)),
        ],
        "rbd-read-only" => vec![
            on("rbd_info", Perm::R),
            metadata(),
            rbd(header(), "child_attach"),
            rbd(header(), "child_detach"),
            whole(Perm::R.and(Perm::CLASS_READ)),
        ],
        _ => return None,
    })
}

//! `osd` capabilities.

use super::parser::Parser;
use super::{CapsError, Perm};
use std::collections::BTreeMap;

/// What a principal may do at the OSDs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OsdCap {
    grants: Vec<OsdGrant>,
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
    /// Its name; empty for operations on a whole PG.
    pub object: &'a [u8],
}

/// A call of a class method within an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassCall<'a> {
    /// The class.
    pub class: &'a str,
    /// The method.
    pub method: &'a str,
    /// Whether the method reads.
    pub read: bool,
    /// Whether the method writes.
    pub write: bool,
}

impl OsdCap {
    /// Parses a capability string.
    pub fn parse(text: &str) -> Result<Self, CapsError> {
        let grants = Parser::grants(text, grant)?;
        Ok(Self { grants: grants.into_iter().flatten().collect() })
    }

    /// Whether it is `allow *`.
    pub fn is_allow_all(&self) -> bool {
        self.grants.iter().any(OsdGrant::is_all)
    }

    /// Whether an operation that reads, writes and calls as given may run on `target`. Grants add up.
    pub fn allows(&self, target: &OsdTarget<'_>, read: bool, write: bool, calls: &[ClassCall<'_>]) -> bool {
        let matching: Vec<_> = self.grants.iter().filter(|g| g.what.matches(target)).collect();
        let sum = matching.iter().fold(Perm::NONE, |sum, g| sum.and(g.perm));
        let called = |call: &ClassCall<'_>| {
            (!call.read || sum.has(Perm::CLASS_READ)) && (!call.write || sum.has(Perm::CLASS_WRITE))
                || matching.iter().any(|g| g.names(call))
        };
        (!read || sum.has(Perm::R)) && (!write || sum.has(Perm::W)) && calls.iter().all(called)
    }
}

impl OsdGrant {
    fn is_all(&self) -> bool {
        self.perm == Perm::ALL && self.what == What::default()
    }

    fn names(&self, call: &ClassCall<'_>) -> bool {
        self.class.as_ref().is_some_and(|(class, method)| {
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

    /// Takes one condition if it is next.
    fn parse_one(&mut self, p: &mut Parser<'_>) -> Result<bool, CapsError> {
        if p.eat_word("pool") {
            self.pool = Some(p.value("a pool's name")?);
        } else if p.eat_word("namespace") {
            self.namespace = Some(p.value("a namespace")?);
        } else if p.eat_word("object_prefix") {
            self.object_prefix = Some(p.value("a prefix of object names")?);
        } else if p.eat_word("tag") {
            let (app, key) = (p.word("an application")?, p.word("a key")?);
            if !p.eat('=') {
                return Err(p.error("`=`"));
            }
            self.tag = Some((app, key, p.word("a value")?));
        } else {
            return Ok(false);
        }
        Ok(true)
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
            let method = if p.grant_ends() { None } else { Some(p.word("a method")?) };
            out.class = Some((class, method));
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
    let method = |prefix: Option<&str>, method: &str| OsdGrant {
        what: What { object_prefix: prefix.map(str::to_owned), ..what.clone() },
        perm: Perm::NONE,
        class: Some(("rbd".to_owned(), Some(method.to_owned()))),
    };
    let whole = |perm| OsdGrant { what: what.clone(), perm, class: None };
    Some(match name {
        "osd" | "mds" | "mgr" | "admin" => vec![whole(Perm::ALL)],
        // The objects by which images of other pools are found are readable in all pools.
        "rbd" => vec![
            on("rbd_info", Perm::R),
            on("rbd_children", Perm::CLASS_READ),
            on("rbd_mirroring", Perm::CLASS_READ),
            method(None, "metadata_list"),
            whole(Perm::RW.and(Perm::X)),
        ],
        "rbd-read-only" => vec![
            on("rbd_info", Perm::R),
            method(None, "metadata_list"),
            method(Some("rbd_header."), "child_attach"),
            method(Some("rbd_header."), "child_detach"),
            whole(Perm::R.and(Perm::CLASS_READ)),
        ],
        _ => return None,
    })
}

//! Attributes of subvolumes and groups: owner, mode, quota, layout.

use crate::failure::{Done, Failure, invalid};
use crate::subvolume::Owner;
use crate::tree::{Node, Tree};
use client::SetAttr;
use decl::Args;
use wire::Errno;

/// The mode of what is made without one.
pub(crate) const DEFAULT_MODE: u32 = 0o755;
const POOL: &str = "ceph.dir.layout.pool";
const NAMESPACE: &str = "ceph.dir.layout.pool_namespace";
const MAX_BYTES: &str = "ceph.quota.max_bytes";

/// What is wanted of a directory; what is `None` stays.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Attributes {
    pub owner: Option<Owner>,
    pub mode: Option<u32>,
    /// Quota in bytes; 0 for none.
    pub size: Option<u64>,
    pub pool: Option<String>,
    pub namespace: Option<String>,
}

impl Attributes {
    /// Those that a command asks for; `owner` if it names none.
    pub fn of_command(args: &Args, owner: Owner) -> Done<Self> {
        let id = |name: &str, usual: u32| match args.int(name) {
            None => Ok(usual),
            Some(id) => u32::try_from(id)
                .map_err(|_| Failure::new(Errno::EINVAL, format!("invalid {}", name.to_uppercase()))),
        };
        let mode = match args.opt_str("mode").filter(|mode| !mode.is_empty()) {
            None => DEFAULT_MODE,
            Some(text) => match u32::from_str_radix(text.trim_start_matches("0o"), 8) {
                Ok(mode) => mode & 0o7777,
                Err(_) => return invalid(format!("Invalid mode '{text}'")),
            },
        };
        let size = match args.int("size") {
            None => None,
            Some(size) => match u64::try_from(size) {
                Ok(size) => Some(size),
                Err(_) => return invalid(format!("invalid size specified: '{size}'")),
            },
        };
        Ok(Self {
            owner: Some(Owner { uid: id("uid", owner.uid)?, gid: id("gid", owner.gid)? }),
            mode: Some(mode),
            size,
            pool: args.opt_str("pool_layout").filter(|pool| !pool.is_empty()).map(str::to_owned),
            namespace: None,
        })
    }

    /// The same, with a namespace for the data.
    pub fn isolated(self, namespace: String) -> Self {
        Self { namespace: Some(namespace), ..self }
    }

    /// Those of a directory of data.
    pub fn of_node(tree: &Tree, node: &Node) -> Done<Self> {
        let attr = node.attr();
        Ok(Self {
            owner: Some(Owner { uid: attr.uid, gid: attr.gid }),
            mode: Some(attr.mode & 0o7777),
            size: quota(tree, node)?,
            pool: tree.xattr(node, POOL)?,
            namespace: tree.xattr(node, NAMESPACE)?.filter(|namespace| !namespace.is_empty()),
        })
    }

    /// Gives them to a directory.
    pub fn apply(&self, tree: &Tree, node: &Node) -> Done<()> {
        if let Some(size) = self.size {
            let text = format!("invalid size specified: '{size}'");
            tree.set_xattr(node, MAX_BYTES, &size.to_string()).map_err(if_invalid(text))?;
        }
        if let Some(pool) = &self.pool {
            let text = format!("invalid pool layout '{pool}'--need a valid data pool");
            tree.set_xattr(node, POOL, pool).map_err(if_invalid(text))?;
        }
        if let Some(namespace) = &self.namespace {
            tree.set_xattr(node, NAMESPACE, namespace)?;
        }
        let set = SetAttr {
            uid: self.owner.map(|owner| owner.uid),
            gid: self.owner.map(|owner| owner.gid),
            ..SetAttr::default()
        };
        tree.set(node, set)?;
        if self.mode.is_some() {
            tree.set(node, SetAttr { mode: self.mode, ..SetAttr::default() })?;
        }
        Ok(())
    }
}

fn if_invalid(text: String) -> impl FnOnce(Errno) -> Failure {
    move |errno| match errno {
        Errno::EINVAL => Failure::new(errno, text),
        other => other.into(),
    }
}

/// The quota of a directory in bytes, if it has one.
pub(crate) fn quota(tree: &Tree, node: &Node) -> Done<Option<u64>> {
    let text = tree.xattr(node, MAX_BYTES)?;
    Ok(text.and_then(|text| text.parse().ok()).filter(|bytes| *bytes > 0))
}

/// Bytes in the files below a directory.
pub(crate) fn used(tree: &Tree, node: &Node) -> Done<u64> {
    let text = tree.xattr(node, "ceph.dir.rbytes")?;
    Ok(text.and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// The pool and namespace of the data of a directory: its own, or those of the nearest one above that has
/// them, or `usual`.
pub(crate) fn layout(tree: &Tree, path: &str, usual: &str) -> Done<(String, String)> {
    let mut at = path;
    loop {
        let node = tree.find(at)?;
        if let Some(pool) = tree.xattr(&node, POOL)? {
            return Ok((pool, tree.xattr(&node, NAMESPACE)?.unwrap_or_default()));
        }
        match at.rsplit_once('/') {
            Some((above, _)) if !at.is_empty() => at = above,
            _ => return Ok((usual.to_owned(), String::new())),
        }
    }
}

/// Sets a quota: a number of bytes, or `inf`. Returns the new quota and what is used.
pub(crate) fn resize(tree: &Tree, node: &Node, size: &str, no_shrink: bool) -> Done<(u64, u64)> {
    let used = used(tree, node)?;
    let bytes = match size.parse::<i64>() {
        Ok(bytes) if bytes <= 0 => return invalid("Invalid subvolume size"),
        Ok(bytes) => bytes.unsigned_abs(),
        Err(_) if matches!(size.to_lowercase().as_str(), "inf" | "infinite") => 0,
        Err(_) => return invalid(format!("invalid size option '{}'", size.to_lowercase())),
    };
    if no_shrink && bytes > 0 && bytes < used {
        return invalid(format!(
            "Can't resize the subvolume. The new size '{bytes}' would be lesser than the current used size \
             '{used}'"
        ));
    }
    if quota(tree, node)?.unwrap_or(0) != bytes {
        tree.set_xattr(node, MAX_BYTES, &bytes.to_string())?;
    }
    Ok((bytes, used))
}

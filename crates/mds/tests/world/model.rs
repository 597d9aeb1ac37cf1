//! A naive file system: inodes in a map, directories as maps of names.

use std::collections::BTreeMap;
use wire::Errno;

#[derive(Clone, Debug, PartialEq, Default)]
pub struct Node {
    pub dir: Option<BTreeMap<String, u64>>,
    pub size: u64,
    pub mode: u32,
    pub nlink: u32,
    pub symlink: String,
    pub xattrs: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone)]
pub struct Model {
    pub nodes: BTreeMap<u64, Node>,
    /// Directories with snapshots of their own: they cannot be removed.
    pub snapped: Vec<u64>,
    next: u64,
}

type R = Result<(), Errno>;

impl Model {
    pub fn new() -> Self {
        let root = Node { dir: Some(BTreeMap::new()), mode: 0o755, nlink: 1, ..Node::default() };
        Self { nodes: BTreeMap::from([(1, root)]), snapped: Vec::new(), next: 2 }
    }

    pub fn find(&self, path: &str) -> Result<u64, Errno> {
        let mut at = 1;
        for name in path.split('/').filter(|n| !n.is_empty()) {
            let dir = self.nodes[&at].dir.as_ref().ok_or(Errno::ENOTDIR)?;
            at = *dir.get(name).ok_or(Errno::ENOENT)?;
        }
        Ok(at)
    }

    fn parent<'a>(&self, path: &'a str) -> Result<(u64, &'a str), Errno> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let at = self.find(dir)?;
        if self.nodes[&at].dir.is_none() { Err(Errno::ENOTDIR) } else { Ok((at, name)) }
    }

    fn get(&self, at: u64, name: &str) -> Option<u64> {
        self.nodes[&at].dir.as_ref()?.get(name).copied()
    }

    fn set(&mut self, at: u64, name: &str, to: Option<u64>) {
        let dir = self.nodes.get_mut(&at).and_then(|n| n.dir.as_mut()).expect("a directory");
        match to {
            Some(ino) => drop(dir.insert(name.into(), ino)),
            None => drop(dir.remove(name)),
        }
    }

    pub fn make(&mut self, path: &str, node: Node) -> R {
        let (at, name) = self.parent(path)?;
        if self.get(at, name).is_some() {
            return Err(Errno::EEXIST);
        }
        let ino = self.next;
        self.next += 1;
        self.nodes.insert(ino, Node { nlink: 1, ..node });
        self.set(at, name, Some(ino));
        Ok(())
    }

    /// Open with O_CREAT.
    pub fn create(&mut self, path: &str) -> R {
        let (at, name) = self.parent(path)?;
        match self.get(at, name) {
            Some(ino) if self.nodes[&ino].dir.is_some() => Err(Errno::EISDIR),
            Some(_) => Ok(()),
            None => self.make(path, Node { mode: 0o644, ..Node::default() }),
        }
    }

    fn drop_name(&mut self, at: u64, name: &str) {
        let ino = self.get(at, name).expect("a name");
        self.set(at, name, None);
        let node = self.nodes.get_mut(&ino).expect("a node");
        node.nlink -= 1;
        if node.nlink == 0 {
            self.nodes.remove(&ino);
        }
    }

    fn removable(&self, ino: u64, as_dir: bool) -> R {
        match (&self.nodes[&ino].dir, as_dir) {
            (Some(_), false) => Err(Errno::EISDIR),
            (None, true) => Err(Errno::ENOTDIR),
            (Some(d), true) if !d.is_empty() || self.snapped.contains(&ino) => Err(Errno::ENOTEMPTY),
            _ => Ok(()),
        }
    }

    pub fn remove(&mut self, path: &str, as_dir: bool) -> R {
        let (at, name) = self.parent(path)?;
        let ino = self.get(at, name).ok_or(Errno::ENOENT)?;
        self.removable(ino, as_dir)?;
        self.drop_name(at, name);
        Ok(())
    }

    pub fn rename(&mut self, new: &str, old: &str) -> R {
        let (to, to_name) = self.parent(new)?;
        let (from, from_name) = self.parent(old)?;
        let ino = self.get(from, from_name).ok_or(Errno::ENOENT)?;
        let victim = self.get(to, to_name);
        if victim == Some(ino) {
            return Ok(());
        }
        let is_dir = self.nodes[&ino].dir.is_some();
        if is_dir && (to == ino || self.is_below(to, ino)) {
            return Err(Errno::EINVAL);
        }
        if let Some(victim) = victim {
            self.removable(victim, is_dir)?;
            self.drop_name(to, to_name);
        }
        self.set(from, from_name, None);
        self.set(to, to_name, Some(ino));
        Ok(())
    }

    /// A rename over no name.
    pub fn rename_to_new(&mut self, new: &str, old: &str) -> R {
        let ((to, to_name), (from, from_name)) = (self.parent(new)?, self.parent(old)?);
        if self.get(from, from_name).is_some() && self.get(to, to_name).is_some() {
            return Err(Errno::EEXIST);
        }
        self.rename(new, old)
    }

    /// Two names change places.
    pub fn exchange(&mut self, new: &str, old: &str) -> R {
        let ((to, to_name), (from, from_name)) = (self.parent(new)?, self.parent(old)?);
        let first = self.get(to, to_name).ok_or(Errno::ENOENT)?;
        let second = self.get(from, from_name).ok_or(Errno::ENOENT)?;
        let is_loop =
            |ino: u64, into: u64| self.nodes[&ino].dir.is_some() && (into == ino || self.is_below(into, ino));
        if first != second && (is_loop(first, from) || is_loop(second, to)) {
            return Err(Errno::EINVAL);
        }
        self.set(to, to_name, Some(second));
        self.set(from, from_name, Some(first));
        Ok(())
    }

    fn is_below(&self, at: u64, top: u64) -> bool {
        let children = self.nodes[&top].dir.iter().flatten().map(|(_, ino)| *ino);
        children.into_iter().any(|ino| ino == at || self.nodes[&ino].dir.is_some() && self.is_below(at, ino))
    }

    pub fn link(&mut self, new: &str, old: &str) -> R {
        let (to, name) = self.parent(new)?;
        let ino = self.find(old)?;
        if self.get(to, name).is_some() {
            return Err(Errno::EEXIST);
        }
        if self.nodes[&ino].dir.is_some() {
            return Err(Errno::EPERM);
        }
        self.nodes.get_mut(&ino).expect("found").nlink += 1;
        self.set(to, name, Some(ino));
        Ok(())
    }

    pub fn change(&mut self, path: &str, f: impl FnOnce(&mut Node) -> R) -> R {
        let ino = self.find(path)?;
        f(self.nodes.get_mut(&ino).expect("found"))
    }

    /// All paths with what they lead to, in order.
    pub fn walk(&self) -> BTreeMap<String, (u64, Node)> {
        let mut out = BTreeMap::new();
        let mut todo = vec![(String::new(), 1)];
        while let Some((path, ino)) = todo.pop() {
            let node = &self.nodes[&ino];
            for (name, child) in node.dir.iter().flatten() {
                todo.push((format!("{path}/{name}"), *child));
            }
            out.insert(path, (ino, node.clone()));
        }
        out
    }
}

//! Which file of a crate imports which: the edges behind the guard against circles of files.
//!
//! A file points to the file that **defines** the name it uses, also if a facade (`pub use` in `lib.rs` or
//! `mod.rs`) hands the name on. A `mod` declaration is no edge, nor is a re-export that its own file does not
//! use. Limits: a method called on a value is not followed to the file of its `impl` block; names that a
//! macro makes up count for the file that calls the macro; bodies of `macro_rules!` and tests are not read.

use super::modules::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// For each file (by its index in [`Tree::files`]) the files that it uses, each with the paths that do so.
pub type Edges = BTreeMap<usize, BTreeMap<usize, BTreeSet<String>>>;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Target {
    Module(usize),
    Item(usize),
}

/// The edges between the files of one tree.
pub fn edges(tree: &Tree) -> Edges {
    let mut edges = Edges::new();
    for (id, module) in tree.modules.iter().enumerate() {
        let mut add = |target: Option<Target>, path: &[String]| {
            if let Some(Target::Item(file)) = target
                && file != module.file
            {
                let names = edges.entry(module.file).or_default().entry(file).or_default();
                names.insert(path.join("::"));
            }
        };
        for import in &module.uses {
            match &import.name {
                Some(name) if import.public && !module.words.contains_key(name) => {}
                Some(_) => add(resolve(tree, id, &import.path, &mut Vec::new()), &import.path),
                None => match resolve(tree, id, &import.path, &mut Vec::new()) {
                    Some(Target::Module(from)) if !import.public => {
                        for word in module.words.keys().filter(|word| !module.items.contains(*word)) {
                            add(lookup(tree, from, word, &mut Vec::new()), std::slice::from_ref(word));
                        }
                    }
                    target => add(target, &import.path),
                },
            }
        }
        for path in &module.paths {
            let target = match resolve(tree, id, path, &mut Vec::new()) {
                // The module is known and the name in it is not: a macro has made it.
                Some(Target::Module(of)) if path.len() > 1 && !is_module(tree, id, path) => {
                    Some(Target::Item(tree.modules[of].file))
                }
                target => target,
            };
            add(target, path);
        }
    }
    edges
}

/// True if the whole path names a module, rather than something unknown inside one.
fn is_module(tree: &Tree, from: usize, path: &[String]) -> bool {
    let parent = resolve(tree, from, &path[..path.len() - 1], &mut Vec::new());
    let last = path.last().map_or("", String::as_str);
    match parent {
        Some(Target::Module(parent)) => {
            last == "super" || matches!(lookup(tree, parent, last, &mut Vec::new()), Some(Target::Module(_)))
        }
        _ => last == "super",
    }
}

/// Follows a path as code in module `from` would; stops at the first item.
fn resolve(tree: &Tree, from: usize, path: &[String], seen: &mut Vec<(usize, String)>) -> Option<Target> {
    let mut at = match path.first()?.as_str() {
        "crate" => Target::Module(0),
        "self" => Target::Module(from),
        "super" => Target::Module(tree.modules[from].parent?),
        first => lookup(tree, from, first, seen)?,
    };
    for segment in &path[1..] {
        let Target::Module(module) = at else { break };
        if segment == "super" {
            at = Target::Module(tree.modules[module].parent?);
            continue;
        }
        match lookup(tree, module, segment, seen) {
            Some(target) => at = target,
            None => break,
        }
    }
    Some(at)
}

/// Looks a name up in a module: what it declares, defines, imports, and has from globs.
fn lookup(tree: &Tree, module: usize, name: &str, seen: &mut Vec<(usize, String)>) -> Option<Target> {
    if seen.iter().any(|(m, n)| *m == module && n == name) {
        return None;
    }
    seen.push((module, name.to_owned()));
    let scope = &tree.modules[module];
    if let Some(child) = scope.children.get(name) {
        return Some(Target::Module(*child));
    }
    if scope.items.contains(name) {
        return Some(Target::Item(scope.file));
    }
    if let Some(import) = scope.uses.iter().find(|import| import.name.as_deref() == Some(name)) {
        return match resolve(tree, module, &import.path, seen)? {
            // A name that a macro has made in the module that the path leads to.
            Target::Module(of) if import.path.last().is_some_and(|last| !is_child(tree, of, last)) => {
                Some(Target::Item(tree.modules[of].file))
            }
            target => Some(target),
        };
    }
    if scope.inner.contains(name) {
        return Some(Target::Item(scope.file));
    }
    let globs = scope.uses.iter().filter(|import| import.name.is_none());
    for import in globs {
        if let Some(Target::Module(of)) = resolve(tree, module, &import.path, seen)
            && let Some(target) = lookup(tree, of, name, seen)
        {
            return Some(target);
        }
    }
    None
}

/// True if `module` is called `name` by the module that declares it, or is the crate's root.
fn is_child(tree: &Tree, module: usize, name: &str) -> bool {
    if matches!(name, "self" | "super" | "crate") {
        return true;
    }
    tree.modules[module].parent.is_some_and(|p| tree.modules[p].children.get(name) == Some(&module))
}

/// The circles: sets of files each of which reaches all others, by Tarjan's algorithm, largest first.
pub fn circles(files: usize, edges: &Edges) -> Vec<Vec<usize>> {
    let mut search = Search::new(files, edges);
    for file in 0..files {
        if search.index[file].is_none() {
            search.visit(file);
        }
    }
    let mut found = search.found;
    found.sort_by_key(|circle| (std::cmp::Reverse(circle.len()), circle[0]));
    found
}

struct Search<'e> {
    edges: &'e Edges,
    index: Vec<Option<usize>>,
    low: Vec<usize>,
    stack: Vec<usize>,
    next: usize,
    found: Vec<Vec<usize>>,
}

impl<'e> Search<'e> {
    fn new(files: usize, edges: &'e Edges) -> Self {
        let (index, low) = (vec![None; files], vec![0; files]);
        Search { edges, index, low, stack: Vec::new(), next: 0, found: Vec::new() }
    }

    fn visit(&mut self, file: usize) {
        self.index[file] = Some(self.next);
        self.low[file] = self.next;
        self.next += 1;
        self.stack.push(file);
        for &to in self.edges.get(&file).into_iter().flat_map(BTreeMap::keys) {
            match self.index[to] {
                None => {
                    self.visit(to);
                    self.low[file] = self.low[file].min(self.low[to]);
                }
                Some(index) if self.stack.contains(&to) => self.low[file] = self.low[file].min(index),
                Some(_) => {}
            }
        }
        if Some(self.low[file]) == self.index[file] {
            let from = self.stack.iter().position(|&f| f == file).unwrap_or(0);
            let mut circle = self.stack.split_off(from);
            circle.sort_unstable();
            if circle.len() > 1 {
                self.found.push(circle);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// The circles of a crate of these files, each as its files' names.
    fn of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let tree = Tree::read(&dir.path().join("lib.rs"));
        let name = |file: &usize| {
            let path: &Path = &tree.files[*file];
            path.strip_prefix(dir.path()).unwrap().to_str().unwrap().to_owned()
        };
        circles(tree.files.len(), &edges(&tree)).iter().map(|c| c.iter().map(name).collect()).collect()
    }

    #[test]
    fn two_files_that_use_each_other_are_a_circle() {
        let found = of(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b::B; pub struct A(B);"),
            ("b.rs", "pub struct B; fn f(_: &super::a::A) {}"),
        ]);
        assert_eq!(found, [["a.rs", "b.rs"]]);
    }

    #[test]
    fn a_facade_hides_no_circle() {
        let found = of(&[
            ("lib.rs", "mod a; mod b; pub use a::A; pub use b::*;"),
            ("a.rs", "use crate::B; pub struct A(B);"),
            ("b.rs", "use crate::{A}; wire_structs! { pub struct B[v 1/1] { a: A } }"),
        ]);
        assert_eq!(found, [["a.rs", "b.rs"]]);
    }

    #[test]
    fn re_exports_modules_and_tests_are_no_edges() {
        let found = of(&[
            ("lib.rs", "pub mod a; pub use a::A; pub const ONE: u8 = 1;"),
            ("a.rs", "use crate::ONE; pub struct A; #[cfg(test)] mod tests; #[cfg(test)] use crate::b::B;"),
            ("a/tests.rs", "use crate::A;"),
        ]);
        assert_eq!(found, Vec::<Vec<String>>::new());
    }

    #[test]
    fn a_parent_that_calls_its_child_is_in_a_circle_with_it() {
        let found = of(&[
            ("lib.rs", "mod p;"),
            ("p/mod.rs", "mod c; pub struct P; pub fn run() { c::go() }"),
            ("p/c.rs", "use super::*; pub fn go() { let _ = P; }"),
        ]);
        assert_eq!(found, [["p/mod.rs", "p/c.rs"]]);
    }

    #[test]
    fn imported_modules_aliases_and_globs_are_followed() {
        let found = of(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b as other; pub fn f() { other::g() }"),
            ("b.rs", "use crate::c::*; pub fn g() { h() }"),
            ("c.rs", "pub fn h() { crate::a::f() }"),
        ]);
        assert_eq!(found, [["a.rs", "b.rs", "c.rs"]]);
    }

    #[test]
    fn inline_modules_belong_to_their_file() {
        let found = of(&[
            ("lib.rs", "mod a; pub mod inner { pub fn x() { super::a::f() } }"),
            ("a.rs", "pub fn f() {} fn g() { crate::inner::x() }"),
        ]);
        assert_eq!(found, [["lib.rs", "a.rs"]]);
    }
}

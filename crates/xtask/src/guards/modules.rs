//! The module tree of a crate, as far as the guards need it: which file defines which name, what each module
//! imports, and which paths its code writes out.
//!
//! Code under `#[cfg(test)]` and the bodies of `macro_rules!` are left out.

use super::lexer::{self, Token};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A crate's files and modules, from one root (`lib.rs`, `main.rs` or a program in `bin/`).
#[derive(Default)]
pub struct Tree {
    /// Files, the root first.
    pub files: Vec<PathBuf>,
    /// Modules, the root first.
    pub modules: Vec<Module>,
}

/// One module, inline ones too.
#[derive(Default)]
pub struct Module {
    /// Index of its file in [`Tree::files`].
    pub file: usize,
    /// The module that declares it; the root has none.
    pub parent: Option<usize>,
    /// Modules that it declares.
    pub children: BTreeMap<String, usize>,
    /// Items that it defines.
    pub items: BTreeSet<String>,
    /// Items that macros define inside it, and items local to functions.
    pub inner: BTreeSet<String>,
    /// Its `use` declarations.
    pub uses: Vec<Use>,
    /// Paths of two segments and more in its code.
    pub paths: BTreeSet<Vec<String>>,
    /// How often each identifier stands in its code, `use` declarations left out.
    pub words: BTreeMap<String, usize>,
}

/// One leaf of a `use` declaration.
pub struct Use {
    /// Segments as written; `self` at the end of a group is dropped.
    pub path: Vec<String>,
    /// The name that it brings into scope; `None` for a glob.
    pub name: Option<String>,
    /// True if others can import it from here (`pub`, `pub(crate)`, …).
    pub public: bool,
}

impl Tree {
    /// Reads the tree of modules below one root file; files that cannot be read are left out.
    pub fn read(root: &Path) -> Self {
        let mut tree = Tree::default();
        tree.modules.push(Module::default());
        tree.file(root, 0, root.parent().unwrap_or(Path::new("")));
        tree
    }

    /// Reads a file as the body of `module`, whose own modules lie in `dir`.
    fn file(&mut self, path: &Path, module: usize, dir: &Path) {
        let Ok(text) = std::fs::read_to_string(path) else { return };
        self.modules[module].file = self.files.len();
        self.files.push(path.to_owned());
        let split = lexer::split(&text);
        let tokens = lexer::tokens(&split.code);
        let mut walk = Walk { tree: self, text: &text, tokens: &tokens, at: 0, dir: dir.to_owned() };
        walk.body(module);
    }

    fn declare(&mut self, parent: usize, name: &str) -> usize {
        let id = self.modules.len();
        let file = self.modules[parent].file;
        self.modules.push(Module { parent: Some(parent), file, ..Module::default() });
        self.modules[parent].children.insert(name.to_owned(), id);
        id
    }
}

const ITEMS: [&str; 9] = ["fn", "struct", "enum", "union", "trait", "type", "const", "static", "mod"];

/// A walk over the tokens of one file.
struct Walk<'t, 'a> {
    tree: &'t mut Tree,
    text: &'a str,
    tokens: &'a [(usize, Token<'a>)],
    at: usize,
    dir: PathBuf,
}

impl<'a> Walk<'_, 'a> {
    fn peek(&self, ahead: usize) -> Option<Token<'a>> {
        self.tokens.get(self.at + ahead).map(|(_, token)| *token)
    }

    fn word(&self, ahead: usize) -> Option<&'a str> {
        self.peek(ahead).and_then(Token::ident)
    }

    fn is(&self, ahead: usize, punct: u8) -> bool {
        self.peek(ahead) == Some(Token::Punct(punct))
    }

    /// Reads to the `}` that closes the module, or to the end of the file.
    fn body(&mut self, module: usize) {
        let (mut depth, mut public, mut path_attribute) = (0usize, false, None);
        while let Some(token) = self.peek(0) {
            match token {
                Token::Punct(b'{') => (depth, self.at) = (depth + 1, self.at + 1),
                Token::Punct(b'}') if depth == 0 => return,
                Token::Punct(b'}') => (depth, self.at) = (depth - 1, self.at + 1),
                Token::Punct(b'#') => {
                    let attribute = self.attribute();
                    if attribute.test {
                        self.skip_item();
                    }
                    path_attribute = attribute.path.or(path_attribute);
                    continue;
                }
                Token::Word("pub") => {
                    public = true;
                    self.at += 1;
                    if self.is(0, b'(') {
                        self.skip_group();
                    }
                    continue;
                }
                Token::Word("use") => self.use_declaration(module, public),
                Token::Word("mod") if self.word(1).is_some() => self.module(module, path_attribute.take()),
                Token::Word("macro_rules") if self.is(1, b'!') => {
                    let name = self.word(2).unwrap_or_default().to_owned();
                    self.tree.modules[module].items.insert(name);
                    self.at += 3;
                    self.skip_group();
                }
                Token::Word(word) => self.code_word(module, word, depth),
                _ => self.at += 1,
            }
            public = false;
        }
    }

    /// A word of code: it may open a definition or a path.
    fn code_word(&mut self, module: usize, word: &str, depth: usize) {
        if ITEMS.contains(&word)
            && let Some(name) = self.word(1)
            && !ITEMS.contains(&name)
        {
            let module = &mut self.tree.modules[module];
            match (depth, word) {
                (0, _) => drop(module.items.insert(name.to_owned())),
                (_, "struct" | "enum" | "trait" | "type" | "const") => {
                    module.inner.insert(name.to_owned());
                }
                _ => {}
            }
            self.at += 2;
            return;
        }
        let after = self.at.checked_sub(1).and_then(|i| self.tokens.get(i)).map(|(_, token)| *token);
        let mut path = vec![word.to_owned()];
        while self.peek(1) == Some(Token::Sep)
            && let Some(next) = self.word(2)
        {
            path.push(next.to_owned());
            self.at += 2;
        }
        self.at += 1;
        let module = &mut self.tree.modules[module];
        for word in &path {
            *module.words.entry(word.clone()).or_default() += 1;
        }
        if path.len() > 1 && !matches!(after, Some(Token::Sep | Token::Punct(b'.' | b'$'))) {
            module.paths.insert(path);
        }
    }

    fn module(&mut self, parent: usize, path_attribute: Option<String>) {
        let name = self.word(1).unwrap_or_default().to_owned();
        self.at += 2;
        if self.is(0, b'{') {
            self.at += 1;
            let child = self.tree.declare(parent, &name);
            let outer = self.dir.clone();
            self.dir.push(&name);
            self.body(child);
            self.dir = outer;
            self.at += 1;
            return;
        }
        let nested = self.dir.join(&name);
        let candidates = match path_attribute {
            Some(path) => vec![self.dir.join(path)],
            None => vec![self.dir.join(format!("{name}.rs")), nested.join("mod.rs")],
        };
        if let Some(file) = candidates.iter().find(|path| path.is_file()) {
            let child = self.tree.declare(parent, &name);
            self.tree.file(file, child, &nested);
        }
    }

    fn use_declaration(&mut self, module: usize, public: bool) {
        self.at += 1;
        self.use_tree(module, public, &mut Vec::new());
        while self.peek(0).is_some_and(|token| token != Token::Punct(b';')) {
            self.at += 1;
        }
    }

    /// One branch of a `use` declaration, after the segments in `path`.
    fn use_tree(&mut self, module: usize, public: bool, path: &mut Vec<String>) {
        let kept = path.len();
        let mut name = None;
        loop {
            match self.peek(0) {
                Some(Token::Sep) => self.at += 1,
                Some(Token::Word("self")) if !path.is_empty() => self.at += 1,
                Some(Token::Word("as")) => {
                    name = self.word(1).map(str::to_owned);
                    self.at += 2;
                }
                Some(Token::Word(word)) => {
                    path.push(word.to_owned());
                    self.at += 1;
                }
                Some(Token::Punct(b'*')) => {
                    self.at += 1;
                    self.tree.modules[module].uses.push(Use { path: path.clone(), name: None, public });
                    break;
                }
                Some(Token::Punct(b'{')) => {
                    while !matches!(self.peek(0), None | Some(Token::Punct(b'}'))) {
                        self.at += 1;
                        if !self.is(0, b'}') {
                            self.use_tree(module, public, path);
                        }
                    }
                    self.at += 1;
                    break;
                }
                _ => {
                    let name = name.or_else(|| path.last().cloned());
                    self.tree.modules[module].uses.push(Use { path: path.clone(), name, public });
                    break;
                }
            }
        }
        path.truncate(kept);
    }

    /// Reads `#[…]` or `#![…]`.
    fn attribute(&mut self) -> Attribute {
        self.at += 1 + usize::from(self.is(1, b'!'));
        let from = self.at;
        self.skip_group();
        let words: Vec<_> = self.tokens[from..self.at].iter().filter_map(|(_, t)| t.ident()).collect();
        let test = words.first() == Some(&"cfg") && words.contains(&"test") && !words.contains(&"not");
        let path = (words.first() == Some(&"path")).then(|| {
            let end = self.tokens.get(self.at).map_or(self.text.len(), |(at, _)| *at);
            self.text[self.tokens[from].0..end].split('"').nth(1).unwrap_or_default().to_owned()
        });
        Attribute { test, path }
    }

    /// Skips the item that follows, if an item follows.
    fn skip_item(&mut self) {
        while self.is(0, b'#') {
            self.attribute();
        }
        let from = self.at;
        while matches!(self.word(0), Some("pub" | "unsafe" | "async" | "extern" | "default")) {
            self.at += 1;
            if self.is(0, b'(') {
                self.skip_group();
            }
        }
        let Some(kind) = self.word(0).filter(|w| ITEMS.contains(w) || matches!(*w, "use" | "impl")) else {
            self.at = from;
            return;
        };
        loop {
            match self.peek(0) {
                None => return,
                Some(Token::Punct(b';')) => break self.at += 1,
                Some(Token::Punct(b'{')) => {
                    self.skip_group();
                    if !matches!(kind, "use" | "const" | "static") {
                        return;
                    }
                }
                Some(Token::Punct(b'(' | b'[')) => self.skip_group(),
                _ => self.at += 1,
            }
        }
    }

    /// Skips from one opening bracket past the one that closes it.
    fn skip_group(&mut self) {
        let mut depth = 0usize;
        while let Some(token) = self.peek(0) {
            self.at += 1;
            match token {
                Token::Punct(b'{' | b'(' | b'[') => depth += 1,
                Token::Punct(b'}' | b')' | b']') => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return;
            }
        }
    }
}

struct Attribute {
    /// It keeps the item out of everything but tests.
    test: bool,
    /// The file that `#[path = "…"]` names.
    path: Option<String>,
}

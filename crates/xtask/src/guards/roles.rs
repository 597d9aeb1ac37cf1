//! Fields and `impl` blocks of the structs that hold a role's state.

use super::lexer::{self, Token};
use super::tree::{self, SourceFile};
use std::collections::{BTreeMap, BTreeSet};

/// The structs that `cargo xtask figures` follows: crate, then their name today and in the past.
pub const ROLES: [(&str, &[&str]); 10] = [
    ("osd", &["Osd"]),
    ("osd", &["Pg"]),
    ("osd", &["Core"]),
    ("mds", &["Rank"]),
    ("mon", &["Mon"]),
    ("mon", &["Volatile", "Soft"]),
    ("fsclient", &["Client"]),
    ("fsclient", &["Inode"]),
    ("store", &["Store"]),
    ("store", &["Core"]),
];

/// One struct.
#[derive(Default, Clone, Debug, PartialEq)]
pub struct Struct {
    /// The file that defines it.
    pub file: String,
    /// Number of fields.
    pub fields: usize,
    /// Those with `pub`, `pub(crate)` or the like.
    pub public: usize,
    /// Files with an `impl` block of it, traits' too.
    pub impls: BTreeSet<String>,
}

/// The structs of one crate by name, tests left out. Of several with one name the largest counts.
pub fn structs<'a>(files: impl Iterator<Item = &'a SourceFile>) -> BTreeMap<String, Struct> {
    let mut found: BTreeMap<String, Struct> = BTreeMap::new();
    for file in files.filter(|file| !tree::is_test(&file.path)) {
        let split = lexer::split(&file.text);
        let tokens: Vec<_> = lexer::tokens(&split.code).into_iter().map(|(_, token)| token).collect();
        for at in 0..tokens.len() {
            match tokens[at] {
                Token::Word("struct") => {
                    if let Some((name, fields, public)) = fields(&tokens[at + 1..]) {
                        let entry = found.entry(name.to_owned()).or_default();
                        if entry.file.is_empty() || fields > entry.fields {
                            (entry.file, entry.fields, entry.public) = (file.path.clone(), fields, public);
                        }
                    }
                }
                Token::Word("impl") if !in_signature(&tokens[..at]) => {
                    if let Some(name) = implemented(&tokens[at + 1..]) {
                        found.entry(name.to_owned()).or_default().impls.insert(file.path.clone());
                    }
                }
                _ => {}
            }
        }
    }
    found.retain(|_, found| !found.file.is_empty());
    found
}

/// True if an `impl` after these tokens is a type (`-> impl Iterator`, `x: impl Fn()`), not a block.
fn in_signature(before: &[Token<'_>]) -> bool {
    !matches!(before.last(), None | Some(Token::Punct(b'}' | b';' | b']' | b'{') | Token::Word("unsafe")))
}

/// Name, number of fields and of public ones of a struct with named fields.
fn fields<'a>(tokens: &[Token<'a>]) -> Option<(&'a str, usize, usize)> {
    let name = tokens.first()?.ident()?;
    let open = tokens.iter().position(|t| matches!(t, Token::Punct(b'{' | b';' | b'(')))?;
    if tokens[open] != Token::Punct(b'{') {
        return None;
    }
    let (mut depth, mut fields, mut public) = (0, 0, 0);
    for at in open..tokens.len() {
        match tokens[at] {
            Token::Punct(b'{' | b'(' | b'[') => depth += 1,
            Token::Punct(b'}' | b')' | b']') => depth -= 1,
            Token::Punct(b':') if depth == 1 => {
                fields += 1;
                public += usize::from(matches!(tokens[at - 2], Token::Word("pub") | Token::Punct(b')')));
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    Some((name, fields, public))
}

/// The type that an `impl` block belongs to: the last name before its generics.
fn implemented<'a>(tokens: &[Token<'a>]) -> Option<&'a str> {
    let (mut angle, mut name) = (0i32, None);
    for (at, token) in tokens.iter().enumerate() {
        match *token {
            Token::Punct(b'<') => angle += 1,
            Token::Punct(b'>') if tokens[at.max(1) - 1] != Token::Punct(b'-') => angle -= 1,
            Token::Punct(b'{' | b';') | Token::Word("where") if angle == 0 => return name,
            Token::Word("for") if angle == 0 => name = None,
            Token::Word(word) if angle == 0 => name = Some(word),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_impl_blocks_are_counted() {
        let file = |path: &str, text: &str| SourceFile { path: path.into(), text: text.into() };
        let files = [
            file(
                "a.rs",
                "pub struct Pg<T> { pub a: BTreeMap<u8, u8>, pub(crate) b: fn(u8) -> T, c: [u8; 4] }",
            ),
            file("b.rs", "impl<T: Into<u8>> Pg<T> { fn f(&self) -> impl Fn() { todo() } }"),
            file("c.rs", "impl fmt::Debug for super::Pg<u8> where u8: Copy {} struct Other;"),
            file("pg_tests.rs", "impl Pg<u8> {}"),
        ];
        let pg = &structs(files.iter())["Pg"];
        assert_eq!((pg.file.as_str(), pg.fields, pg.public), ("a.rs", 3, 2));
        assert_eq!(pg.impls.iter().collect::<Vec<_>>(), ["b.rs", "c.rs"]);
    }
}

//! The notation of command signatures, and its parser.
//!
//! A signature is a list of words. A bare word is part of the prefix (`osd pool create`); a word with a colon
//! declares an argument: `name:kind`, where a trailing `?` makes it optional, `*` repeatable, `[range]`
//! bounds a number, `(a|b)` lists the choices and `/chars/` the characters allowed (`/n/` is names, `/e/`
//! names and `=`).

/// The type of an argument, in the vocabulary of Ceph's clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A signed number.
    Int,
    /// A decimal number.
    Float,
    /// Any text value.
    Str,
    /// One of the listed words.
    Choices,
    /// A pool's name.
    Pool,
    /// An object's name.
    Object,
    /// A placement group, `POOL.SEED`.
    Pg,
    /// A daemon: `osd.0`, `mon.a`.
    Name,
    /// `0` or `osd.0`.
    Osd,
    /// An address with a nonce.
    Addr,
    /// A uuid in hexadecimal.
    Uuid,
    /// A flag that is there or not.
    Bool,
}

impl Kind {
    /// The type's name in Ceph's descriptions.
    pub fn ceph_name(self) -> &'static str {
        match self {
            Self::Int => "CephInt",
            Self::Float => "CephFloat",
            Self::Str => "CephString",
            Self::Choices => "CephChoices",
            Self::Pool => "CephPoolname",
            Self::Object => "CephObjectname",
            Self::Pg => "CephPgid",
            Self::Name => "CephName",
            Self::Osd => "CephOsdName",
            Self::Addr => "CephEntityAddr",
            Self::Uuid => "CephUUID",
            Self::Bool => "CephBool",
        }
    }

    fn parse(word: &str) -> Self {
        match word {
            "int" => Self::Int,
            "float" => Self::Float,
            "str" => Self::Str,
            "choice" => Self::Choices,
            "pool" => Self::Pool,
            "object" => Self::Object,
            "pg" => Self::Pg,
            "name" => Self::Name,
            "osd" => Self::Osd,
            "addr" => Self::Addr,
            "uuid" => Self::Uuid,
            "bool" => Self::Bool,
            other => panic!("no argument kind `{other}`"),
        }
    }
}

/// One declared argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Param {
    /// Its name in the command's JSON.
    pub name: &'static str,
    /// Type of the argument.
    pub kind: Kind,
    /// May be left out.
    pub optional: bool,
    /// Takes a list.
    pub many: bool,
    /// `min` or `min|max`.
    pub range: Option<&'static str>,
    /// Permitted values, `a|b|c`.
    pub choices: Option<&'static str>,
    /// A set of characters, as clients want it written.
    pub chars: Option<&'static str>,
}

/// A word of a signature.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Word {
    /// Part of the prefix.
    Literal(&'static str),
    /// An argument of the command.
    Param(Param),
}

/// Parses a signature. Panics on one that is written wrong: signatures are ours, and a test reads all of
/// them.
pub fn parse(signature: &'static str) -> Vec<Word> {
    signature.split_whitespace().map(parse_word).collect()
}

fn parse_word(word: &'static str) -> Word {
    let Some((name, rest)) = word.split_once(':') else { return Word::Literal(word) };
    let kind_end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    let mut param = Param {
        name,
        kind: Kind::parse(&rest[..kind_end]),
        optional: false,
        many: false,
        range: None,
        choices: None,
        chars: None,
    };
    let mut tail = &rest[kind_end..];
    while let Some(mark) = tail.chars().next() {
        let close = match mark {
            '[' => ']',
            '(' => ')',
            '/' => '/',
            '?' | '*' => {
                param.optional |= mark == '?';
                param.many |= mark == '*';
                tail = &tail[1..];
                continue;
            }
            other => panic!("`{other}` in the signature word `{word}`"),
        };
        let end = 1 + tail[1..].find(close).unwrap_or_else(|| panic!("`{word}` lacks a `{close}`"));
        let inner = &tail[1..end];
        match mark {
            '[' => param.range = Some(inner),
            '(' => param.choices = Some(inner),
            _ => param.chars = Some(if inner == "e" { "[A-Za-z0-9-_.=]" } else { "[A-Za-z0-9-_.]" }),
        }
        tail = &tail[end + 1..];
    }
    Word::Param(param)
}

/// The words of a signature before its first argument.
pub fn prefix(signature: &'static str) -> String {
    let literal = |word| if let Word::Literal(text) = word { Some(text) } else { None };
    parse(signature).into_iter().filter_map(literal).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_mark() {
        let words = parse("osd pool set pool:pool var:choice(size|min_size) n:int?[0|10] ids:str*? k:str/n/");
        assert_eq!(words.len(), 8);
        let Word::Param(n) = &words[5] else { panic!("a parameter") };
        assert_eq!((n.name, n.kind, n.optional, n.range), ("n", Kind::Int, true, Some("0|10")));
        let Word::Param(ids) = &words[6] else { panic!("a parameter") };
        assert!(ids.many && ids.optional);
        let Word::Param(var) = &words[4] else { panic!("a parameter") };
        assert_eq!(var.choices, Some("size|min_size"));
    }
}

//! Separates the code of a Rust file from its comments, and splits the code into tokens.
//!
//! No parser: the guards need to know what is a comment, what is a string and which words follow one another.
//! Both halves keep the length and the lines of the file, so an offset in one is an offset in the other.

/// A source file taken apart. Whatever does not belong to a half is spaces there.
pub struct Split {
    /// The code, without comments, lifetimes, or the contents of strings and characters.
    pub code: String,
    /// The comments with their markers (`//`, `///`, `//!`, `/*`).
    pub comments: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Code,
    Comment,
    Blank,
}

/// Splits the text of a Rust file.
pub fn split(text: &str) -> Split {
    let bytes = text.as_bytes();
    let mut parts = vec![Part::Code; bytes.len()];
    let mut at = 0;
    while at < bytes.len() {
        let (len, part) = next(bytes, at);
        parts[at..at + len].fill(part);
        at += len;
    }
    let half = |wanted: Part| {
        let keep = |(i, &b): (usize, &u8)| if b == b'\n' || parts[i] == wanted { b } else { b' ' };
        String::from_utf8_lossy(&bytes.iter().enumerate().map(keep).collect::<Vec<_>>()).into_owned()
    };
    Split { code: half(Part::Code), comments: half(Part::Comment) }
}

/// Length and kind of what starts at `at`.
fn next(bytes: &[u8], at: usize) -> (usize, Part) {
    let rest = &bytes[at..];
    match rest {
        [b'/', b'/', ..] => (rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len()), Part::Comment),
        [b'/', b'*', ..] => (block_comment(rest), Part::Comment),
        [b'"', ..] => (string(rest), Part::Blank),
        [b'\'', ..] => (quote(rest), Part::Blank),
        [first, ..] if is_word(*first) => {
            let word = rest.iter().position(|&b| !is_word(b)).unwrap_or(rest.len());
            let prefix = matches!(&rest[..word], b"r" | b"b" | b"c" | b"br" | b"cr");
            match rest.get(word) {
                Some(b'"') if prefix && rest[word - 1] == b'r' => (raw_string(rest, word), Part::Blank),
                Some(b'#') if prefix && rest[word - 1] == b'r' && opens_raw(rest, word) => {
                    (raw_string(rest, word), Part::Blank)
                }
                Some(b'"') if prefix => (word + string(&rest[word..]), Part::Blank),
                Some(b'\'') if &rest[..word] == b"b" => (word + quote(&rest[word..]), Part::Blank),
                _ => (word, Part::Code),
            }
        }
        _ => (1, Part::Code),
    }
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// A character with its quotes, or a lifetime.
fn quote(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        return rest.iter().skip(3).position(|&b| b == b'\'').map_or(rest.len(), |i| i + 4);
    }
    let word = rest[1..].iter().position(|&b| !is_word(b)).unwrap_or(rest.len() - 1);
    match rest.get(1 + word.max(1)) {
        Some(b'\'') => 2 + word.max(1),
        _ => 1 + word,
    }
}

fn opens_raw(rest: &[u8], word: usize) -> bool {
    rest[word..].iter().find(|&&b| b != b'#') == Some(&b'"')
}

fn raw_string(rest: &[u8], word: usize) -> usize {
    let hashes = rest[word..].iter().take_while(|&&b| b == b'#').count();
    let mut end = vec![b'"'];
    end.resize(1 + hashes, b'#');
    let from = word + hashes + 1;
    rest[from..].windows(end.len()).position(|w| w == end).map_or(rest.len(), |i| from + i + end.len())
}

/// One token of code: a word, `::`, or one byte of punctuation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Token<'a> {
    /// An identifier, a keyword or a number.
    Word(&'a str),
    /// `::`.
    Sep,
    /// Anything else, byte by byte.
    Punct(u8),
}

impl<'a> Token<'a> {
    /// The identifier or keyword, if it is one.
    pub fn ident(self) -> Option<&'a str> {
        match self {
            Token::Word(word) if !word.starts_with(|c: char| c.is_ascii_digit()) => Some(word),
            _ => None,
        }
    }
}

/// Splits blanked code (see [`Split::code`]) into tokens, each with its offset.
pub fn tokens(code: &str) -> Vec<(usize, Token<'_>)> {
    let bytes = code.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let b = bytes[at];
        if is_word(b) {
            let len = bytes[at..].iter().position(|&b| !is_word(b)).unwrap_or(bytes.len() - at);
            out.push((at, Token::Word(&code[at..at + len])));
            at += len;
        } else if bytes[at..].starts_with(b"::") {
            out.push((at, Token::Sep));
            at += 2;
        } else {
            if !b.is_ascii_whitespace() {
                out.push((at, Token::Punct(b)));
            }
            at += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let split = split(text);
        tokens(&split.code).iter().filter_map(|(_, t)| t.ident().map(str::to_owned)).collect()
    }

    #[test]
    fn comments_and_strings_are_no_code() {
        assert_eq!(words("a /* b /* c */ d */ e // f\n g \"h \\\" i\" j"), ["a", "e", "g", "j"]);
        assert_eq!(words("r\"a\" b r#\"c \" d\"# e br##\"f\"# g\"## h b\"i\" j"), ["b", "e", "h", "j"]);
    }

    #[test]
    fn a_quote_opens_a_character_or_a_lifetime() {
        assert_eq!(
            words("fn f<'a>(x: &'a str) { '\"' ; b'x' ; '\\'' ; 'é' ; '{' ; y }"),
            ["fn", "f", "x", "str", "y"]
        );
        assert_eq!(words("'outer: loop { break 'outer }"), ["loop", "break"]);
    }

    #[test]
    fn halves_keep_offsets_and_lines() {
        let text = "let é = 1; // größe\nnext /* x\n y */ z\n";
        let split = split(text);
        assert_eq!((split.code.len(), split.comments.len()), (text.len(), text.len()));
        assert_eq!(split.code.lines().count(), text.lines().count());
        assert_eq!(split.comments.lines().next().map(str::trim), Some("// größe"));
        assert!(split.comments.contains("/* x\n y */"));
    }
}

//! The common part of the three grammars: words, quoted strings, `name=value`, and errors with their place.

use super::perm::Perm;

/// A string that is no capability.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("at byte {at}: expected {expected}")]
pub struct CapsError {
    /// Offset in bytes.
    pub at: usize,
    /// The expected and the found text.
    pub expected: String,
}

/// A cursor over a capability string.
pub(super) struct Parser<'a> {
    text: &'a str,
    at: usize,
}

const STOPS: [char; 5] = [',', ';', '=', '"', '\''];

impl<'a> Parser<'a> {
    /// Parses the grants of `text`, separated by `,` or `;`; one at the end is tolerated.
    pub fn grants<G>(
        text: &'a str,
        mut grant: impl FnMut(&mut Self) -> Result<G, CapsError>,
    ) -> Result<Vec<G>, CapsError> {
        let mut p = Self { text, at: 0 };
        let mut out = Vec::new();
        while !p.at_end() {
            out.push(grant(&mut p)?);
            if !p.at_end() && !p.eat(',') && !p.eat(';') {
                return Err(p.error("`,` or `;` or the end"));
            }
        }
        Ok(out)
    }

    pub fn at_end(&mut self) -> bool {
        self.rest().is_empty()
    }

    /// True at the end of this grant.
    pub fn grant_ends(&mut self) -> bool {
        self.rest().is_empty() || self.rest().starts_with([',', ';'])
    }

    pub fn error(&mut self, expected: &str) -> CapsError {
        let found = match self.rest().split_whitespace().next() {
            None => "the end".to_owned(),
            Some(word) => format!("`{word}`"),
        };
        CapsError { at: self.at, expected: format!("{expected}; found {found}") }
    }

    /// The rest, after spaces.
    fn rest(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    /// Takes `c` if it is next.
    pub fn eat(&mut self, c: char) -> bool {
        let found = self.rest().starts_with(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    /// The next bare word, without taking it; empty if there is none.
    pub fn peek(&mut self) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c: char| c.is_whitespace() || STOPS.contains(&c)).unwrap_or(rest.len());
        &rest[..end]
    }

    /// Takes the next word if it is `word`.
    pub fn eat_word(&mut self, word: &str) -> bool {
        let found = self.peek() == word;
        if found {
            self.at += word.len();
        }
        found
    }

    /// Takes a bare or quoted word.
    pub fn word(&mut self, expected: &str) -> Result<String, CapsError> {
        for quote in ['"', '\''] {
            if let Some(inner) = self.rest().strip_prefix(quote) {
                let Some(end) = inner.find(quote) else {
                    return Err(self.error(&format!("{expected}, closed by {quote}")));
                };
                self.at += end + 2;
                return Ok(inner[..end].to_owned());
            }
        }
        let word = self.peek();
        if word.is_empty() {
            return Err(self.error(expected));
        }
        self.at += word.len();
        Ok(word.to_owned())
    }

    /// The value of `name=value` or `name value`, once `name` was taken.
    pub fn value(&mut self, expected: &str) -> Result<String, CapsError> {
        self.eat('=');
        self.word(expected)
    }

    /// Takes a selection of `rwx`, `*` or `all` if it is next.
    pub fn perm(&mut self) -> Option<Perm> {
        let word = self.peek();
        let perm = Perm::parse(word)?;
        self.at += word.len();
        Some(perm)
    }

    /// Takes one or more decimal numbers with commas between.
    pub fn numbers(&mut self) -> Result<Vec<u32>, CapsError> {
        let mut out = Vec::new();
        loop {
            let word = self.peek();
            out.push(word.parse().map_err(|_| self.error("a number"))?);
            self.at += word.len();
            let mut next =
                self.rest().strip_prefix(',').into_iter().flat_map(str::chars).skip_while(|c| *c == ' ');
            if !next.next().is_some_and(|c| c.is_ascii_digit()) {
                return Ok(out);
            }
            self.eat(',');
        }
    }
}

//! No line of a Rust file is over 110 columns. rustfmt wraps code, but neither comments nor strings nor what
//! stands in macros.

use super::lexer;
use super::tree::SourceFile;

/// The widest line allowed; the same number is in rustfmt.toml.
pub const COLUMNS: usize = 110;

/// The lines of one file that are too wide, by their numbers from 1.
#[derive(Default, Debug, PartialEq)]
pub struct Wide {
    /// Those with a comment, which can always be broken. A comment of one word, such as an address, is none.
    pub comments: Vec<usize>,
    /// Those of code alone.
    pub code: Vec<usize>,
}

impl Wide {
    /// The lines of a file that are too wide.
    pub fn of(file: &SourceFile) -> Self {
        let mut wide = Self::default();
        let lines = file.text.lines().enumerate();
        let mut lines =
            lines.filter(|(_, line)| line.chars().count() > COLUMNS && !is_one_word(line)).peekable();
        if lines.peek().is_none() {
            return wide;
        }
        let comments = lexer::split(&file.text).comments;
        let comments: Vec<&str> = comments.lines().collect();
        for (at, _) in lines {
            let has_comment = comments.get(at).is_some_and(|comment| !comment.trim().is_empty());
            let found = if has_comment { &mut wide.comments } else { &mut wide.code };
            found.push(at + 1);
        }
        wide
    }

    /// Number of lines.
    pub fn len(&self) -> usize {
        self.comments.len() + self.code.len()
    }
}

fn is_one_word(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next().is_some_and(|first| first.starts_with("//")) && words.count() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_comments_code_and_strings_are_found() {
        let wide = "x".repeat(60);
        let of = |text: String| Wide::of(&SourceFile { path: "a.rs".into(), text });
        let code = format!("fn f() {{}}\n// {wide} {wide}\nlet a = \"// {wide} {wide}\";\n");
        let text = format!("{code}// https://{wide}{wide}\n");
        assert_eq!(of(text), Wide { comments: vec![2], code: vec![3] });
        let mixed = format!("let a = \"{wide}\"; // {wide}\n");
        let text = format!("{mixed}// {}\n// {}é\n", "é".repeat(107), "é ".repeat(54));
        assert_eq!(of(text), Wide { comments: vec![1, 3], code: vec![] });
    }
}

//! No line of a Rust file is over 110 columns. rustfmt wraps code, but neither comments nor strings.

use super::tree::SourceFile;

/// The widest line allowed; the same number is in rustfmt.toml.
pub const COLUMNS: usize = 110;

/// The numbers of the lines that are too wide, from 1. A comment of one word, such as an address, may be.
pub fn wide_lines(file: &SourceFile) -> Vec<usize> {
    let wide = |line: &str| line.chars().count() > COLUMNS && !is_one_word(line);
    file.text.lines().enumerate().filter(|(_, line)| wide(line)).map(|(at, _)| at + 1).collect()
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
        let text =
            format!("fn f() {{}}\n// {wide} {wide}\nlet a = \"{wide} {wide}\";\n// https://{wide}{wide}\n");
        assert_eq!(wide_lines(&SourceFile { path: "a.rs".into(), text }), [2, 3]);
        let text = format!("// {}\n// {}é\n", "é".repeat(107), "é ".repeat(54));
        assert_eq!(wide_lines(&SourceFile { path: "a.rs".into(), text }), [2]);
    }
}

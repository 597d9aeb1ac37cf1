//! Output piece by piece: a directory may have more entries than memory should hold.

use super::findings::Findings;
use crate::cmd::terminal::Format;
use anyhow::Result;
use serde_json::Value;
use std::io::Write;

/// Writes lines for people, or one JSON object for programs.
pub(super) struct Printer<'a> {
    out: &'a mut dyn Write,
    format: Format,
    /// Open brackets: what closes each, and whether it has elements.
    open: Vec<(char, bool)>,
}

impl<'a> Printer<'a> {
    /// A printer; JSON is begun with the first element.
    pub fn new(out: &'a mut dyn Write, format: Format) -> Self {
        Self { out, format, open: Vec::new() }
    }

    /// True if it prints for people.
    pub fn is_plain(&self) -> bool {
        self.format == Format::Plain
    }

    /// A line for people.
    pub fn line(&mut self, line: impl AsRef<str>) -> Result<()> {
        if self.is_plain() {
            writeln!(self.out, "{}", line.as_ref())?;
        }
        Ok(())
    }

    /// A field of the JSON object that is open.
    pub fn field(&mut self, key: &str, value: &Value) -> Result<()> {
        if self.is_plain() {
            return Ok(());
        }
        self.separate()?;
        write!(self.out, "{}:{value}", Value::from(key))?;
        Ok(())
    }

    /// All fields of a JSON object, as fields of the one that is open.
    pub fn fields(&mut self, value: &Value) -> Result<()> {
        value.as_object().into_iter().flatten().try_for_each(|(key, value)| self.field(key, value))
    }

    /// Opens a JSON array under a key.
    pub fn open_list(&mut self, key: &str) -> Result<()> {
        if self.is_plain() {
            return Ok(());
        }
        self.separate()?;
        write!(self.out, "{}:[", Value::from(key))?;
        self.open.push((']', false));
        Ok(())
    }

    /// An element of the JSON array that is open.
    pub fn item(&mut self, value: &Value) -> Result<()> {
        if self.is_plain() {
            return Ok(());
        }
        self.separate()?;
        write!(self.out, "\n{value}")?;
        Ok(())
    }

    /// Opens a JSON object as an element of the array that is open.
    pub fn open_item(&mut self) -> Result<()> {
        if self.is_plain() {
            return Ok(());
        }
        self.separate()?;
        write!(self.out, "\n{{")?;
        self.open.push(('}', false));
        Ok(())
    }

    /// Closes what was opened last.
    pub fn close(&mut self) -> Result<()> {
        if let Some((bracket, _)) = self.open.pop() {
            write!(self.out, "{bracket}")?;
        }
        Ok(())
    }

    /// Prints what was found damaged, and ends the output.
    pub fn end(mut self, findings: Findings) -> Result<Findings> {
        if self.is_plain() {
            self.out.write_all(findings.plain().as_bytes())?;
            return Ok(findings);
        }
        self.field("damage", &findings.damage_json())?;
        self.field("notes", &findings.notes_json())?;
        while !self.open.is_empty() {
            self.close()?;
        }
        writeln!(self.out)?;
        Ok(findings)
    }

    fn separate(&mut self) -> Result<()> {
        match self.open.last_mut() {
            None => {
                self.open.push(('}', true));
                write!(self.out, "{{")?;
            }
            Some((_, has_elements)) if *has_elements => write!(self.out, ",")?,
            Some((_, has_elements)) => *has_elements = true,
        }
        Ok(())
    }
}

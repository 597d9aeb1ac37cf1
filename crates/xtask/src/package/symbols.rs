//! What a program needs of the host it runs on: libraries, and versions of glibc's symbols.

use super::tools::output;
use anyhow::{Result, bail};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// A version of glibc, as `GLIBC_2.31` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Glibc(u32, u32);

/// Debian 11, Ubuntu 20.04, RHEL 9 and Leap 15.4 have this one or a newer one.
pub const OLDEST: Glibc = Glibc(2, 31);

/// The libraries and versioned symbols that the dynamic linker must find; none in a static program.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub libraries: Vec<String>,
    symbols: BTreeSet<(Glibc, String)>,
}

impl std::fmt::Display for Glibc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl Glibc {
    /// Of `GLIBC_2.3.4` only the first two numbers count.
    fn parse(version: &str) -> Option<Self> {
        let mut numbers = version.strip_prefix("GLIBC_")?.split('.').map(str::parse);
        Some(Self(numbers.next()?.ok()?, numbers.next()?.ok()?))
    }
}

impl Needs {
    pub fn of(binary: &Path) -> Result<Self> {
        let mut command = Command::new("readelf");
        command.args(["--wide", "--dynamic", "--dyn-syms"]).arg(binary).env("LC_ALL", "C");
        Ok(Self::parse(&output(&mut command, "binutils")?))
    }

    /// Reads what `readelf --wide --dynamic --dyn-syms` prints.
    fn parse(text: &str) -> Self {
        let mut needs = Self::default();
        for line in text.lines() {
            if line.contains("(NEEDED)") {
                let name = line.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
                needs.libraries.extend(name.map(|(name, _)| name.to_owned()));
            }
            // `12: 0000000000000000 0 FUNC GLOBAL DEFAULT UND memcpy@GLIBC_2.14 (5)`
            let mut words = line.split_whitespace().skip_while(|word| *word != "UND").skip(1);
            let symbol = words.next().and_then(|word| word.split_once('@'));
            if let Some((name, version)) = symbol
                && let Some(version) = Glibc::parse(version.trim_start_matches('@'))
            {
                needs.symbols.insert((version, name.to_owned()));
            }
        }
        needs
    }

    pub fn is_static(&self) -> bool {
        self.libraries.is_empty()
    }

    /// The oldest glibc that has all symbols.
    pub fn glibc(&self) -> Option<Glibc> {
        self.symbols.last().map(|(version, _)| *version)
    }

    /// Refuses a program that would not start where the packages are meant to be installed.
    pub fn check(&self) -> Result<()> {
        let newer = self.symbols.iter().rev().filter(|(version, _)| *version > OLDEST);
        let newer: Vec<_> = newer.map(|(version, name)| format!("{name} (GLIBC_{version})")).collect();
        if newer.is_empty() {
            return Ok(());
        }
        bail!(
            "this program needs symbols that glibc {OLDEST} does not have: {}; build it with cargo-zigbuild, \
             or take it with --any-glibc",
            newer.join(", ")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "\
 0x0000000000000001 (NEEDED)             Shared library: [libgcc_s.so.1]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
     1: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND memcpy@GLIBC_2.14 (2)
     2: 0000000000000000     0 FUNC    WEAK   DEFAULT  UND stat64@GLIBC_2.33 (3)
     3: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND dlsym@GLIBC_2.34 (4)
     4: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND _Unwind_Resume@GCC_3.0 (5)
     5: 0000000000001130    10 FUNC    GLOBAL DEFAULT   15 own@@GLIBC_2.99
     6: 0000000000000000     0 NOTYPE  WEAK   DEFAULT  UND __gmon_start__
";

    #[test]
    fn symbols_newer_than_the_oldest_glibc_are_named() {
        let needs = Needs::parse(PRINTED);
        assert_eq!(needs.libraries, ["libgcc_s.so.1", "libc.so.6"]);
        assert_eq!(needs.glibc(), Some(Glibc(2, 34)));
        let said = needs.check().expect_err("refused").to_string();
        assert!(said.contains(": dlsym (GLIBC_2.34), stat64 (GLIBC_2.33); build"), "{said}");
    }

    #[test]
    fn two_numbers_are_compared_as_numbers() {
        let old = PRINTED.replace("2.33", "2.9").replace("2.34", "2.4");
        let needs = Needs::parse(&old);
        assert_eq!(needs.glibc(), Some(Glibc(2, 14)));
        needs.check().expect("old enough");
        assert!(!needs.is_static() && Needs::parse("There is no dynamic section.").is_static());
    }
}

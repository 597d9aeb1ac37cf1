//! Names of images on the command line.

use anyhow::{Result, bail};
use std::fmt;

/// `POOL[/NAMESPACE]/IMAGE[@SNAPSHOT]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ImageSpec {
    pub(crate) pool: String,
    pub(crate) namespace: String,
    pub(crate) image: String,
    pub(crate) snap: Option<String>,
}

impl ImageSpec {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` names no image: give POOL/IMAGE, or POOL/NAMESPACE/IMAGE@SNAPSHOT");
        let (path, snap) = match text.split_once('@') {
            Some((path, snap)) => (path, Some(snap.to_owned())),
            None => (text, None),
        };
        let parts: Vec<&str> = path.split('/').collect();
        let (pool, namespace, image) = match parts.as_slice() {
            [pool, image] => (*pool, "", *image),
            [pool, namespace, image] if !namespace.is_empty() => (*pool, *namespace, *image),
            _ => return Err(wrong()),
        };
        if pool.is_empty()
            || image.is_empty()
            || snap.as_ref().is_some_and(|s| s.is_empty() || s.contains('@'))
        {
            return Err(wrong());
        }
        Ok(Self { pool: pool.into(), namespace: namespace.into(), image: image.into(), snap })
    }

    /// The same without a snapshot; an error if there is one.
    pub(crate) fn no_snap(&self) -> Result<&Self> {
        if let Some(snap) = &self.snap {
            bail!("this is done to images, not to snapshots: leave `@{snap}` out");
        }
        Ok(self)
    }

    /// The snapshot; an error if there is none.
    pub(crate) fn need_snap(&self) -> Result<&str> {
        match &self.snap {
            Some(snap) => Ok(snap),
            None => bail!("name a snapshot: {self}@SNAPSHOT"),
        }
    }
}

impl fmt::Display for ImageSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.pool)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.image)?;
        self.snap.as_ref().map_or(Ok(()), |snap| write!(f, "@{snap}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_two_or_three_parts() {
        for text in ["p/i", "p/n/i", "p/n/i@s", "p/i@s"] {
            assert_eq!(ImageSpec::parse(text).expect("a name").to_string(), text);
        }
        for text in ["i", "p/", "/i", "p//i", "a/b/c/d", "p/i@", "p/i@s@t", ""] {
            assert!(ImageSpec::parse(text).expect_err(text).contains("POOL/IMAGE"));
        }
    }
}

//! Fields that have their default nearly always, or the same value in many structures.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A type whose default is a constant.
pub trait ConstDefault: Default + PartialEq + 'static {
    /// The default value.
    fn const_default() -> &'static Self;
}

impl<K: PartialEq + 'static, V: PartialEq + 'static> ConstDefault for BTreeMap<K, V> {
    fn const_default() -> &'static Self {
        const { &Self::new() }
    }
}

impl<T: PartialEq + 'static> ConstDefault for BTreeSet<T> {
    fn const_default() -> &'static Self {
        const { &Self::new() }
    }
}

impl<T: PartialEq + 'static> ConstDefault for Vec<T> {
    fn const_default() -> &'static Self {
        const { &Self::new() }
    }
}

/// A field that has its default nearly always, and then takes the room of a pointer.
#[derive(Clone, PartialEq)]
pub struct Rare<T> {
    /// Never the default.
    value: Option<Box<T>>,
}

impl<T: ConstDefault> Rare<T> {
    /// Changes the value.
    pub fn edit<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> R {
        match self.value.take() {
            Some(mut value) => {
                let result = change(&mut value);
                self.value = Some(value).filter(|value| **value != *T::const_default());
                result
            }
            // No memory is taken for a change that leaves the default.
            None => {
                let mut value = T::default();
                let result = change(&mut value);
                *self = value.into();
                result
            }
        }
    }
}

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Self { value: None }
    }
}

impl<T: ConstDefault> From<T> for Rare<T> {
    fn from(value: T) -> Self {
        let is_default = value == *T::const_default();
        Self { value: (!is_default).then(|| Box::new(value)) }
    }
}

impl<T: ConstDefault> Deref for Rare<T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.value.as_deref().unwrap_or_else(|| T::const_default())
    }
}

impl<T: ConstDefault + fmt::Debug> fmt::Debug for Rare<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A value that many structures have in common. It is replaced whole.
#[derive(Clone)]
pub struct Shared<T> {
    /// None for the default.
    value: Option<Arc<T>>,
}

impl<T: ConstDefault> Shared<T> {
    /// Takes the memory of the last value that was united if it is the same, and else becomes the last one.
    pub fn unite(&mut self, last: &mut Self) {
        if self.value.is_none() || self.is_same(last) {
            return;
        }
        if self == last {
            self.value.clone_from(&last.value);
        } else {
            last.value.clone_from(&self.value);
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (&self.value, &other.value) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self { value: None }
    }
}

impl<T: ConstDefault> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        let is_default = value == *T::const_default();
        Self { value: (!is_default).then(|| Arc::new(value)) }
    }
}

impl<T: ConstDefault> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || **self == **other
    }
}

impl<T: ConstDefault> Deref for Shared<T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.value.as_deref().unwrap_or_else(|| T::const_default())
    }
}

impl<T: ConstDefault + fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_takes_no_memory() {
        let mut names: Rare<Vec<u32>> = Rare::default();
        assert!(names.is_empty());
        names.edit(|names| names.push(7));
        assert_eq!((names.clone(), format!("{names:?}")), (vec![7].into(), "[7]".into()));
        names.edit(Vec::clear);
        assert!(names.value.is_none() && names == Vec::new().into());
        assert_eq!(size_of::<Rare<Vec<u32>>>(), size_of::<usize>());
    }

    #[test]
    fn equal_values_are_united() {
        let mut last: Shared<Vec<u32>> = vec![1].into();
        let mut same: Shared<Vec<u32>> = vec![1].into();
        assert!(!same.is_same(&last));
        same.unite(&mut last);
        assert!(same.is_same(&last));
        let mut other: Shared<Vec<u32>> = vec![2].into();
        other.unite(&mut last);
        assert!(last.is_same(&other) && *same == [1] && Shared::<Vec<u32>>::default().is_empty());
    }
}

//! Id newtypes.

/// Declares `Copy` newtypes over an integer, ordered, hashable and shown by a format.
///
/// ```
/// stdx::ids! { /** An epoch. */ pub struct Epoch(u32) = "e{}"; }
/// assert_eq!(Epoch(7).to_string(), "e7");
/// ```
#[macro_export]
macro_rules! ids {
    ($( $(#[$meta:meta])* $vis:vis struct $name:ident($inner:ty) = $format:literal; )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        $vis struct $name(pub $inner);
        impl ::core::fmt::Display for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                write!(f, $format, self.0)
            }
        }
        impl ::core::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                write!(f, $format, self.0)
            }
        }
    )*};
}

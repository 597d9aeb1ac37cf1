//! `sparse_structs!`: stored structures most of whose fields have their default most of the time.
//!
//! ```text
//! | u8 version | u8 oldest reader | u32 length | mask | the fields whose bit is set, in order |
//! ```
//!
//! Bit N of the mask stands for field N. A field with its default takes no bytes, so a field that nothing
//! fills yet costs nothing in the journal. Later versions append fields; an older reader skips them by the
//! length. A field is never removed or moved.

macro_rules! sparse_structs {
    ($( $(#[$meta:meta])* pub struct $name:ident[v $version:literal / $compat:literal, $mask:ty] {
        $( $(#[$fmeta:meta])* pub $field:ident : $type:ty ),* $(,)?
    } )*) => {$(
        $(#[$meta])*
        #[derive(Clone, PartialEq, Debug, Default)]
        pub struct $name { $( $(#[$fmeta])* pub $field: $type ),* }

        const _: () = assert!([$( stringify!($field) ),*].len() <= <$mask>::BITS as usize);

        impl ::wire::Encode for $name {
            fn encode(&self, w: &mut ::wire::Writer) {
                w.versioned($version, $compat, |w| {
                    let present = [$( self.$field != <$type>::default() ),*];
                    let add = |mask: $mask, set: &bool| mask << 1 | <$mask>::from(*set);
                    let mask = present.iter().rev().fold(0, add);
                    w.put(&mask);
                    let mut present = present.into_iter();
                    $( if present.next() == Some(true) { w.put(&self.$field); } )*
                });
            }
        }
        impl ::wire::Decode for $name {
            const MIN_SIZE: usize = 6 + size_of::<$mask>();
            fn decode(r: &mut ::wire::Reader<'_>) -> Result<Self, ::wire::DecodeError> {
                r.versioned($version, |_, r| {
                    let mask: $mask = r.get()?;
                    let mut present = (0..<$mask>::BITS).map(|bit| mask >> bit & 1 == 1);
                    Ok(Self { $(
                        $field: if present.next() == Some(true) { r.get()? } else { <$type>::default() }
                    ),* })
                })
            }
        }
        impl ::wire::Sample for $name {
            fn sample(rng: &mut ::stdx::Rng) -> Self {
                Self { $(
                    $field: if rng.chance(1, 2) { ::wire::Sample::sample(rng) } else { <$type>::default() }
                ),* }
            }
        }
    )*};
}
pub(crate) use sparse_structs;

#[cfg(test)]
mod tests {
    use wire::{Reader, Writer};

    sparse_structs! {
        /// An older form.
        pub struct Old[v 1/1, u8] {
            /// Kept.
            pub a: u32,
            /// Kept.
            pub b: Vec<u8>,
        }
        /// The same with a field more.
        pub struct New[v 2/1, u8] {
            /// Kept.
            pub a: u32,
            /// Kept.
            pub b: Vec<u8>,
            /// Added.
            pub c: u64,
        }
    }

    #[test]
    fn defaults_take_no_bytes_and_versions_read_each_other() {
        assert_eq!(Writer::encode(&Old::default()), [1, 1, 1, 0, 0, 0, 0]);
        let new = New { a: 0, b: vec![7], c: 9 };
        let bytes = Writer::encode(&new);
        assert_eq!(bytes, [2, 1, 14, 0, 0, 0, 6, 1, 0, 0, 0, 7, 9, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Reader::new(&bytes).get::<Old>().expect("a later version"), Old { a: 0, b: vec![7] });
        let old = Writer::encode(&Old { a: 3, b: Vec::new() });
        assert_eq!(Reader::new(&old).get::<New>().expect("an older version"), New { a: 3, ..New::default() });
    }
}

//! Untrusted bytes: cut-off and oversized encodings are errors, never panics or allocations.

use std::collections::BTreeMap;
use stdx::Rng;
use wire::{Reader, Sample, Writer, wire_structs};

wire_structs! {
    /// The first version of a structure.
    pub struct Old[v 1/1] {
        /// A number.
        pub a: u32,
        /// A name.
        pub b: String,
    }
    /// Its second version, with one more field.
    pub struct New[v 2/1] {
        /// A number.
        pub a: u32,
        /// A name.
        pub b: String,
        /// Since version 2.
        pub c: Vec<u64> = since 2,
    }
    /// A version that the older reader must refuse.
    pub struct Incompatible[v 3/2] {
        /// A number.
        pub a: u32,
    }
}

#[test]
fn an_older_reader_skips_and_a_newer_one_fills_in() {
    let new = New { a: 5, b: "x".into(), c: vec![1, 2] };
    let mut w = Writer::new();
    w.put(&new);
    w.put(&7u8);
    let bytes = w.into_vec();
    let mut r = Reader::new(&bytes);
    assert_eq!(r.get::<Old>().expect("compatible"), Old { a: 5, b: "x".into() });
    assert_eq!(r.get::<u8>().expect("after the skipped tail"), 7);
    let bytes = Writer::encode(&Old { a: 5, b: "x".into() });
    assert_eq!(Reader::new(&bytes).get::<New>().expect("older"), New { a: 5, b: "x".into(), c: vec![] });
    let bytes = Writer::encode(&Incompatible { a: 1 });
    assert!(Reader::new(&bytes).get::<Old>().is_err());
}

#[test]
fn every_cut_is_an_error_with_an_offset() {
    let mut rng = Rng::from_seed(1);
    for _ in 0..50 {
        let value = New::sample(&mut rng);
        let bytes = Writer::encode(&value);
        assert_eq!(Reader::new(&bytes).get::<New>().expect("whole"), value);
        for cut in 0..bytes.len() {
            let error = Reader::new(&bytes[..cut]).get::<New>().expect_err("cut");
            assert!(error.offset <= cut);
        }
    }
}

#[test]
fn an_announced_count_beyond_the_bytes_is_refused_before_allocating() {
    let mut bytes = u32::MAX.to_le_bytes().to_vec();
    bytes.extend([0; 100]);
    assert!(Reader::new(&bytes).get::<Vec<u64>>().is_err());
    assert!(Reader::new(&bytes).get::<Vec<u8>>().is_err());
    assert!(Reader::new(&bytes).get::<BTreeMap<u32, String>>().is_err());
    assert!(Reader::new(&bytes).get::<String>().is_err());
}

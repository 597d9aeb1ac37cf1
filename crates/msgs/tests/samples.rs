//! Random messages of every type survive their encoding.

use msgs::Body;
use std::collections::BTreeSet;

#[test]
fn every_message_survives_its_encoding() {
    let mut rng = stdx::Rng::from_seed(7);
    for tid in 0..100 {
        for body in Body::samples(&mut rng) {
            let again = Body::from_raw(body.to_raw(tid)).unwrap_or_else(|e| panic!("{body:?}: {e}"));
            assert_eq!(again, (tid, body));
        }
    }
}

#[test]
fn a_request_that_names_no_owner_makes_inodes_of_its_caller() {
    let (caller_uid, caller_gid) = (7, 8);
    for (head_version, owner, expected) in
        [(1, (9, 9), (7, 8)), (3, (9, 10), (9, 10)), (3, (u32::MAX, 10), (7, 10))]
    {
        let (owner_uid, owner_gid) = owner;
        let request = msgs::ClientRequest {
            head_version,
            caller_uid,
            caller_gid,
            owner_uid,
            owner_gid,
            ..Default::default()
        };
        let again = Body::from_raw(Body::from(request).to_raw(1)).expect("a request");
        let Body::ClientRequest(again) = again.1 else { panic!("a request") };
        assert_eq!((again.owner_uid, again.owner_gid), expected);
    }
}

#[test]
fn every_message_has_its_own_number() {
    let mut seen = BTreeSet::new();
    for body in Body::samples(&mut stdx::Rng::from_seed(8)) {
        assert!(seen.insert(body.kind()), "{}", body.name());
    }
}

#[test]
fn an_unknown_type_and_a_too_new_message_are_refused_by_name() {
    let mut raw = Body::from(msgs::MonGetMap {}).to_raw(1);
    raw.compat = 9;
    assert!(Body::from_raw(raw.clone()).unwrap_err().what.contains("mon_get_map"));
    raw.kind = 999;
    assert!(Body::from_raw(raw).unwrap_err().what.contains("999"));
}

#[test]
fn random_bytes_never_panic() {
    let mut rng = stdx::Rng::from_seed(9);
    for body in Body::samples(&mut rng) {
        for _ in 0..300 {
            let mut raw = body.to_raw(1);
            if raw.front.is_empty() {
                continue;
            }
            for _ in 0..3 {
                let at = rng.below(raw.front.len() as u64) as usize;
                raw.front[at] = rng.u32() as u8;
            }
            if let Ok((_, decoded)) = Body::from_raw(raw) {
                assert_eq!(decoded.kind(), body.kind());
            }
        }
    }
}

/// Linux asks for new tickets without the last field.
#[test]
fn a_renewal_by_linux_is_understood() {
    let auth = msgs::Auth {
        protocol: 2,
        payload: vec![7; 40],
        monmap_epoch: msgs::Trailing(maps::Epoch(3)),
        ..Default::default()
    };
    let mut raw = Body::from(auth.clone()).to_raw(1);
    raw.front.truncate(raw.front.len() - 4);
    let linux = msgs::Auth { monmap_epoch: msgs::Trailing(maps::Epoch(0)), ..auth };
    assert_eq!(Body::from_raw(raw.clone()), Ok((1, Body::from(linux))));
    raw.front.truncate(raw.front.len() - 1);
    assert!(Body::from_raw(raw).is_err(), "half a payload");
}

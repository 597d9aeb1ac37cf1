//! Journals.

use super::{Object, put, text, values};

fn journal() -> Object {
    let mut o = Object::default();
    o.done("journal.create", put(((12u8, 2u8), 7i64)));
    o
}

fn positions(of: &[(u64, u64, u64)]) -> Vec<u8> {
    values(|w| {
        w.versioned(1, 1, |w| {
            w.count(of.len());
            for (object, tag, entry) in of {
                w.versioned(1, 1, |w| w.put(&((*object, *tag), *entry)));
            }
        });
    })
}

fn client(id: &str, committed: &[(u64, u64, u64)], state: u8) -> Vec<u8> {
    values(|w| {
        w.versioned(1, 1, |w| {
            w.put(&(text(id), text("data")));
            w.raw(&positions(committed));
            w.put(&state);
        });
    })
}

fn tag(id: u64, class: u64) -> Vec<u8> {
    values(|w| w.versioned(1, 1, |w| w.put(&((id, class), text("t")))))
}

#[test]
fn sets_only_rise_and_the_active_one_leads() {
    let mut o = journal();
    assert_eq!(o.call("journal.create", put(((12u8, 2u8), 7i64))), Err(-17));
    assert_eq!(
        (o.gives::<u8>("journal.get_order", vec![]), o.gives::<i64>("journal.get_pool_id", vec![])),
        (12, 7)
    );
    assert_eq!(o.call("journal.set_minimum_set", put(1u64)), Err(-22));
    o.done("journal.set_active_set", put(5u64));
    o.done("journal.set_active_set", put(5u64));
    assert_eq!(o.call("journal.set_active_set", put(4u64)), Err(-116));
    o.done("journal.set_minimum_set", put(3u64));
    assert_eq!(o.call("journal.set_minimum_set", put(2u64)), Err(-116));
    assert_eq!(o.call("journal.set_active_set", put(2u64)), Err(-22));
    assert_eq!(o.gives::<u64>("journal.get_minimum_set", vec![]), 3);
    assert_eq!(Object::default().call("journal.get_active_set", vec![]), Err(-2));
}

#[test]
fn a_new_client_begins_where_the_slowest_is() {
    let mut o = journal();
    let register =
        |o: &mut Object, id: &str| o.call("journal.client_register", put((text(id), text("data"))));
    let commit = |o: &mut Object, id: &str, of: &[(u64, u64, u64)]| {
        o.call("journal.client_commit", [put(text(id)), positions(of)].concat())
    };
    assert_eq!(register(&mut o, ""), Ok(vec![]));
    assert_eq!(register(&mut o, ""), Err(-17));
    assert_eq!(register(&mut o, "a"), Ok(vec![]));
    assert_eq!(
        commit(&mut o, "", &[(0, 1, 1), (1, 1, 0), (2, 0, 9)]),
        Err(-22),
        "more than are used at once"
    );
    assert_eq!(commit(&mut o, "", &[(0, 1, 1), (1, 1, 0)]), Ok(vec![]));
    assert_eq!(commit(&mut o, "a", &[(0, 1, 4)]), Ok(vec![]));
    assert_eq!(register(&mut o, "b"), Ok(vec![]));
    o.done("journal.client_update_state", put((text("a"), 1u8)));
    let list = |o: &mut Object, after: &str| o.call("journal.client_list", put((text(after), 9u64)));
    let slow = [(0, 1, 1), (1, 1, 0)];
    let all = [client("", &slow, 0), client("a", &[(0, 1, 4)], 1), client("b", &slow, 0)];
    assert_eq!(list(&mut o, ""), Ok([put(3u32), all.concat()].concat()));
    assert_eq!(list(&mut o, "a"), Ok([put(1u32), all[2].clone()].concat()));
    o.done("journal.client_unregister", put(text("b")));
    assert_eq!(o.call("journal.get_client", put(text("b"))), Err(-2));
    assert_eq!(Object::default().call("journal.client_register", put((text("a"), text("")))), Err(-2));
}

#[test]
fn tags_that_no_client_needs_are_removed() {
    let mut o = journal();
    o.done("journal.client_register", put((text(""), text("data"))));
    let create =
        |o: &mut Object, id: u64, class: u64| o.call("journal.tag_create", put(((id, class), text("t"))));
    assert_eq!(create(&mut o, 1, u64::MAX), Err(-116));
    assert_eq!(create(&mut o, 0, 0), Err(-22));
    for (id, class) in [(0, u64::MAX), (1, 0), (2, u64::MAX), (3, 1), (4, 0)] {
        assert_eq!(create(&mut o, id, class), Ok(vec![]));
    }
    assert_eq!(create(&mut o, 4, 0), Err(-17));
    let list = |o: &mut Object, class: Option<u64>| {
        o.call("journal.tag_list", put(((0u64, 9u64), (text(""), class))))
    };
    assert_eq!(list(&mut o, Some(1)), Ok([put(2u32), tag(2, 1), tag(3, 1)].concat()));
    o.done("journal.client_commit", [put(text("")), positions(&[(0, 4, 0)])].concat());
    assert_eq!(list(&mut o, None), Ok([put(2u32), tag(3, 1), tag(4, 0)].concat()));
    assert_eq!(o.call("journal.get_tag", put(1u64)), Ok(tag(1, 0)));
    assert_eq!(create(&mut o, 5, 0), Ok(vec![]));
    assert_eq!(o.call("journal.get_tag", put(1u64)), Err(-2));
    assert_eq!(o.gives::<u64>("journal.get_next_tag_tid", vec![]), 6);
}

#[test]
fn full_objects_take_no_more_entries() {
    let mut o = Object::default();
    assert_eq!(o.call("journal.append", put((0u64, text("x")))), Err(-75));
    o.done("journal.guard_append", put(0u64));
    o.done("journal.append", put((5u64, text("abc"))));
    o.done("journal.append", put((5u64, text("def"))));
    assert_eq!(o.call("journal.append", put((5u64, text("ghi")))), Err(-75));
    assert_eq!(o.call("journal.guard_append", put(6u64)), Err(-75));
    assert_eq!(o.data, b"abcdef");
}

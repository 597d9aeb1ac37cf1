use super::*;
use proptest::prelude::*;
use stdx::Buf;
use wire::Errno;

fn export() -> Export {
    Export { name: "p/i".into(), size: 1 << 30, read_only: false, preferred_block: 4096 }
}

/// Gives a connection bytes, piece by piece as it wants them, until they are used up.
fn feed(connection: &mut Connection, mut bytes: &[u8]) -> Result<Vec<Event>, Violation> {
    let mut events = Vec::new();
    while connection.wants() > 0 && connection.wants() <= bytes.len() {
        let (now, later) = bytes.split_at(connection.wants());
        bytes = later;
        events.extend(connection.take(Buf::copy_from(now))?);
    }
    Ok(events)
}

fn sent(events: &[Event]) -> Vec<u8> {
    let bytes = |event: &Event| if let Event::Send(data) = event { data.to_vec() } else { Vec::new() };
    events.iter().flat_map(bytes).collect()
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &number.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

fn go(name: &[u8]) -> Vec<u8> {
    option(7, &[&(name.len() as u32).to_be_bytes()[..], name, &[0, 0]].concat())
}

fn request(kind: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let parts = [
        &0x2560_9513u32.to_be_bytes()[..],
        &[0, 0],
        &kind.to_be_bytes(),
        &cookie.to_be_bytes(),
        &offset.to_be_bytes(),
        &len.to_be_bytes(),
    ];
    parts.concat()
}

fn connected(structured: bool) -> Connection {
    let (mut connection, greeting) = Connection::new(export(), Tls::Off);
    assert_eq!(greeting.to_vec(), [&b"NBDMAGICIHAVEOPT"[..], &[0, 3]].concat());
    let mut bytes = 3u32.to_be_bytes().to_vec();
    if structured {
        bytes.extend(option(8, &[]));
    }
    bytes.extend(go(b"p/i"));
    let answers = sent(&feed(&mut connection, &bytes).expect("it is well formed"));
    // The last answer of `GO` is an acknowledgement without data.
    assert_eq!(answers[answers.len() - 12..], [&[0, 0, 0, 7][..], &[0, 0, 0, 1], &[0; 4]].concat());
    connection
}

#[test]
fn a_client_chooses_the_export_and_sends_requests() {
    let mut connection = connected(true);
    let bytes =
        [request(1, 5, 4096, 3), b"abc".to_vec(), request(0, 6, 0, 512), request(3, 7, 0, 0)].concat();
    let events = feed(&mut connection, &bytes).expect("they are well formed");
    let write = What::Write { offset: 4096, data: Buf::copy_from(b"abc").into() };
    let wanted = [(5, write), (6, What::Read { offset: 0, len: 512 }), (7, What::Flush)];
    let wanted: Vec<Event> =
        wanted.into_iter().map(|(cookie, what)| Event::Command(Command { cookie, what })).collect();
    assert_eq!(events, wanted);
    let data = Answer::Data { offset: 9, data: Buf::copy_from(b"xy").into() };
    let mut chunk = vec![0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 1];
    chunk.extend(6u64.to_be_bytes());
    chunk.extend(10u32.to_be_bytes());
    chunk.extend(9u64.to_be_bytes());
    chunk.extend(b"xy");
    assert_eq!(connection.answer(6, &data).to_vec(), chunk);
    let events = feed(&mut connection, &request(2, 8, 0, 0)).expect("a client may leave");
    assert_eq!((events, connection.wants()), (vec![Event::Left], 0));
}

#[test]
fn a_client_without_structured_replies_gets_simple_ones() {
    let connection = connected(false);
    let data = Answer::Data { offset: 9, data: Buf::copy_from(b"xy").into() };
    let mut simple = vec![0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0];
    simple.extend(6u64.to_be_bytes());
    simple.extend(b"xy");
    assert_eq!(connection.answer(6, &data).to_vec(), simple);
    let failed = connection.answer(6, &Answer::Done(Err(Errno::ENOSPC))).to_vec();
    assert_eq!(failed[4..8], [0, 0, 0, 28]);
}

#[test]
fn another_name_is_refused_and_the_client_may_choose_again() {
    let (mut connection, _) = Connection::new(export(), Tls::Off);
    let bytes = [3u32.to_be_bytes().to_vec(), go(b"other")].concat();
    let answer = sent(&feed(&mut connection, &bytes).expect("it is well formed"));
    assert_eq!(answer[12..16], [0x80, 0, 0, 6]);
    assert!(String::from_utf8_lossy(&answer).ends_with("there is only the export `p/i`"));
    let list = sent(&feed(&mut connection, &option(3, &[])).expect("it is well formed"));
    assert_eq!(&list[20..27], &[&[0, 0, 0, 3][..], b"p/i"].concat()[..]);
}

#[test]
fn what_is_too_large_ends_the_connection_or_the_request() {
    let mut connection = connected(true);
    assert!(feed(&mut connection, &request(1, 1, 0, MAX_PAYLOAD + 1)).is_err());
    let mut connection = connected(true);
    let failed = sent(&feed(&mut connection, &request(0, 1, 0, u32::MAX)).expect("it is answered"));
    assert_eq!(failed[6..8], [0x80, 1]);
    let (mut connection, _) = Connection::new(export(), Tls::Off);
    let head = [3u32.to_be_bytes().to_vec(), option(7, &[0; 9000])].concat();
    assert!(feed(&mut connection, &head).is_err());
}

#[test]
fn where_tls_is_demanded_nothing_is_told_before_it() {
    let kind = |answer: &[u8]| u32::from_be_bytes(answer[12..16].try_into().expect("four bytes"));
    let flags = 3u32.to_be_bytes();
    let (mut connection, _) = Connection::new(export(), Tls::Demanded);
    assert_eq!(feed(&mut connection, &flags), Ok(Vec::new()));
    for bytes in [go(b"p/i"), option(3, &[]), option(8, &[]), option(99, b"x")] {
        let answer = sent(&feed(&mut connection, &bytes).expect("it is well formed"));
        assert_eq!((kind(&answer), &answer[20..]), (1 << 31 | 5, &b"this server demands TLS"[..]));
    }
    let refused = sent(&feed(&mut connection, &option(5, b"x")).expect("it is well formed"));
    assert_eq!(kind(&refused), 1 << 31 | 3, "it has no data");
    let begun = feed(&mut connection, &option(5, &[])).expect("it is well formed");
    assert_eq!((kind(&sent(&begun)), begun.last()), (1, Some(&Event::StartTls)));
    let again = sent(&feed(&mut connection, &option(5, &[])).expect("it is well formed"));
    assert_eq!(kind(&again), 1 << 31 | 3, "it is begun once");
    let chosen = sent(&feed(&mut connection, &go(b"p/i")).expect("it is well formed"));
    assert_eq!(kind(&chosen), 3, "the export is described");

    let (mut connection, _) = Connection::new(export(), Tls::Demanded);
    let by_name = [&flags[..], &option(1, b"p/i")].concat();
    assert!(feed(&mut connection, &by_name).is_err(), "this option has no other answer");
    let (mut connection, _) = Connection::new(export(), Tls::Off);
    let unknown = sent(&feed(&mut connection, &[&flags[..], &option(5, &[])].concat()).expect("well formed"));
    assert_eq!(kind(&unknown), 1 << 31 | 1);
}

proptest! {
    #[test]
    fn whatever_comes_ends_in_an_answer_or_the_end(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let (mut connection, _) = Connection::new(export(), Tls::Off);
        let _ = feed(&mut connection, &bytes);
    }

    #[test]
    fn damaged_options_and_requests_are_survived(
        tls in prop_oneof![Just(Tls::Off), Just(Tls::Demanded), Just(Tls::On)],
        at in 0usize..200,
        value in any::<u8>(),
        structured in any::<bool>(),
        data in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let (mut connection, _) = Connection::new(export(), tls);
        let options = [option(5, &[]), option(6, &data), option(10, &data), go(b"p/i")].concat();
        let mut bytes = [3u32.to_be_bytes().to_vec(), options].concat();
        bytes.extend(request(1, 5, 4096, 3));
        bytes.extend(b"abc");
        let at = at % bytes.len();
        bytes[at] = value;
        let _ = feed(&mut connection, &bytes);
        let mut connection = connected(structured);
        let mut bytes = [request(0, 1, 0, 9), request(4, 2, 0, 9), request(6, 3, 0, 9)].concat();
        let at = at % bytes.len();
        bytes[at] = value;
        let _ = feed(&mut connection, &bytes);
    }
}

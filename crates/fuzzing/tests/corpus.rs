//! Replays the corpus, whole and damaged. `NACRE_BLESS=1 cargo test -p fuzzing` writes it again from our own
//! encoders; inputs that a fuzzer found are added by hand, named after the fault.

use fuzzing::{KINDS, client_stream, damaged, run};
use std::path::{Path, PathBuf};
use stdx::Rng;
use wire::{Encode, Sample, Writer};

/// Damaged variants of each input.
const VARIANTS: u64 = 3000;

fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(kind)
}

fn corpus(kind: &str) -> Vec<(String, Vec<u8>)> {
    let mut out: Vec<_> = std::fs::read_dir(folder(kind))
        .expect("a corpus")
        .map(|entry| {
            let path = entry.expect("readable").path();
            let name = path.file_name().expect("a file").to_string_lossy().into_owned();
            (name, std::fs::read(path).expect("readable"))
        })
        .collect();
    out.sort();
    out
}

#[test]
fn nothing_in_the_corpus_breaks_anything_whole_or_damaged() {
    if std::env::var_os("NACRE_BLESS").is_some() {
        bless();
    }
    for kind in KINDS {
        let inputs = corpus(kind);
        assert!(inputs.len() >= 5, "{kind}: {} inputs", inputs.len());
        for (i, (_, data)) in inputs.iter().enumerate() {
            run(kind, data);
            let mut rng = Rng::from_seed(i as u64);
            for _ in 0..VARIANTS {
                run(kind, &damaged(data, &mut rng));
            }
        }
    }
}

#[test]
fn a_sample_of_every_message_passes_and_so_do_its_damaged_variants() {
    let mut rng = Rng::from_seed(3);
    let mut kinds = 0;
    for _ in 0..20 {
        for input in message_inputs(&mut rng) {
            run("messages", &input);
            run("messages", &damaged(&input, &mut rng));
            kinds += 1;
        }
    }
    assert!(kinds > 20 * 50, "all messages have samples: {kinds}");
}

fn message_inputs(rng: &mut Rng) -> Vec<Vec<u8>> {
    let client = msgs::Body::samples(rng).into_iter().map(|b| b.to_raw(7));
    let peer = peer::Body::samples(rng).into_iter().map(|b| b.to_raw(7));
    let raws: Vec<_> = client.chain(peer).collect();
    raws.into_iter()
        .map(|raw| {
            let total = raw.front.len() + raw.data.len();
            // The share of the data segment is given in 256ths, rounded.
            let share = (raw.data.len() * 256).div_ceil(total.max(1)).min(255);
            let mut input = raw.kind.to_le_bytes().to_vec();
            input.extend(raw.version.to_le_bytes());
            input.push(share as u8);
            input.extend(raw.front);
            input.extend(raw.data.to_vec());
            input
        })
        .collect()
}

fn bless() {
    let mut rng = Rng::from_seed(1);
    let messages: Vec<_> = message_inputs(&mut rng).into_iter().step_by(3).collect();
    write("messages", messages);
    let raws: Vec<_> = msgs::Body::samples(&mut rng).into_iter().map(|b| b.to_raw(9)).collect();
    let streams = raws.chunks(9).map(|chunk| client_stream(chunk.to_vec())).collect();
    write("frames", streams);
    let full = |which: u8, bytes: Vec<u8>| [vec![which], bytes].concat();
    let maps = vec![
        full(0, maps::OsdMap::default().encode_with_crc().0),
        full(1, encoded(&maps::OsdMapIncremental::default())),
        full(2, encoded(&maps::MonMap::default())),
        full(3, encoded(&maps::MdsMap::default())),
        full(4, encoded(&maps::FsMap::default())),
        full(5, encoded(&crush::CrushMap::new_default_types())),
        full(6, encoded(&maps::Pool::default())),
    ];
    write("maps", maps);
    let texts = [
        "\0allow *",
        "\0profile rbd, allow command \"osd blocklist\" with x=y",
        "\x01allow rwx pool=p namespace=n object_prefix rbd_data, allow class-read",
        "\x01allow rw tag cephfs data=cephfs",
        "\x02allow rw path=/a/b fsname=cephfs, allow r root_squash",
        "\x03[client.admin]\n\tkey = AQDGEAJrMsL4NRAAuCGvk1oD9jkwlJS8u5lPDQ==\n\tcaps mon = \"allow *\"\n",
        "\x04[global]\nfsid = x\nmon host = [v2:127.0.0.1:3300,v1:127.0.0.1:6789]\n# c\n[osd.0]\n a b = c\n",
    ];
    write("texts", texts.iter().map(|t| t.as_bytes().to_vec()).collect());
    let mut stored = Vec::new();
    for _ in 0..3 {
        stored.push(full(0, encoded(&store::Transaction::sample(&mut rng))));
        stored.push(full(1, encoded(&store::ObjectKey::sample(&mut rng))));
    }
    stored.push(full(2, encoded(&fsfmt::InodeData::default())));
    write("stored", stored);
}

fn encoded<T: Encode>(value: &T) -> Vec<u8> {
    Writer::encode(value)
}

fn write(kind: &str, inputs: Vec<Vec<u8>>) {
    let folder = folder(kind);
    std::fs::create_dir_all(&folder).expect("writable");
    for (i, input) in inputs.iter().enumerate() {
        std::fs::write(folder.join(format!("own-{i:02}")), input).expect("writable");
    }
}

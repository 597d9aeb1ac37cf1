//! Bytes that real clients and their monitors exchanged, with the keys of those (throw-away) clusters.

use auth::{ConMode, Credentials, Initiator, Key, KeyType, Tickets};
use std::time::Duration;
use stdx::{Now, Rng};
use wire::{EntityName, EntityType};

/// The key and the payload of AUTH_DONE of Ceph 16.2.15.
const KEY: &str = "AQAr8AFrPdktMBAArXJExl8pKfBsXeGHtvv8WA==";
const DONE: &str = "\
    0001000000000101000000200000000130000000f345b164e0eb515058e9231ad3b9b5fea2d9754dc1f33f8a739f58547193\
    deea85d0534ec9655c023d1c16d984f73023006d0000000102000000000000006000000065217d93b83abd9b10fa4fdff080\
    11855c846f1592865b198d1baaf131f069016836aece0e32051da1c2ac1af73faee934a4c11b6f2770c32e14dab6fa0c9c92\
    be6412fb4bb0210ea8ecd1a5bf7085824dc5a4f9696d44c032f448783013896a5400000050000000f3328982dd2ea22d7f49\
    0b3b2ffbe75558dafbc31397cd1c304536e6cf0dabe45f9c0cfb720b533c1fb660cd4289c9d1029ecdbc708635dae99d7afd\
    191ab0262774a594c1bb49ef7132f03f827c978726020000010300000001000000013000000082c9390b802381d17ea1d14a\
    b90dc6c4f49c61c179f9f2a18aeaec02df935bb579d96c7223aad3587cab5d0c632c09a9006d000000010200000000000000\
    60000000bbe9604ec655f4abcd784e146116434c4a124b2eeb2fae07fe00632dcf70ca0900bde15f1de37e342f797b95d24f\
    d58c1874e8e9f18ab3719efe3c4a3030ccb6f1562ef2bd95b0912f5a87a02f9a132dd92003abb44ea279df17faf7fe87a70b\
    04000000013000000082c9390b802381d17ea1d14ab90dc6c410291f93432775a1b9d151d8d8813235feb5601d3af5cab08a\
    8e2897f223ad46007d00000001020000000000000070000000780000eff66dc70c1ac4c71a63af733000f3463f36f7a1cdab\
    c6539560dac4f96d67777ce0577a153626aa3341248a6a1b8f5aee62941db220b734004042412c5e2aaab3d04c4e9f12599a\
    b5cbc6041397a7d2d68132f8e7b5e4a3a9705a288e886155ae6398556f1d6a9c5e29cef91510000000013000000082c9390b\
    802381d17ea1d14ab90dc6c40c976246aad6e6187f652bb8abffa616da978250e92b7aec43be1649556664ea007d00000001\
    020000000000000070000000590b94e5ea18aec1bd1e3c27ed1dcd8ba96c8d2e9d9a9d8bcb1903789eb46c3458c7aa537d93\
    670969c079947c2100b9b71124a96c596a874b75c03f9d9926b23a61a078c00d9a6769e5be1bb44f87e4047930f876fa969d\
    34387c140fcbb3981bd5ae1399a5a7cfa8e9c234c73d1f9c";

/// Those of Ceph 20.2.4, in crc mode.
const KEY_2: &str = "AgC/ZQxrrdByISAAuUtY5jSCHyOMAbXV6zHFKFs3EQGL6l0ZeJEp9qMbuc4=";
const DONE_2: &str = "\
    000100000000010100000020000000016600000088c88412738651ec5c89668b1112382bac4b29284cc21aac132cd8c082c1\
    625e4c41e20c3a56d79fc19322f0f83e5a61be1e3a5b4a010673a820199d7def31841b2cdea4e948e54280d9f1d8ddbe42db\
    ecf6f9e0c2ab269ea42fc0b44bd725603d6bbbab559900a300000001020000000000000096000000104b9e9d69209ff25289\
    fb2ecf1178ea8e297329af2b03bb7c132ce77c65502c930cce20787f63af1f4e943d5c677928f03dd3c9289e424e1f6f5e83\
    6cfab91032f50b7d58e5f43e6c38fe6d3980f1bea353dc207920df4eaf7b1a7551c35d2c57cc9cc9afd76642b13db331e4f7\
    ea159614cb7ee65834841abaf95b4e00d9d89516c5e0fc4339da286acebb2f6fa78c451af0a2bc5539000000350000005000\
    ef40825b870748f5f50650a1f8e0e74e8453ef3deb935ad141a258dcf21113878527fd5c4a35b18ff793ab75655ba1952374\
    2b6b0300000103000000010000000166000000b834825644f9e9289d4697bfe2f13c76d828f679354f02251ec0567dac5f12\
    72281233b4a14488f4a200d5f63b5df9cd216c5f86f7de5d1c4678bacb9d5463be1cf2f56406e0f735ff88ed7f1ba924bbaf\
    7dab0edbdfbbec5ff650a38d9c24b117f942cdd40000ae000000010200000000000000a1000000c7f9f5cdd946e872871901\
    9e9985b805a120a5df602c9fdbe95091cfb4b37f1eaabe79647f23025fdc880eb98eccfa2333850b72c0a479870ba4762ed4\
    338e94259ec7aab0e6f4da00c8627ab55dcaf3445a724e9912c8912a10faef3f7b74e3bf7bab7b60c03de197d26130017049\
    48832bfc0115f43592f86c8fe5871cd44aee74ec01c5e96259754d0dc2f41c4eb85708c4e16056c02bbd91d6f115518efcb9\
    0400000001660000006ce4c5819790ffdf077a75514c3f0ccbd922627dc83b675086e6c807fbaa020a2cb6e0444f7335c7f8\
    b4f801c2a3f3c2f81056939c0ff418d22bb6d1a646e677474893bba91b15be86cec4f9a2b52ae7e185eca6d34fecd45ff854\
    f27dc0601136372dba31cb00ae000000010200000000000000a10000000a2360ffe8d1a35bb87f7100b4423c4d02c73f0105\
    ba9d0c53594e57103c35a4713fa5e59cb9aa5c2abe7a0f68d083ea5699fc000d82e5fda8d6155fe8b826233a8765f249efc8\
    bfdce222e22307bf78d9ee51f08cc33728d01b5a4fd8bd8657308389df614822044f6df1e4009e86dc896cf31a61373ac0be\
    6ea68487cda6a0856f6e5ef34cc7cb13c212a0729df8eb5c763e2ba72df07cfcdc57dfbae5c4600d1000000001660000004e\
    875b41695b479073fb58bee00c71c228c6d57ca7aec849944b8f5572543ea5420f72a5986f56ac71039b36b6b83e1acdc938\
    8ca7e5621c99b8fe343eb054acd3fd2e9851f86fb475b25fa17b0759830154cea8a77c452238eaf42793f8ef464b395430e1\
    ff00ae000000010200000000000000a1000000b43f4d4714e0047e80e1dee644a1aa8568f7278cc8de46ddfdb09649fe6cd9\
    e90e14fb1bd2bea81d66a138ac00bc7871f05a664b671ae21da2e1d90ce206a1f21d1dce416cb2a28e3377f1db9f6d2cc69b\
    292e2d18474997e129f10f111b6c0047b0ffe18b55135eb54aec3eb739745583c48c1b9d635574a741095afa964a7c4fab86\
    558d49d60d8e8bce241802c7601b55163a4baadad33ecfc3fb8e47016704";

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn reads_what_real_monitors_sent() {
    let name = EntityName::parse("client.admin").expect("a name");
    let now = Now::default();
    for (key, id, mode, done, kind) in [
        (KEY, 0x101b, ConMode::Secure, DONE, KeyType::Aes),
        (KEY_2, 0x104f, ConMode::Crc, DONE_2, KeyType::Aes256k),
    ] {
        let key = Key::from_base64(key).expect("a key");
        let credentials = Credentials { name: name.clone(), key: Some(key) };
        let mut client = Initiator::mon(credentials, Tickets::default(), vec![]);
        let (_, payload) = client.start(now, &mut Rng::from_seed(1)).expect("starts");
        assert_eq!(payload, hex("0a080000000500000061646d696e0000000000000000"));
        let done = client.done(id, mode, &hex(done), now).expect("opens");
        assert_eq!(done.session_key.kind(), kind);
        let tickets = done.tickets.expect("tickets");
        assert_eq!(done.connection_secret.0.len(), if mode == ConMode::Secure { 64 } else { 0 });
        for service in [EntityType::AUTH, EntityType::MON, EntityType::OSD, EntityType::MGR] {
            let ticket = tickets.get(service).expect("a ticket");
            let hours = if service == EntityType::AUTH { 72 } else { 1 };
            assert_eq!(ticket.expires, now.wall + HOUR * hours, "{service:?}");
        }
    }
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).expect("hex")).collect()
}

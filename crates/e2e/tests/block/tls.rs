//! Images that are served with TLS: QEMU's client with certificates, and what is refused.

use super::rig::{Images, MIB, Mapped, fill, has_tools};
use e2e::{Ran, has, run};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs `openssl` in a directory.
fn openssl(dir: &Path, args: &[&str]) {
    run(Command::new("openssl").args(args).current_dir(dir)).ok();
}

/// An authority for certificates, in a directory of its own.
struct Authority {
    dir: PathBuf,
}

impl Authority {
    fn new(dir: PathBuf) -> Self {
        std::fs::create_dir(&dir).expect("makes");
        let made = ["-keyout", "ca-key.pem", "-out", "ca-cert.pem"];
        let args = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=authority"];
        openssl(&dir, &[&args[..], &made].concat());
        for (file, text) in [("index.txt", ""), ("crlnumber", "01\n")] {
            std::fs::write(dir.join(file), text).expect("writes");
        }
        let conf = "[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\ncrlnumber=crlnumber\ndefault_md=sha256\n";
        std::fs::write(dir.join("ca.cnf"), conf).expect("writes");
        Self { dir }
    }

    /// Makes `ROLE-cert.pem` and `ROLE-key.pem`.
    fn certify(&self, role: &str) {
        let (key, request, cert) =
            (format!("{role}-key.pem"), format!("{role}.csr"), format!("{role}-cert.pem"));
        let subject = format!("/CN={role}");
        openssl(
            &self.dir,
            &["req", "-newkey", "rsa:2048", "-nodes", "-subj", &subject, "-keyout", &key, "-out", &request],
        );
        let extensions = "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n";
        std::fs::write(self.dir.join("extensions"), extensions).expect("writes");
        let sign =
            ["x509", "-req", "-in", &request, "-CA", "ca-cert.pem", "-CAkey", "ca-key.pem", "-days", "2"];
        let rest = ["-CAcreateserial", "-extfile", "extensions", "-out", &cert];
        openssl(&self.dir, &[&sign[..], &rest].concat());
    }

    /// Revokes the certificate of a role, and writes `ca-crl.pem`.
    fn revoke(&self, role: &str) {
        let common = ["ca", "-config", "ca.cnf", "-keyfile", "ca-key.pem", "-cert", "ca-cert.pem"];
        openssl(&self.dir, &[&common[..], &["-revoke", &format!("{role}-cert.pem")]].concat());
        openssl(&self.dir, &[&common[..], &["-gencrl", "-crldays", "2", "-out", "ca-crl.pem"]].concat());
    }

    /// A directory in which a client finds its certificate and this authority's.
    fn client(&self, role: Option<&str>) -> PathBuf {
        let dir = self.dir.join(format!("of-{}", role.unwrap_or("nobody")));
        std::fs::create_dir(&dir).expect("makes");
        let copy = |from: String, to: &str| std::fs::copy(self.dir.join(from), dir.join(to)).expect("copies");
        copy("ca-cert.pem".to_owned(), "ca-cert.pem");
        if let Some(role) = role {
            copy(format!("{role}-cert.pem"), "client-cert.pem");
            copy(format!("{role}-key.pem"), "client-key.pem");
        }
        dir
    }
}

/// QEMU's client of NBD with the certificates of a directory.
fn qemu_io(mapped: &Mapped, certificates: &Path, commands: &[&str]) -> Ran {
    let port = mapped.url.rsplit_once(':').expect("a port").1;
    let credentials = format!("tls-creds-x509,id=t,endpoint=client,dir={}", certificates.display());
    let image = format!("driver=nbd,host=127.0.0.1,port={port},tls-creds=t");
    let mut command = Command::new("qemu-io");
    command.args(["--object", &credentials, "--image-opts", &image]);
    for c in commands {
        command.args(["-c", c]);
    }
    run(&mut command)
}

/// Begins TLS 1.2, in which the handshake ends with the server's word on the client's certificate. (QEMU
/// refuses a certificate of its own that is not as it should be.)
const BEGIN_TLS: &str = r#"
import os, socket, ssl, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.recv(18, socket.MSG_WAITALL)
s.sendall(bytes([0, 0, 0, 3]) + b"IHAVEOPT" + bytes([0, 0, 0, 5, 0, 0, 0, 0]))
assert s.recv(20, socket.MSG_WAITALL)[12:16] == bytes([0, 0, 0, 1])
context = ssl.create_default_context(cafile="ca-cert.pem")
context.maximum_version = ssl.TLSVersion.TLSv1_2
if os.path.exists("client-cert.pem"):
    context.load_cert_chain("client-cert.pem", "client-key.pem")
try:
    context.wrap_socket(s, server_hostname="127.0.0.1")
    print("accepted")
except (ssl.SSLError, ConnectionError):
    print("refused")
"#;

/// True if the server accepts a client that has the certificates of a directory.
fn is_accepted(mapped: &Mapped, certificates: &Path) -> bool {
    let port = mapped.url.rsplit_once(':').expect("a port").1;
    let mut command = Command::new("python3");
    let said = run(command.args(["-c", BEGIN_TLS, port]).current_dir(certificates)).ok();
    match said.trim() {
        "accepted" => true,
        "refused" => false,
        other => panic!("{other}"),
    }
}

#[test]
fn with_tls_clients_need_a_certificate_of_the_authority() {
    if !has_tools() || !has("openssl") || !has("python3") {
        return;
    }
    let images = Images::start();
    let authority = Authority::new(images.path("authority"));
    let dir = authority.dir.to_str().expect("text").to_owned();
    images.block(&["create", "rbd/i", "--size", "16M"]);
    let listen = ["--listen", "127.0.0.1:0", "--tls-certificates", &dir];
    images.refuses(&[&["map", "rbd/i"], &listen[..]].concat(), "server-cert.pem");
    ["server", "good", "revoked"].iter().for_each(|role| authority.certify(role));
    authority.revoke("revoked");
    let stranger = Authority::new(images.path("stranger"));
    stranger.certify("good");
    std::fs::copy(authority.dir.join("ca-cert.pem"), stranger.dir.join("ca-cert.pem")).expect("copies");

    let mapped = images.map_with("rbd/i", &listen);
    assert!(mapped.url.starts_with("nbds://127.0.0.1:"), "{}", mapped.url);
    let good = authority.client(Some("good"));
    let mut wanted = vec![0; 16 * MIB];
    fill(&mut wanted, 4096, 5 * MIB, 7);
    fill(&mut wanted, 9 * MIB + 512, 512, 8);
    let writes = ["write -P 7 4k 5M", "write -P 8 9437696 512", "flush", "read -P 7 4k 5M", "read -P 0 0 4k"];
    qemu_io(&mapped, &good, &writes).ok();
    images.check("i", &wanted);

    assert!(is_accepted(&mapped, &good));
    let (other, revoked, nobody) =
        (stranger.client(Some("good")), authority.client(Some("revoked")), authority.client(None));
    for certificates in [&other, &revoked, &nobody] {
        assert!(!is_accepted(&mapped, certificates), "{}", certificates.display());
    }
    let plain = super::rig::qemu_io(&mapped.url.replace("nbds:", "nbd:"), &["write -P 9 0 4k"]);
    assert!(plain.stderr.contains("TLS"), "{}{}", plain.stdout, plain.stderr);
    images.check("i", &wanted);
    mapped.end();

    let open = images.map_with("rbd/i", &[&listen[..], &["--tls-any-client"]].concat());
    fill(&mut wanted, 0, 4096, 9);
    assert!(is_accepted(&open, &other));
    qemu_io(&open, &nobody, &["write -P 9 0 4k"]).ok();
    open.end();
    images.check("i", &wanted);
}

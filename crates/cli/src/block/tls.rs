//! TLS of served images ([ADR 0031](../../../../docs/adr/0031-tls-for-nbd.md)): certificates in a directory,
//! under the names that QEMU, libvirt and nbdkit use, and the two halves of an encrypted connection.

use super::lock;
use anyhow::{Context, Result};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

const SERVER_CERTIFICATE: &str = "server-cert.pem";
const SERVER_KEY: &str = "server-key.pem";
const AUTHORITY: &str = "ca-cert.pem";
/// Certificates of clients that count no more; the file may be missing.
const REVOKED: &str = "ca-crl.pem";
/// Bytes that are encrypted at once.
const MAX_UNSENT: usize = 256 << 10;
/// Bytes that are taken from the socket at once.
const INPUT: usize = 64 << 10;

/// Who may connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Clients {
    /// Those with a certificate of the authority.
    Certified,
    /// All.
    Any,
}

/// Reads the certificates of a server.
pub(crate) fn config(dir: &Path, clients: Clients) -> Result<Arc<ServerConfig>> {
    let provider = Arc::new(default_provider());
    let chain = certificates(&dir.join(SERVER_CERTIFICATE))?;
    let path = dir.join(SERVER_KEY);
    let key =
        PrivateKeyDer::from_pem_file(&path).with_context(|| format!("no key is in {}", path.display()))?;
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let builder = match clients {
        Clients::Certified => builder.with_client_cert_verifier(verifier(dir)?),
        Clients::Any => builder.with_no_client_auth(),
    };
    let config = builder.with_single_cert(chain, key).with_context(|| {
        format!("{SERVER_CERTIFICATE} and {SERVER_KEY} of {} can't be used", dir.display())
    })?;
    Ok(Arc::new(config))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = || CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>();
    let found = read().with_context(|| format!("cannot read certificates from {}", path.display()))?;
    anyhow::ensure!(!found.is_empty(), "no certificate is in {}", path.display());
    Ok(found)
}

/// Accepts clients with a certificate of the authority that is not revoked.
fn verifier(dir: &Path) -> Result<Arc<dyn ClientCertVerifier>> {
    let path = dir.join(AUTHORITY);
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&path)? {
        roots.add(certificate).with_context(|| format!("{} can't be used", path.display()))?;
    }
    let mut builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()));
    let path = dir.join(REVOKED);
    if path.exists() {
        let read = || CertificateRevocationListDer::pem_file_iter(&path)?.collect::<Result<Vec<_>, _>>();
        let lists = read().with_context(|| format!("cannot read {}", path.display()))?;
        anyhow::ensure!(!lists.is_empty(), "no list of revoked certificates is in {}", path.display());
        builder = builder.with_crls(lists).only_check_end_entity_revocation();
    }
    builder.build().with_context(|| format!("the certificates of {} can't be used", dir.display()))
}

/// Shakes hands with a client that has asked for TLS.
pub(super) fn accept<S: Read + Write>(config: &Arc<ServerConfig>, socket: &mut S) -> Result<Session> {
    let mut session = ServerConnection::new(config.clone())?;
    session.set_buffer_limit(Some(MAX_UNSENT));
    while session.is_handshaking() {
        session.complete_io(socket).context("no TLS with a client")?;
    }
    Ok(Session(Arc::new(Mutex::new(session))))
}

/// The state of an encrypted connection. Its two halves may be in different threads, and wait for their
/// sockets without it.
#[derive(Clone)]
pub(super) struct Session(Arc<Mutex<ServerConnection>>);

/// The half that decrypts.
pub(super) struct Decrypting<S> {
    session: Session,
    socket: S,
    /// What has come and was not taken by the session.
    input: Vec<u8>,
    taken: usize,
}

impl<S: Read> Decrypting<S> {
    pub(super) fn new(session: Session, socket: S) -> Self {
        Self { session, socket, input: Vec::new(), taken: 0 }
    }

    /// Waits for more from the client. Returns false if there is no more.
    fn fill(&mut self) -> std::io::Result<bool> {
        self.taken = 0;
        self.input.resize(INPUT, 0);
        let read = self.socket.read(&mut self.input);
        self.input.truncate(*read.as_ref().unwrap_or(&0));
        read.map(|n| n > 0)
    }
}

impl<S: Read> Read for Decrypting<S> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let mut session = lock(&self.session.0);
            match session.reader().read(out) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return done,
            }
            if self.taken < self.input.len() {
                self.taken += session.read_tls(&mut &self.input[self.taken..])?;
                session.process_new_packets().map_err(std::io::Error::other)?;
                continue;
            }
            drop(session);
            if !self.fill()? {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// The half that encrypts. It says good-bye when it is dropped.
pub(super) struct Encrypting<S: Write> {
    session: Session,
    socket: S,
    output: Vec<u8>,
}

impl<S: Write> Encrypting<S> {
    pub(super) fn new(session: Session, socket: S) -> Self {
        Self { session, socket, output: Vec::new() }
    }

    /// Sends what the session has to send after this step.
    fn send<T>(
        &mut self,
        step: impl FnOnce(&mut ServerConnection) -> std::io::Result<T>,
    ) -> std::io::Result<T> {
        self.output.clear();
        let mut session = lock(&self.session.0);
        let done = step(&mut session)?;
        while session.wants_write() {
            session.write_tls(&mut self.output)?;
        }
        drop(session);
        self.socket.write_all(&self.output)?;
        Ok(done)
    }
}

impl<S: Write> Write for Encrypting<S> {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        self.send(|session| session.writer().write(data))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> std::io::Result<usize> {
        self.send(|session| session.writer().write_vectored(parts))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.socket.flush()
    }
}

impl<S: Write> Drop for Encrypting<S> {
    fn drop(&mut self) {
        // The client may have gone.
        let _ = self.send(|session| {
            session.send_close_notify();
            Ok(())
        });
    }
}

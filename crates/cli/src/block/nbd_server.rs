//! NBD on sockets: each connection has a thread that reads requests, and one that writes answers.

use super::{Driver, lock, tls};
use anyhow::{Context, Result, bail};
use block::nbd::{Answer, Command, Connection, Event, Export, Tls, What};
use block::{Reply, Request};
use rustls::ServerConfig;
use std::io::{IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use stdx::{BufMut, Bufs};
use wire::Errno;

/// Requests of one connection that may be unanswered.
const MAX_REQUESTS: usize = 256;
/// Bytes of them.
const MAX_BYTES: usize = 64 << 20;
/// Connections.
const MAX_CONNECTIONS: usize = 64;
/// Answers that are written at once.
const BATCH: usize = 64;

/// How long a client may be silent that has not proved who it is.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(30);

/// Pieces of memory that the kernel takes at once.
const MAX_SLICES: usize = 1024;

/// An answer, and the bytes of its request; none for what is no answer.
type ToWrite = (Bufs, Option<usize>);

/// Where clients connect to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Endpoint {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn another(&self) -> std::io::Result<Self> {
        Ok(match self {
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
        })
    }

    fn end(&self, how: Shutdown) {
        // It may have ended already.
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(how),
            Self::Tcp(stream) => stream.shutdown(how),
        };
    }

    /// How long a read or write may wait.
    fn set_patience(&self, patience: Option<Duration>) -> std::io::Result<()> {
        match self {
            Self::Unix(stream) => {
                stream.set_read_timeout(patience).and_then(|()| stream.set_write_timeout(patience))
            }
            Self::Tcp(stream) => {
                stream.set_read_timeout(patience).and_then(|()| stream.set_write_timeout(patience))
            }
        }
    }
}

impl Read for Stream {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(out),
            Self::Tcp(stream) => stream.read(out),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(data),
            Self::Tcp(stream) => stream.write(data),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> std::io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write_vectored(parts),
            Self::Tcp(stream) => stream.write_vectored(parts),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Where requests come from.
type Input = Box<dyn Read + Send>;
/// Where answers go.
type Output = Box<dyn Write + Send>;

/// What is served, and to whom.
struct State {
    driver: Driver,
    export: Mutex<Export>,
    /// Clients have to use TLS with this.
    tls: Option<Arc<ServerConfig>>,
    connections: Mutex<Vec<(Stream, JoinHandle<()>)>>,
}

/// A server of one image.
pub(crate) struct Server {
    state: Arc<State>,
    endpoint: Endpoint,
}

impl Server {
    /// Begins to serve, with TLS if there is a configuration for it. Where a port was not chosen, the
    /// returned server's endpoint has the one that was found.
    pub(crate) fn start(
        endpoint: &Endpoint,
        driver: Driver,
        export: Export,
        tls: Option<Arc<ServerConfig>>,
    ) -> Result<Self> {
        let (listener, endpoint) = bind(endpoint)?;
        let state = State { driver, export: Mutex::new(export), tls, connections: Mutex::default() };
        let server = Self { state: Arc::new(state), endpoint };
        let state = server.state.clone();
        // It ends with the process: when it is told to end there is no more to be accepted.
        std::thread::spawn(move || accept(&listener, &state));
        Ok(server)
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Clients that connect from now on see this size.
    pub(crate) fn resized(&self, size: u64) {
        lock(&self.state.export).size = size;
    }

    /// Reads no more requests, answers those that were read, and ends all connections.
    pub(crate) fn stop(&self) {
        if let Endpoint::Unix(path) = &self.endpoint {
            // Somebody may have removed it.
            let _ = std::fs::remove_file(path);
        }
        let connections = std::mem::take(&mut *lock(&self.state.connections));
        connections.iter().for_each(|(stream, _)| stream.end(Shutdown::Read));
        for (_, thread) in connections {
            // One that panicked has ended too.
            let _ = thread.join();
        }
    }
}

fn bind(endpoint: &Endpoint) -> Result<(Listener, Endpoint)> {
    match endpoint {
        Endpoint::Unix(path) => {
            if let Ok(found) = std::fs::symlink_metadata(path) {
                if !found.file_type().is_socket() {
                    bail!("{} exists and is no socket: choose another with --socket", path.display());
                }
                if UnixStream::connect(path).is_ok() {
                    bail!("another program serves {}: choose another with --socket", path.display());
                }
                std::fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
            }
            let listener = UnixListener::bind(path)
                .with_context(|| format!("cannot make the socket {}", path.display()))?;
            Ok((Listener::Unix(listener), endpoint.clone()))
        }
        Endpoint::Tcp(addr) => {
            let listener = TcpListener::bind(addr).with_context(|| format!("cannot listen on {addr}"))?;
            let addr = listener.local_addr().context("the port is unknown")?;
            Ok((Listener::Tcp(listener), Endpoint::Tcp(addr)))
        }
    }
}

fn accept(listener: &Listener, state: &Arc<State>) {
    loop {
        let stream = match listener {
            Listener::Unix(listener) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
            Listener::Tcp(listener) => listener.accept().map(|(stream, _)| {
                // Answers are written as a whole.
                let _ = stream.set_nodelay(true);
                Stream::Tcp(stream)
            }),
        };
        let Ok(stream) = stream else { continue };
        let mut connections = lock(&state.connections);
        connections.retain(|(_, thread)| !thread.is_finished());
        if connections.len() >= MAX_CONNECTIONS {
            complain!("nacre: a client was refused: there are {MAX_CONNECTIONS} connections");
            continue;
        }
        let Ok(another) = stream.another() else { continue };
        let for_thread = state.clone();
        let thread = std::thread::spawn(move || serve(&for_thread, stream));
        connections.push((another, thread));
    }
}

/// Requests of a connection that have not been answered.
#[derive(Default)]
struct Flying {
    /// Number and bytes.
    now: Mutex<(usize, usize)>,
    fewer: Condvar,
}

impl Flying {
    fn wait(&self, while_so: impl Fn(&(usize, usize)) -> bool) -> MutexGuard<'_, (usize, usize)> {
        let waited = self.fewer.wait_while(lock(&self.now), |now| while_so(now));
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room. One request always finds it.
    fn begin(&self, bytes: usize) {
        let full = |&(count, used): &(usize, usize)| {
            count > 0 && (count >= MAX_REQUESTS || used + bytes > MAX_BYTES)
        };
        let mut now = self.wait(full);
        now.0 += 1;
        now.1 += bytes;
    }

    fn end(&self, bytes: usize) {
        let mut now = lock(&self.now);
        now.0 -= 1;
        now.1 -= bytes;
        self.fewer.notify_all();
    }
}

fn serve(state: &Arc<State>, mut stream: Stream) {
    if let Err(why) = talk(state, &mut stream) {
        complain!("nacre: a connection is ended: {why:#}");
    }
    stream.end(Shutdown::Both);
}

/// Answers a client until it leaves.
fn talk(state: &Arc<State>, stream: &mut Stream) -> Result<()> {
    let export = lock(&state.export).clone();
    let (mut connection, greeting) =
        Connection::new(export, if state.tls.is_some() { Tls::Demanded } else { Tls::Off });
    let (answers, to_write) = mpsc::channel();
    let (input, out): (Input, Output) = match &state.tls {
        None => {
            // The writer lives as long as there are answers.
            let _ = answers.send((greeting, None));
            (Box::new(stream.another()?), Box::new(stream.another()?))
        }
        Some(config) => match secure(config, stream, &mut connection, greeting)? {
            None => return Ok(()),
            Some(session) => (
                Box::new(tls::Decrypting::new(session.clone(), stream.another()?)),
                Box::new(tls::Encrypting::new(session, stream.another()?)),
            ),
        },
    };
    let flying = Arc::new(Flying::default());
    let of_writer = flying.clone();
    let end = stream.another()?;
    let writer = std::thread::spawn(move || write_all(out, &end, &to_write, &of_writer));
    let outcome = read_requests(state, input, &mut connection, &answers, &flying);
    drop(flying.wait(|now| now.0 > 0));
    drop(answers);
    // It ends when all answers are written, or nobody reads them.
    let _ = writer.join();
    outcome
}

/// Begins TLS: until then each request is answered before the next is read. Returns none if the client
/// leaves.
fn secure(
    config: &Arc<ServerConfig>,
    stream: &mut Stream,
    connection: &mut Connection,
    greeting: Bufs,
) -> Result<Option<tls::Session>> {
    stream.set_patience(Some(HANDSHAKE_PATIENCE))?;
    write_batch(stream, &[(greeting, None)])?;
    while connection.wants() > 0 {
        let mut bytes = BufMut::uncleared(connection.wants());
        stream.read_exact(bytes.as_mut_slice())?;
        for event in connection.take(bytes.freeze())? {
            match event {
                Event::Send(bytes) => write_batch(stream, &[(bytes, None)])?,
                Event::StartTls => {
                    let session = tls::accept(config, stream)?;
                    stream.set_patience(None)?;
                    return Ok(Some(session));
                }
                Event::Command(_) | Event::Left => return Ok(None),
            }
        }
    }
    Ok(None)
}

/// Reads requests until the client leaves.
fn read_requests(
    state: &Arc<State>,
    input: Input,
    connection: &mut Connection,
    answers: &mpsc::Sender<ToWrite>,
    flying: &Arc<Flying>,
) -> Result<()> {
    let mut input = std::io::BufReader::with_capacity(64 << 10, input);
    while connection.wants() > 0 {
        let mut bytes = BufMut::uncleared(connection.wants());
        match input.read_exact(bytes.as_mut_slice()) {
            Ok(()) => {}
            // It has left without a word, or the server ends.
            Err(_) => return Ok(()),
        }
        for event in connection.take(bytes.freeze())? {
            match event {
                Event::Send(bytes) => {
                    // The writer lives as long as there are answers.
                    let _ = answers.send((bytes, None));
                }
                Event::Command(command) => submit(state, connection, command, answers, flying),
                Event::StartTls | Event::Left => return Ok(()),
            }
        }
    }
    Ok(())
}

fn submit(
    state: &Arc<State>,
    connection: &Connection,
    command: Command,
    answers: &mpsc::Sender<ToWrite>,
    flying: &Arc<Flying>,
) {
    let Command { cookie, what } = command;
    let (request, read_from, bytes) = match what {
        What::Read { offset, len } => (Request::Read { offset, len: len.into() }, Some(offset), len as usize),
        What::Write { offset, data } => {
            let bytes = data.len();
            (Request::Write { offset, data }, None, bytes)
        }
        What::Zero { offset, len } => (Request::Zero { offset, len: len.into() }, None, 0),
        What::Flush => (Request::Flush, None, 0),
    };
    flying.begin(bytes);
    let (answers, form) = (answers.clone(), connection.form());
    state.driver.submit(request, move |reply| {
        let answer = match (reply, read_from) {
            (Ok(Reply::Data(data)), Some(offset)) => Answer::Data { offset, data },
            (Ok(_), Some(_)) => Answer::ReadFailed(Errno::EIO),
            (Ok(_), None) => Answer::Done(Ok(())),
            (Err(error), read) => {
                complain!("nacre: a request failed: {error}");
                match read {
                    Some(_) => Answer::ReadFailed(error.errno),
                    None => Answer::Done(Err(error.errno)),
                }
            }
        };
        // The writer lives as long as there are answers.
        let _ = answers.send((form.answer(cookie, &answer), Some(bytes)));
    });
}

/// Writes answers. A client that reads none has a bounded number of requests: only what is written makes room
/// for others. Answers to one that has gone are dropped.
fn write_all(mut out: Output, stream: &Stream, answers: &mpsc::Receiver<ToWrite>, flying: &Flying) {
    let mut gone = false;
    while let Ok(first) = answers.recv() {
        let mut batch = vec![first];
        while batch.len() < BATCH
            && let Ok(more) = answers.try_recv()
        {
            batch.push(more);
        }
        if !gone && write_batch(&mut out, &batch).is_err() {
            gone = true;
            stream.end(Shutdown::Both);
        }
        batch.iter().filter_map(|(_, bytes)| *bytes).for_each(|bytes| flying.end(bytes));
    }
}

fn write_batch(out: &mut impl Write, batch: &[ToWrite]) -> std::io::Result<()> {
    let parts = batch.iter().flat_map(|(answer, _)| answer.parts());
    let mut slices: Vec<IoSlice<'_>> = parts.map(|part| IoSlice::new(part)).collect();
    let mut left = &mut slices[..];
    while !left.is_empty() {
        match out.write_vectored(&left[..left.len().min(MAX_SLICES)]) {
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(n) => IoSlice::advance_slices(&mut left, n),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

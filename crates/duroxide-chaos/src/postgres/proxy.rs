//! A TCP proxy between one worker and the server. In: connections. Out: the same bytes, until a cut: after so many more
//! bytes of the worker, in the middle of whatever they are, all its connections end.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicI64, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// No cut is wanted.
const NEVER: i64 = i64::MAX;

pub(super) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    target: AtomicU16,
    /// Bytes of the worker that still pass.
    left: AtomicI64,
    open: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// Listens on a port of its own; runs until the process ends.
    pub(super) fn start(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port for the proxy");
        let port = listener.local_addr().expect("its address").port();
        let shared = Arc::new(Shared {
            target: AtomicU16::new(target),
            left: AtomicI64::new(NEVER),
            open: Mutex::default(),
        });
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                serving.serve(client);
            }
        });
        Self { port, shared }
    }

    pub(super) fn url(&self) -> String {
        format!(
            "host=127.0.0.1 port={} user=duroxide dbname=postgres",
            self.port
        )
    }

    /// The server is elsewhere from now on.
    pub(super) fn lead_to(&self, target: u16) {
        self.shared.target.store(target, Ordering::Relaxed);
    }

    /// Ends all connections after so many more bytes of the worker.
    pub(super) fn cut_after(&self, bytes: u64) {
        let bytes = i64::try_from(bytes).unwrap_or(0);
        self.shared.left.store(bytes, Ordering::Relaxed);
    }

    /// Whether the last cut happened.
    pub(super) fn is_cut(&self) -> bool {
        self.shared.left.load(Ordering::Relaxed) == NEVER
    }
}

impl Shared {
    fn serve(self: &Arc<Self>, client: TcpStream) {
        let target = self.target.load(Ordering::Relaxed);
        // No server: the worker finds its connection closed.
        let Ok(server) = TcpStream::connect(("127.0.0.1", target)) else {
            return;
        };
        let (Ok(client_in), Ok(server_out)) = (client.try_clone(), server.try_clone()) else {
            return;
        };
        {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.retain(|one| one.peer_addr().is_ok());
            open.extend(
                [client.try_clone(), server.try_clone()]
                    .into_iter()
                    .flatten(),
            );
        }
        let this = Arc::clone(self);
        thread::spawn(move || this.pass(client_in, server_out, true));
        let this = Arc::clone(self);
        thread::spawn(move || this.pass(server, client, false));
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream, counts: bool) {
        let mut buffer = [0; 16 * 1024];
        while let Ok(read) = from.read(&mut buffer) {
            if read == 0 {
                break;
            }
            let passes = if counts { self.take(read) } else { read };
            if to.write_all(&buffer[..passes]).is_err() {
                break;
            }
            if passes < read {
                self.cut();
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }

    /// How many of these bytes pass.
    fn take(&self, read: usize) -> usize {
        if self.left.load(Ordering::Relaxed) == NEVER {
            return read;
        }
        let size = i64::try_from(read).unwrap_or(i64::MAX);
        let left = self.left.fetch_sub(size, Ordering::Relaxed);
        usize::try_from(left.max(0)).unwrap_or(0).min(read)
    }

    fn cut(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for one in open.drain(..) {
            let _ = one.shutdown(Shutdown::Both);
        }
        self.left.store(NEVER, Ordering::Relaxed);
    }
}

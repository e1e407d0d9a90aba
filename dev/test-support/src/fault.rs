//! TCP proxy between hosts and a relay, which breaks their connections at the places that a test chooses.

mod script;
mod units;

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, watch};
use tokio::task::JoinSet;

pub use script::{Break, Place, Script, Way};
use units::{Unit, Units};

/// State of one connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fate {
    /// Number of whole WebSocket messages that were forwarded to the relay.
    pub to_relay: u64,
    /// Number of whole WebSocket messages that were forwarded to the host.
    pub to_host: u64,
    /// Way in which the proxy broke it; `None`: the proxy has not broken it.
    pub broken: Option<Break>,
    /// `true`: the proxy has closed both of its sockets.
    pub is_over: bool,
}

/// TCP proxy that breaks connections. It listens on 127.0.0.1 until it is dropped, which ends all connections.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: tokio::task::JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    target: Mutex<String>,
    is_refusing: AtomicBool,
    /// Order to break every open connection.
    breaks: broadcast::Sender<Break>,
    fates: watch::Sender<Vec<Fate>>,
}

impl FaultProxy {
    /// Starts a proxy to `target`, an address and port. `plan` gives the script of each connection. Connections are
    /// numbered from 0, refused ones included.
    ///
    /// # Errors
    /// The listener cannot be opened.
    pub async fn start(
        target: impl Into<String>,
        plan: impl Fn(usize) -> Script + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            target: Mutex::new(target.into()),
            is_refusing: AtomicBool::new(false),
            breaks: broadcast::Sender::new(16),
            fates: watch::Sender::new(Vec::new()),
        });
        let serving = tokio::spawn(serve(listener, Arc::clone(&shared), plan));
        Ok(Self { address, shared, serving })
    }

    /// Returns the address that hosts connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of the WebSocket of the relay behind this proxy.
    pub fn url(&self) -> String {
        format!("ws://{}/ws", self.address)
    }

    /// Sends new connections to another address and port.
    pub fn redirect(&self, target: impl Into<String>) {
        *locked(&self.shared.target) = target.into();
    }

    /// Sets whether new connections are refused, whatever their scripts say: reset as soon as they are accepted.
    pub fn refuse(&self, is_refusing: bool) {
        self.shared.is_refusing.store(is_refusing, Ordering::SeqCst);
    }

    /// Breaks all connections that are open.
    pub fn break_all(&self, how: Break) {
        // Sending fails only if no connection is open.
        let _ = self.shared.breaks.send(how);
    }

    /// Returns the fates of all connections so far, in the order in which they came.
    pub fn fates(&self) -> Vec<Fate> {
        self.shared.fates.borrow().clone()
    }

    /// Waits until the fates of the connections meet a condition.
    pub async fn until(&self, are_as_wanted: impl FnMut(&[Fate]) -> bool) {
        let mut are_as_wanted = are_as_wanted;
        // The sender lives as long as this value.
        let _ = self.shared.fates.subscribe().wait_for(|fates| are_as_wanted(fates)).await;
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        // The connections belong to this task.
        self.serving.abort();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: TcpListener, shared: Arc<Shared>, plan: impl Fn(usize) -> Script) {
    let mut connections = JoinSet::new();
    let mut number = 0;
    // An error ends the proxy, and fails the test that waits for a connection.
    while let Ok((host, _)) = listener.accept().await {
        let mut script = plan(number);
        script.is_refused |= shared.is_refusing.load(Ordering::SeqCst);
        shared.fates.send_modify(|fates| fates.push(Fate::default()));
        connections.spawn(connection(host, number, script, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
        number += 1;
    }
}

async fn connection(mut host: TcpStream, number: usize, script: Script, shared: Arc<Shared>) {
    let tell = |change: &dyn Fn(&mut Fate)| {
        shared.fates.send_modify(|fates| {
            if let Some(fate) = fates.get_mut(number) {
                change(fate);
            }
        });
    };
    let mut orders = shared.breaks.subscribe();
    let target = locked(&shared.target).clone();
    let relay = if script.is_refused { None } else { TcpStream::connect(target).await.ok() };
    let Some(mut relay) = relay else {
        reset(&host);
        tell(&|fate| (fate.broken, fate.is_over) = (Some(Break::Reset), true));
        return;
    };
    let ended = forward(&mut host, &mut relay, &script, &mut orders, &tell).await;
    if let Err(how) = ended {
        tell(&|fate| fate.broken = Some(how));
        match how {
            Break::Reset => {
                reset(&host);
                reset(&relay);
            }
            Break::Finish => {
                let _ = tokio::join!(host.shutdown(), relay.shutdown());
            }
            Break::Silence => swallow(&mut host, &mut relay, &mut orders).await,
        }
    }
    drop((host, relay));
    tell(&|fate| fate.is_over = true);
}

/// Lets the socket end with a RST.
fn reset(stream: &TcpStream) {
    // This fails if the socket is closed already, which needs no RST.
    let _ = stream.set_zero_linger();
}

/// Forwards both directions until both have ended.
///
/// # Errors
/// The script or an order breaks the connection in this way.
async fn forward(
    host: &mut TcpStream,
    relay: &mut TcpStream,
    script: &Script,
    orders: &mut broadcast::Receiver<Break>,
    tell: &impl Fn(&dyn Fn(&mut Fate)),
) -> Result<(), Break> {
    // Do not delay small frames.
    let _ = (host.set_nodelay(true), relay.set_nodelay(true));
    let ((from_host, to_host), (from_relay, to_relay)) = (host.split(), relay.split());
    let count_up = || tell(&|fate| fate.to_relay += 1);
    let count_down = || tell(&|fate| fate.to_host += 1);
    let up = pump(Way::ToRelay, from_host, to_relay, script, &count_up);
    let down = pump(Way::ToHost, from_relay, to_host, script, &count_down);
    let too_old = async {
        match script.after {
            Some((age, how)) => {
                tokio::time::sleep(age).await;
                how
            }
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = async { tokio::try_join!(up, down) } => ended.map(drop),
        how = too_old => Err(how),
        how = orders.recv() => Err(how.unwrap_or(Break::Reset)),
    }
}

/// Forwards one direction until it ends, and closes the other side's half. An error of either socket resets both.
///
/// # Errors
/// The script breaks the connection in this way.
async fn pump(
    way: Way,
    from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    script: &Script,
    count: &impl Fn(),
) -> Result<(), Break> {
    let lost = |_: io::Error| Break::Reset;
    let mut units = Units::new(from);
    let mut number = 0;
    while let Some(Unit { bytes, is_first, is_last }) = units.next().await.map_err(lost)? {
        if !script.delay.is_zero() {
            tokio::time::sleep(script.delay).await;
        }
        let here = script.cut.filter(|(cut_way, message, ..)| (*cut_way, *message) == (way, number));
        match here {
            Some((.., Place::Before, how)) if is_first => return Err(how),
            Some((.., Place::Inside, how)) if is_first => {
                to.write_all(&bytes[..bytes.len() / 2]).await.map_err(lost)?;
                return Err(how);
            }
            _ => to.write_all(&bytes).await.map_err(lost)?,
        }
        if is_last {
            if number > 0 {
                count();
            }
            number += 1;
            if let Some((.., Place::After, how)) = here {
                return Err(how);
            }
        }
    }
    // The other direction may continue.
    to.shutdown().await.map_err(lost)
}

/// Drops what both ends send, until both have closed or an order breaks the connection in another way.
async fn swallow(host: &mut TcpStream, relay: &mut TcpStream, orders: &mut broadcast::Receiver<Break>) {
    async fn drain(stream: &mut TcpStream) {
        let mut buffer = vec![0; 16 << 10];
        while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
    }
    let order = async {
        loop {
            match orders.recv().await {
                Ok(Break::Silence) => {}
                Ok(how) => break how,
                Err(_) => break Break::Reset,
            }
        }
    };
    let how = tokio::select! {
        _ = async { tokio::join!(drain(host), drain(relay)) } => return,
        how = order => how,
    };
    if how == Break::Reset {
        reset(host);
        reset(relay);
    }
}

#[cfg(test)]
mod tests;

//! Real Postgres servers, run by the programs of Debian's package `postgresql`.
//!
//! Each server has a folder below `/tmp` with its socket, for one user alone. It ends with the test, even if the test
//! is killed.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::PATIENCE;

/// The folder of Debian's packages, with a folder for each version.
const DEBIAN: &str = "/usr/lib/postgresql";
/// The id of the user `nobody`. Tests of root run the server as this user, since it refuses to run as root.
const NOBODY: u32 = 65534;
/// The port of servers that have only a socket, whose name contains it.
const DEFAULT_PORT: u16 = 5432;
/// A script that runs the server until standard input is closed, as the end of the test does.
const WATCHDOG: &str = r#""$@" & server=$!; read -r _; kill -QUIT "$server"; wait "$server""#;

/// A server. It ends when this is dropped.
#[derive(Debug)]
pub struct Postgres {
    programs: PathBuf,
    folder: PathBuf,
    /// `None`: it is stopped.
    watchdog: Mutex<Option<Child>>,
    settings: Vec<String>,
    /// The port, which is also part of the socket's name.
    port: u16,
    databases: AtomicU32,
}

impl Postgres {
    /// Returns a server that is shared by the tests of this process.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Self::start(&[]));
            *shared = Arc::downgrade(&server);
            server
        })
    }

    /// Starts a server with settings such as `ssl=on`. It listens on its socket alone.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn start(settings: &[&str]) -> Self {
        Self::start_at(DEFAULT_PORT, settings)
    }

    /// Starts a server that listens on a free port of 127.0.0.1 as well.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn start_on_loopback(settings: &[&str]) -> Self {
        // Postgres cannot take over an open listener, so the port is only probably still free.
        let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("there is a free port").port();
        Self::start_at(port, &[settings, &["listen_addresses=127.0.0.1"]].concat())
    }

    fn start_at(port: u16, settings: &[&str]) -> Self {
        let programs = programs().expect("the tests need Postgres; on Debian: apt-get install postgresql");
        let server = Self {
            programs,
            folder: new_folder().expect("the server's folder cannot be created"),
            watchdog: Mutex::new(None),
            settings: settings.iter().map(|setting| (*setting).to_owned()).collect(),
            port,
            databases: AtomicU32::new(0),
        };
        let mut initdb = server.program("initdb");
        initdb.arg("--pgdata").arg(server.data()).args(["--username=test", "--auth=trust", "--no-sync"]);
        run(initdb.args(["--encoding=UTF8", "--locale=C"]));
        server.resume();
        server
    }

    /// Returns the server's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the port, where the server listens on one.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the path of the socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.join(format!(".s.PGSQL.{}", self.port))
    }

    /// Creates an empty database and returns its address, by the socket.
    ///
    /// # Panics
    /// It cannot be created.
    pub fn database(&self) -> String {
        let name = format!("test{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.query("postgres", &format!("CREATE DATABASE {name}"));
        let host = self.folder.to_string_lossy().replace('/', "%2F");
        format!("postgres://test@{host}:{}/{name}", self.port)
    }

    /// Runs SQL in the database of an address or name, and returns what it prints.
    ///
    /// # Panics
    /// It fails.
    pub fn query(&self, database: &str, sql: &str) -> String {
        let name = database.rsplit('/').next().unwrap_or(database);
        let mut psql = self.program("psql");
        psql.arg("--host").arg(&self.folder).args(["--username=test", "--no-psqlrc", "--tuples-only", "--no-align"]);
        run(psql.args(["--set=ON_ERROR_STOP=1", "--dbname", name, "--command", sql])).trim().to_owned()
    }

    /// Stops the server without a shutdown, as a crash does.
    ///
    /// # Panics
    /// It does not stop.
    pub fn crash(&self) {
        let watchdog = self.watchdog.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut watchdog) = watchdog {
            drop(watchdog.stdin.take());
            watchdog.wait().expect("the watchdog can be waited for");
        }
    }

    /// Starts the server again, and returns when it answers.
    ///
    /// # Panics
    /// It does not start.
    pub fn resume(&self) {
        let mut command = self.command("sh");
        command.args(["-c", WATCHDOG, "sh"]).arg(self.programs.join("postgres")).arg("-D").arg(self.data());
        command.arg("-k").arg(&self.folder).arg("-p").arg(self.port.to_string());
        for setting in ["listen_addresses=", "fsync=off"].into_iter().chain(self.settings.iter().map(String::as_str)) {
            command.args(["-c", setting]);
        }
        let log = fs::File::create(self.folder.join("log")).expect("a log can be created");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
        let watchdog = command.spawn().expect("sh can be run");
        *self.watchdog.lock().unwrap_or_else(PoisonError::into_inner) = Some(watchdog);
        let deadline = Instant::now() + PATIENCE;
        while !self.answers() {
            let log = || fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "Postgres does not start:\n{}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn answers(&self) -> bool {
        let mut is_ready = self.program("pg_isready");
        is_ready.args(["--quiet", "--host"]).arg(&self.folder);
        is_ready.status().is_ok_and(|status| status.success())
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn program(&self, name: &str) -> Command {
        let mut command = self.command(self.programs.join(name));
        command.env("PGPORT", self.port.to_string());
        command
    }

    /// Makes a command that runs as the server's user.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        if !is_root() {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".to_owned()]);
        command.arg("--").arg(program).current_dir(&self.folder);
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.crash();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Makes the server's user the owner of a file or folder, and the only one who may read it.
///
/// # Errors
/// The permissions cannot be changed.
pub fn hand_over(path: &Path) -> io::Result<()> {
    let mode = if path.is_dir() { 0o700 } else { 0o600 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    if is_root() { chown(path, Some(NOBODY), Some(NOBODY)) } else { Ok(()) }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Finds the folder of the newest version's programs.
fn programs() -> Option<PathBuf> {
    let version = |folder: &PathBuf| folder.file_name()?.to_str()?.parse::<u32>().ok();
    let folders = fs::read_dir(DEBIAN).into_iter().flatten().flatten().map(|entry| entry.path());
    let newest = folders.filter(|folder| folder.join("bin/postgres").exists()).max_by_key(version);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = || std::env::split_paths(&path).find(|folder| folder.join("initdb").is_file());
    newest.map(|folder| folder.join("bin")).or_else(on_path)
}

/// Creates a folder whose name is short: the path of a socket has 107 bytes at most.
fn new_folder() -> io::Result<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = PathBuf::from(format!("/tmp/postgres-{}-{number}", std::process::id()));
    // A killed process with the same id may have left one.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder)?;
    hand_over(&folder)?;
    Ok(folder)
}

#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

//! The program at a terminal: what a person sees there, and types.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use tokio::process::Child;

use super::folder::Folder;
use super::{eventually, within};

pub(crate) struct Terminal {
    child: Child,
    controller: Arc<File>,
    seen: Arc<Mutex<Vec<u8>>>,
    /// The number of bytes that were looked at.
    looked: usize,
    reader: JoinHandle<()>,
}

impl Terminal {
    /// Starts the program with a terminal as its standard input, output and error, and to be asked at.
    pub(crate) fn start(folder: &Folder, arguments: &[&str]) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let controller: OwnedFd = openpt(flags).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let size = Winsize { ws_row: 50, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&controller, size).unwrap();
        let terminal = File::from(ioctl_tiocgptpeer(&controller, flags).unwrap());
        let mut command = folder.command_by(&["setsid", "--ctty"], arguments);
        let same = || Stdio::from(terminal.try_clone().unwrap());
        let child = command.stdin(same()).stdout(same()).stderr(same()).spawn().unwrap();
        let (controller, seen) = (Arc::new(File::from(controller)), Arc::new(Mutex::new(Vec::new())));
        let (mut from, into) = (Arc::clone(&controller), Arc::clone(&seen));
        let reader = std::thread::spawn(move || {
            let mut piece = [0; 4096];
            // It fails when nobody has the terminal any more.
            while let Ok(count) = from.read(&mut piece) {
                into.lock().unwrap().extend(&piece[..count]);
            }
        });
        Self { child, controller, seen, looked: 0, reader }
    }

    pub(crate) fn id(&self) -> i32 {
        self.child.id().unwrap().try_into().unwrap()
    }

    /// Everything that was on the terminal.
    pub(crate) fn seen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    /// Waits until this is there, behind what was waited for before. Gives everything up to its end.
    pub(crate) async fn sees(&mut self, text: &str) -> String {
        self.sees_one_of(&[text]).await
    }

    /// Waits until the first of these is there, behind what was waited for before. Gives everything up to its end.
    pub(crate) async fn sees_one_of(&mut self, texts: &[&str]) -> String {
        let (from, mut end) = (self.looked, 0);
        let is_there = || {
            let seen = self.seen.lock().unwrap();
            let found = |text: &&str| {
                let at = seen[from..].windows(text.len()).position(|piece| piece == text.as_bytes());
                at.map(|at| from + at + text.len())
            };
            let first = texts.iter().filter_map(found).min();
            end = first.unwrap_or(end);
            first.is_some()
        };
        eventually(|| format!("{texts:?} is seen in {:?}", self.seen()), is_there).await;
        self.looked = end;
        String::from_utf8_lossy(&self.seen.lock().unwrap()[from..end]).into_owned()
    }

    pub(crate) fn types(&self, keys: &str) {
        (&*self.controller).write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the program has ended and left the terminal as people need it. Gives its status, and what is there
    /// behind what was waited for.
    pub(crate) async fn ends(mut self) -> (Option<i32>, String) {
        let status = within(self.child.wait()).await.unwrap();
        let modes = tcgetattr(&*self.controller).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG), "{modes:?}");
        // What was written last is still on its way when the program has ended.
        eventually(|| "nobody has the terminal any more".into(), || self.reader.is_finished()).await;
        let seen = self.seen();
        (status.code(), seen[self.looked.min(seen.len())..].to_owned())
    }
}

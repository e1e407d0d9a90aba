//! An SQLite file on a disk that is full or read-only, held by others for too long, and what is left in it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use host_client_core::durable::{Batch, Instruction, Journal, JournalError};
use host_client_journal::{Durability, SqliteJournal};
use relay_test_support::within;
use rusqlite::{Connection, TransactionBehavior};
use serde_json::json;

use crate::child;
use crate::storage::{NOW, batch, claim, create, entries, entry, id};

/// A journal's file in an empty folder, and the folder.
fn new_path() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    (folder, path)
}

/// The file beside a journal's that ends in `suffix`.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

#[tokio::test]
async fn nobody_else_can_read_a_new_journal() {
    let (folder, _) = new_path();
    let path = folder.path().join("new/deeper/journal.db");
    let journal = SqliteJournal::open(&path).await.unwrap();
    create(&journal, "run").await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for path in [path.clone(), beside(&path, "-wal"), beside(&path, "-shm")] {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    for folder in path.ancestors().skip(1).take(2) {
        assert_eq!(mode(folder), 0o700, "{}", folder.display());
    }
    // Closed, it is one file, and permissions that were changed since stay.
    journal.close().await;
    assert!(!beside(&path, "-wal").exists());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    SqliteJournal::open(&path).await.unwrap();
    assert_eq!(mode(&path), 0o640);
}

#[tokio::test]
async fn a_file_that_is_no_journal_is_refused_and_stays_as_it_is() {
    let (folder, path) = new_path();
    let text = "no database, but a text of some length\n".repeat(100);
    fs::write(&path, &text).unwrap();
    let error = SqliteJournal::open(&path).await.unwrap_err();
    let told = error.to_string();
    assert!(
        matches!(error, JournalError::Unavailable(_)) && told.contains("is no SQLite database: name another"),
        "{told}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), text);

    let other = folder.path().join("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE entries (a)").unwrap();
    let before = fs::read(&other).unwrap();
    let told = SqliteJournal::open(&other).await.unwrap_err().to_string();
    assert!(told.contains("other.db: it is a database of something else"), "{told}");
    assert_eq!(fs::read(&other).unwrap(), before);

    let told = SqliteJournal::open(folder.path()).await.unwrap_err().to_string();
    assert!(told.contains(folder.path().to_str().unwrap()), "{told}");
    let told = SqliteJournal::open(path.join("deeper")).await.unwrap_err().to_string();
    assert!(told.contains("journal.db: ") && !path.join("deeper").exists(), "{told}");
}

#[tokio::test]
async fn a_name_with_a_meaning_for_sqlite_is_a_path() {
    let (folder, _) = new_path();
    let path = folder.path().join("file:a?mode=memory");
    let journal = SqliteJournal::open(&path).await.unwrap();
    create(&journal, "run").await;
    assert!(path.exists() && journal.path() == path);
}

#[tokio::test]
async fn a_file_that_others_hold_for_too_long_is_busy() {
    let (_folder, path) = new_path();
    let options = SqliteJournal::options().busy_timeout(Duration::from_millis(50));
    let journal = options.clone().open(&path).await.unwrap();
    let run = create(&journal, "run").await;
    let mut other = Connection::open(&path).unwrap();
    let held = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let error = journal.append(run.clone(), "host".to_owned(), batch(1, 1)).await.unwrap_err();
    assert!(matches!(error, JournalError::Busy(_)) && error.to_string().contains("try again"), "{error}");
    assert!(matches!(options.open(&path).await.unwrap_err(), JournalError::Busy(_)));
    // Reading waits for nobody.
    assert_eq!(journal.entries(run.clone(), 0).await.unwrap(), []);
    drop(held);
    journal.append(run.clone(), "host".to_owned(), batch(1, 1)).await.unwrap();
    assert_eq!(journal.entries(run, 0).await.unwrap(), entries(1, 1));
}

#[tokio::test]
async fn all_changes_that_wait_for_a_held_file_are_refused_at_once() {
    const TIMEOUT: Duration = Duration::from_secs(1);
    let (_folder, path) = new_path();
    let journal = SqliteJournal::options().busy_timeout(TIMEOUT).open(&path).await.unwrap();
    let mut other = Connection::open(&path).unwrap();
    let _held = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let waiting = (0..100).map(|number| journal.renew(claim(&format!("holder-{number}"))));
    // One by one, they would take 100 s.
    for result in within(futures_util::future::join_all(waiting)).await {
        assert!(matches!(result, Err(JournalError::Busy(_))), "{result:?}");
    }
}

#[tokio::test]
async fn a_file_that_was_removed_or_replaced_takes_no_more_changes() {
    let (folder, path) = new_path();
    let journal = SqliteJournal::open(&path).await.unwrap();
    let run = create(&journal, "run").await;
    let moved = folder.path().join("moved.db");
    let refused = async |what: &str| {
        let error = journal.append(run.clone(), "host".to_owned(), batch(1, 1)).await.unwrap_err();
        let is_told = error.to_string().contains("was moved, removed or replaced");
        assert!(matches!(error, JournalError::Unavailable(_)) && is_told, "{what}: {error}");
    };
    fs::rename(&path, &moved).unwrap();
    refused("moved").await;
    fs::copy(&moved, &path).unwrap();
    refused("replaced").await;
    fs::rename(&moved, &path).unwrap();
    journal.append(run.clone(), "host".to_owned(), batch(1, 1)).await.unwrap();
    fs::remove_file(&path).unwrap();
    refused("removed").await;
}

#[tokio::test]
async fn what_queues_up_is_committed_together() {
    const RUNS: usize = 20;
    let (_folder, path) = new_path();
    let journal = SqliteJournal::options().durability(Durability::Power).open(&path).await.unwrap();
    for number in 0..RUNS {
        create(&journal, &format!("run-{number}")).await;
    }
    let commits = commits_in(&path);
    let mut other = Connection::open(&path).unwrap();
    let held = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let append = |number: usize| journal.append(id(&format!("run-{number}")), "host".to_owned(), batch(1, 2));
    let all = futures_util::future::join_all((0..RUNS).map(append));
    // The futures are in the queue before the other connection lets go.
    let let_go = async {
        tokio::task::yield_now().await;
        drop(held);
    };
    let (results, ()) = within(async { tokio::join!(all, let_go) }).await;
    assert!(results.into_iter().all(|result| result.is_ok()));
    let made = commits_in(&path) - commits;
    assert!((1..=2).contains(&made), "{made} commits: of the first change, and of all that came while it waited");
}

/// The number of commits in a write-ahead log that was never written over: the frames that tell the file's size.
fn commits_in(path: &Path) -> usize {
    let log = fs::read(beside(path, "-wal")).unwrap();
    let page = usize::try_from(u32::from_be_bytes(log[8..12].try_into().unwrap())).unwrap();
    log[32..].chunks_exact(24 + page).filter(|frame| frame[4..8] != [0; 4]).count()
}

#[tokio::test]
async fn the_write_ahead_log_does_not_grow_without_end() {
    let (_folder, path) = new_path();
    let journal = SqliteJournal::open(&path).await.unwrap();
    let run = create(&journal, "run").await;
    let length = || fs::metadata(beside(&path, "-wal")).unwrap().len();
    let mut longest = 0;
    for number in 1..=3_000 {
        journal.append(run.clone(), "host".to_owned(), batch(number, number)).await.unwrap();
        longest = longest.max(length());
    }
    // About 1,000 pages of 4 KiB, where all changes together have some 15,000.
    assert!((2 << 20..8 << 20).contains(&longest), "{longest} bytes");
}

#[tokio::test]
async fn a_file_that_others_have_locked_does_not_stop_the_thread_of_the_caller() {
    let (_folder, path) = new_path();
    let journal = SqliteJournal::open(&path).await.unwrap();
    let run = create(&journal, "run").await;
    let mut other = Connection::open(&path).unwrap();
    let held = other.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    // The same thread lets go: the append would otherwise fail as busy.
    let append = journal.append(run.clone(), "host".to_owned(), batch(1, 2));
    let let_go = async {
        tokio::task::yield_now().await;
        drop(held);
    };
    let (appended, ()) = within(async { tokio::join!(append, let_go) }).await;
    appended.unwrap();
    journal.append(run, "host".to_owned(), batch(3, 4)).await.unwrap();
}

#[tokio::test]
async fn nothing_of_a_forgotten_run_is_left_in_the_files() {
    const SECRET: &[u8] = b"a secret that a tool has told";
    let (_folder, path) = new_path();
    let journal = SqliteJournal::open(&path).await.unwrap();
    let run = create(&journal, "run").await;
    let content = json!(String::from_utf8_lossy(&SECRET.repeat(300)));
    let batch = Batch { first: 1, entries: vec![entry(1, content.clone())], status: None, at_ms: NOW };
    journal.append(run.clone(), "host".to_owned(), batch).await.unwrap();
    journal.instruct(run.clone(), Instruction { call: 1, json: content.to_string() }).await.unwrap();
    let holds_secret = || {
        let files = [path.clone(), beside(&path, "-wal")];
        files.iter().any(|file| fs::read(file).unwrap().windows(SECRET.len()).any(|bytes| bytes == SECRET))
    };
    assert!(holds_secret());
    assert!(journal.forget(run, "host".to_owned(), NOW).await.unwrap());
    assert!(!holds_secret());
}

#[tokio::test]
async fn a_full_disk_is_told_of_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    child::run_with_mounts("disk::writes_on_a_full_disk", folder.path().to_str().unwrap()).await;
}

/// Mounts something over a folder, for this process alone.
fn mount(arguments: &[&str], folder: &Path) {
    let output = Command::new("mount").args(arguments).arg(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
#[ignore = "a child of a_full_disk_is_told_of_and_nothing_is_lost"]
async fn writes_on_a_full_disk() {
    let folder = PathBuf::from(child::given_address());
    mount(&["-t", "tmpfs", "-o", "size=1m", "none"], &folder);
    let reserve = folder.join("reserve");
    fs::write(&reserve, vec![1; 300 << 10]).unwrap();
    let path = folder.join("journal.db");
    let journal = SqliteJournal::open(&path).await.unwrap();
    let run = create(&journal, "run").await;
    let append = |first| {
        let content = json!("x".repeat(20 << 10));
        let batch = Batch { first, entries: vec![entry(first, content)], status: None, at_ms: NOW };
        journal.append(run.clone(), "host".to_owned(), batch)
    };
    let mut written = 0;
    let error = loop {
        match append(written + 1).await {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, JournalError::Full(_)) && error.to_string().contains("make room"), "{error}");
    assert!(written > 5, "{written}");
    assert_eq!(journal.entries(run.clone(), 0).await.unwrap().len() as u64, written);
    assert!(matches!(append(written + 1).await.unwrap_err(), JournalError::Full(_)));
    fs::remove_file(&reserve).unwrap();
    append(written + 1).await.unwrap();
    assert_eq!(journal.entries(run.clone(), 0).await.unwrap().len() as u64, written + 1);
    journal.close().await;
    // A new one finds no room at all.
    let rest = fs::File::create(&reserve).unwrap();
    while std::io::Write::write_all(&mut &rest, &[1; 4096]).is_ok() {}
    let error = SqliteJournal::open(folder.join("another.db")).await.unwrap_err();
    assert!(matches!(error, JournalError::Full(_)), "{error}");
}

#[tokio::test]
async fn a_file_that_cannot_be_written_to_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    child::run_with_mounts("disk::opens_what_is_read_only", folder.path().to_str().unwrap()).await;
}

#[tokio::test]
#[ignore = "a child of a_file_that_cannot_be_written_to_is_refused"]
async fn opens_what_is_read_only() {
    let folder = PathBuf::from(child::given_address());
    mount(&["-t", "tmpfs", "none"], &folder);
    let path = folder.join("journal.db");
    let journal = SqliteJournal::open(&path).await.unwrap();
    create(&journal, "run").await;
    journal.close().await;
    mount(&["-o", "remount,ro"], &folder);
    for path in [path, folder.join("new.db"), folder.join("new/journal.db")] {
        let error = SqliteJournal::open(&path).await.unwrap_err();
        assert!(matches!(error, JournalError::ReadOnly(_)), "{}: {error}", path.display());
    }
}

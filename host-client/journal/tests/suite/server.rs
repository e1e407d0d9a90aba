//! A Postgres server that fails, and the way to it.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use host_client_core::durable::{Instruction, Journal, JournalError};
use host_client_journal::PostgresJournal;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use relay_test_support::postgres::{Postgres, hand_over};
use relay_test_support::{PATIENCE, within};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixStream};

use crate::storage::{NOW, PLAN, batch, claim, create, entries, entry, everything, id, new_run};

/// A way to a server's socket, on which one answer or one request can be lost.
struct Way {
    port: u16,
    loses: Arc<Loss>,
}

/// What is lost next, together with the connection.
#[derive(Default)]
struct Loss {
    answer: AtomicBool,
    request: AtomicBool,
}

impl Way {
    async fn to(socket: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let loses = Arc::new(Loss::default());
        let of_connections = loses.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = UnixStream::connect(&socket).await.unwrap();
                tokio::spawn(carry(client, server, of_connections.clone()));
            }
        });
        Self { port, loses }
    }

    /// The address of a database behind this way.
    fn address(&self, database: &str) -> String {
        let name = database.rsplit('/').next().unwrap();
        format!("postgres://test@127.0.0.1:{}/{name}", self.port)
    }
}

/// Carries bytes both ways, until one side ends or something is lost.
async fn carry(client: tokio::net::TcpStream, server: UnixStream, loses: Arc<Loss>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let requests = async {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from_client.read(&mut bytes).await {
            if loses.request.swap(false, Ordering::SeqCst) {
                return;
            }
            to_server.write_all(&bytes[..count]).await.unwrap();
        }
    };
    let answers = async {
        let mut bytes = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
            if loses.answer.swap(false, Ordering::SeqCst) {
                return;
            }
            to_client.write_all(&bytes[..count]).await.unwrap();
        }
    };
    tokio::select! {
        () = requests => {}
        () = answers => {}
    }
}

#[tokio::test]
async fn a_change_whose_answer_or_request_was_lost_is_made_once() {
    let server = Postgres::shared();
    let database = server.database();
    let way = Way::to(server.socket()).await;
    let journal = within(PostgresJournal::connect(&way.address(&database))).await.unwrap();
    for lost in [&way.loses.answer, &way.loses.request] {
        let run = id("run");
        let lose = || lost.store(true, Ordering::SeqCst);
        let is_lost = || assert!(!lost.load(Ordering::SeqCst), "nothing was lost");
        lose();
        within(journal.create(new_run("run", NOW), claim("host"))).await.unwrap();
        is_lost();
        for first in [1, 3] {
            lose();
            within(journal.append(run.clone(), "host".to_owned(), batch(first, first + 1))).await.unwrap();
            is_lost();
        }
        lose();
        assert_eq!(within(journal.entries(run.clone(), 0)).await.unwrap(), entries(1, 4));
        is_lost();
        lose();
        within(journal.claim(run.clone(), claim("host"), NOW)).await.unwrap();
        is_lost();
        let instruction = Instruction { call: 1, json: json!("approve").to_string() };
        lose();
        within(journal.instruct(run.clone(), instruction.clone())).await.unwrap();
        is_lost();
        assert_eq!(journal.instructions_of(run.clone()).await.unwrap(), [instruction]);
        lose();
        assert!(within(journal.forget(run.clone(), "host".to_owned(), NOW)).await.unwrap());
        is_lost();
        assert_eq!(journal.run(run).await.unwrap(), None);
    }
}

#[tokio::test]
async fn what_another_has_written_is_no_own_change_after_a_lost_answer() {
    let server = Postgres::shared();
    let database = server.database();
    let way = Way::to(server.socket()).await;
    let journal = within(PostgresJournal::connect(&way.address(&database))).await.unwrap();
    let other = within(PostgresJournal::connect(&database)).await.unwrap();
    let run = create(&other, "run").await;
    other.append(run.clone(), "host".to_owned(), batch(1, 2)).await.unwrap();
    let mut mine = batch(1, 2);
    mine.entries[1] = entry(3, json!("another content"));
    way.loses.answer.store(true, Ordering::SeqCst);
    let error = within(journal.append(run.clone(), "host".to_owned(), mine)).await.unwrap_err();
    assert_eq!(error, JournalError::Conflict { run: run.clone(), expected: 0, found: 2 });
    way.loses.answer.store(true, Ordering::SeqCst);
    let error = within(journal.create(new_run("run", NOW + 1), claim("host"))).await.unwrap_err();
    assert_eq!(error, JournalError::Exists(run.clone()));
    assert_eq!(journal.plan(run).await.unwrap().as_deref(), Some(PLAN));
}

#[tokio::test]
async fn a_server_that_crashes_and_comes_back_has_each_entry_once() {
    let server = Arc::new(Postgres::start(&[]));
    let options = PostgresJournal::options().patience(PATIENCE);
    let journal = Arc::new(within(options.connect(&server.database())).await.unwrap());
    let writers = (0..4).map(|number| {
        let journal = journal.clone();
        tokio::spawn(async move {
            let run = create(&*journal, &format!("run-{number}")).await;
            for first in (1..=60).step_by(2) {
                journal.append(run.clone(), "host".to_owned(), batch(first, first + 1)).await.unwrap();
            }
            assert_eq!(journal.entries(run, 0).await.unwrap(), entries(1, 60));
        })
    });
    let writers: Vec<_> = writers.collect();
    for _ in 0..3 {
        // In the middle of the work.
        let written = async || journal.runs(everything()).await.unwrap().iter().map(|head| head.entries).sum::<u64>();
        let before = written().await;
        within(async { while written().await < (before + 20).min(240) {} }).await;
        let server = server.clone();
        tokio::task::spawn_blocking(move || {
            server.crash();
            server.resume();
        })
        .await
        .unwrap();
    }
    for writer in writers {
        within(writer).await.unwrap();
    }
}

#[tokio::test]
async fn a_connection_that_the_server_ends_is_made_again() {
    let server = Postgres::shared();
    let database = server.database();
    let journal = within(PostgresJournal::connect(&database)).await.unwrap();
    let run = create(&journal, "run").await;
    let name = database.rsplit('/').next().unwrap();
    for first in [1, 2] {
        let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname";
        assert_eq!(server.query("postgres", &format!("{end} = '{name}'")), "1");
        within(journal.append(run.clone(), "host".to_owned(), batch(first, first))).await.unwrap();
    }
    assert_eq!(journal.entries(run, 0).await.unwrap(), entries(1, 2));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_of_when_patience_ends() {
    let options = PostgresJournal::options().patience(Duration::from_millis(300));
    let folder = tempfile::tempdir().unwrap();
    let host = folder.path().to_str().unwrap().replace('/', "%2F");
    let began = Instant::now();
    let error = within(options.clone().connect(&format!("postgres://u:secret@{host}/j"))).await.unwrap_err();
    assert!(began.elapsed() >= Duration::from_millis(100), "it was tried once");
    let told = error.to_string();
    assert!(matches!(error, JournalError::Unavailable(_)) && !told.contains("secret"), "{told}");

    // One that goes away for longer.
    let server = Postgres::start(&[]);
    let journal = within(options.connect(&server.database())).await.unwrap();
    let run = create(&journal, "run").await;
    server.crash();
    let error = within(journal.append(run.clone(), "host".to_owned(), batch(1, 1))).await.unwrap_err();
    assert!(matches!(error, JournalError::Unavailable(_)), "{error}");
    server.resume();
    within(journal.append(run, "host".to_owned(), batch(1, 1))).await.unwrap();
}

#[tokio::test]
async fn who_may_not_write_is_told_so() {
    let server = Postgres::shared();
    let database = server.database();
    server.query("postgres", "DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN");
    let guest = database.replace("test@", "guest@");
    let error = within(PostgresJournal::connect(&guest)).await.unwrap_err();
    assert!(matches!(error, JournalError::ReadOnly(_)) && error.to_string().contains("permission denied"), "{error}");

    let journal = within(PostgresJournal::connect(&database)).await.unwrap();
    create(&journal, "run").await;
    let name = database.rsplit('/').next().unwrap();
    server.query("postgres", &format!("ALTER DATABASE {name} SET default_transaction_read_only = on"));
    let error = within(PostgresJournal::connect(&database)).await.unwrap_err();
    assert!(matches!(error, JournalError::ReadOnly(_)), "{error}");
    // Who was connected before goes on; no such user at all is another matter.
    journal.append(id("run"), "host".to_owned(), batch(1, 1)).await.unwrap();
    let error = within(PostgresJournal::connect(&database.replace("test@", "nobody@"))).await.unwrap_err();
    assert!(matches!(error, JournalError::Unavailable(_)) && error.to_string().contains("nobody"), "{error}");
}

#[tokio::test]
async fn an_error_of_the_server_says_what_to_do() {
    let server = Postgres::shared();
    let database = server.database();
    let journal = within(PostgresJournal::connect(&database)).await.unwrap();
    let run = create(&journal, "run").await;
    // The server fails as it does on a full disk and so on, with the same code.
    let fail_with = |code: &str| {
        server.query(
            &database,
            &format!(
                "CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN RAISE EXCEPTION 'so it is' USING ERRCODE = '{code}'; END $$;
             CREATE OR REPLACE TRIGGER fail BEFORE INSERT ON host_client_journal.entries EXECUTE FUNCTION fail()"
            ),
        )
    };
    let expected = |code: &str| match code {
        "53100" => JournalError::Full,
        "25006" => JournalError::ReadOnly,
        "XX001" => JournalError::Damaged,
        "40P01" => JournalError::Busy,
        _ => JournalError::Unavailable,
    };
    for code in ["53100", "25006", "XX001", "40P01", "22000"] {
        fail_with(code);
        let told = journal.append(run.clone(), "host".to_owned(), batch(1, 2)).await.unwrap_err();
        assert_eq!(told, expected(code)("so it is".to_owned()), "{code}");
        assert_eq!(journal.run(run.clone()).await.unwrap().unwrap().entries, 0, "{code}");
    }
    server.query(&database, "DROP TRIGGER fail ON host_client_journal.entries");
    journal.append(run.clone(), "host".to_owned(), batch(1, 2)).await.unwrap();
    assert_eq!(journal.entries(run, 0).await.unwrap(), entries(1, 2));
}

/// An authority, and a server's certificate and key from it, in PEM.
fn certificates(host: &str) -> [String; 3] {
    let key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_pem = authority.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(authority, key);
    let server_key = KeyPair::generate().unwrap();
    let server = CertificateParams::new(vec![host.to_owned()]).unwrap().signed_by(&server_key, &issuer).unwrap();
    [authority_pem, server.pem(), server_key.serialize_pem()]
}

#[tokio::test]
async fn by_tls_the_server_has_to_prove_who_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let [authority, certificate, key] = certificates("localhost");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        hand_over(&path).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let [certificate, key] = [("server.pem", certificate), ("key.pem", key)].map(|(name, text)| file(name, &text));
    let root = file("authority.pem", &authority);
    hand_over(folder.path()).unwrap();
    let settings = [format!("ssl_cert_file={certificate}"), format!("ssl_key_file={key}"), "ssl=on".to_owned()];
    let server = Postgres::start_on_loopback(&settings.each_ref().map(String::as_str));
    let database = server.database();
    let name = database.rsplit('/').next().unwrap();
    let at = |host: &str, rest: &str| format!("postgres://test@{host}:{}/{name}?{rest}", server.port());

    let address = at("localhost", &format!("sslmode=verify-full&sslrootcert={root}&application_name=journal%20test"));
    let journal = within(PostgresJournal::connect(&address)).await.unwrap();
    create(&journal, "run").await;
    let by_tls =
        "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'journal test'";
    assert_eq!(server.query(name, by_tls), "t");
    let options = PostgresJournal::options().authorities(authority).patience(Duration::ZERO);
    within(options.clone().connect(&at("localhost", "sslmode=require"))).await.unwrap();

    let refused = async |result: Result<PostgresJournal, JournalError>, reason: &str| {
        let told = result.unwrap_err().to_string();
        assert!(told.contains(reason), "{told}");
    };
    refused(within(PostgresJournal::connect(&at("localhost", "sslmode=require"))).await, "UnknownIssuer").await;
    refused(within(options.connect(&at("127.0.0.1", "sslmode=require"))).await, "not valid for name").await;
}

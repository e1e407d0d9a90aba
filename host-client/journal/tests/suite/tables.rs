//! What a storage finds in its tables that it has not put there.

use host_client_core::durable::{Claim, JournalError};

use crate::storage::{NOW, Storage, batch, create, for_each_storage, id, new_run, open};

for_each_storage! {
    a_journal_of_a_newer_version_is_refused
    a_missing_entry_is_found
    names_of_old_processes_are_removed
}

async fn a_journal_of_a_newer_version_is_refused(storage: Storage) {
    let journal = storage.open().await;
    create(&*journal, "run").await;
    storage.execute("UPDATE {}schema_version SET version = 99");
    let error = open(&storage.address()).await.unwrap_err();
    assert_eq!(error, JournalError::Version { found: 99, known: 1 });
    assert!(error.to_string().contains("update it"), "{error}");
    storage.execute("UPDATE {}schema_version SET version = 1");
    assert!(storage.open().await.run(id("run")).await.unwrap().is_some());
}

async fn a_missing_entry_is_found(storage: Storage) {
    let journal = storage.open().await;
    let run = create(&*journal, "run").await;
    journal.append(run.clone(), "host".to_owned(), batch(1, 5)).await.unwrap();
    for number in [3, 5] {
        storage.execute(&format!("DELETE FROM {{}}entries WHERE number = {number}"));
        let error = journal.entries(run.clone(), 0).await.unwrap_err();
        assert!(matches!(&error, JournalError::Damaged(text) if text.contains("run")), "{error}");
    }
}

async fn names_of_old_processes_are_removed(storage: Storage) {
    let journal = storage.open().await;
    let old = |holder: &str| Claim { holder: holder.to_owned(), until_ms: 1_000 };
    journal.create(new_run("run", NOW), old("holds a run")).await.unwrap();
    journal.renew(old("holds nothing")).await.unwrap();
    let head = storage.open().await.run(id("run")).await.unwrap().unwrap();
    assert_eq!(head.claim, Some(old("holds a run")));
    // It would be refused if there was another name.
    storage.execute("CREATE UNIQUE INDEX one ON {}holders ((1))");
}

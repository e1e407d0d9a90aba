//! Versions of a schema.

use host_client_core::JournalError;

/// Returns the changes that a schema of version `found` still needs, each with the version that it leads to. An absent
/// schema has version 0. `changes` are all known changes, from version 1 on.
///
/// # Errors
/// [`JournalError::Version`]: it is newer than this program. [`JournalError::Damaged`]: the version is negative.
pub(crate) fn pending<'a>(
    changes: &'a [&'a str],
    found: i64,
) -> Result<impl Iterator<Item = (i64, &'a str)> + use<'a>, JournalError> {
    let known = crate::integer::signed(changes.len() as u64);
    if found > known {
        return Err(JournalError::Version { found, known });
    }
    let done = usize::try_from(found).map_err(|_| JournalError::Damaged(format!("its schema has version {found}")))?;
    Ok((1..).zip(changes.iter().copied()).skip(done))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_storage_gets_the_changes_after_its_own_version() {
        let after = |found| pending(&["a", "b", "c"], found).map(Iterator::collect::<Vec<_>>);
        assert_eq!(after(0).unwrap(), [(1, "a"), (2, "b"), (3, "c")]);
        assert_eq!(after(2).unwrap(), [(3, "c")]);
        assert_eq!(after(3).unwrap(), []);
        assert_eq!(after(4).unwrap_err(), JournalError::Version { found: 4, known: 3 });
        assert!(matches!(after(-1).unwrap_err(), JournalError::Damaged(_)));
    }
}

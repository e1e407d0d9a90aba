//! Compares the licences of the packages in the lock file with the list in `deny.toml`. `cargo deny check licenses`
//! does the same, but it has 143 crates and takes minutes to build.

use anyhow::Context as _;
use spdx::{Expression, Licensee, ParseMode};

use crate::metadata::Package;

/// Lists the packages with no licence, or with one that the list does not allow. `configuration` is the text of
/// `deny.toml`.
///
/// # Errors
/// The list cannot be read.
pub(super) fn faults(packages: &[Package<'_>], configuration: &str) -> anyhow::Result<Vec<String>> {
    let allowed = allowed(configuration)?;
    let fault = |package: &Package<'_>| {
        let Package { name, version, licence, .. } = package;
        // deny.toml says the same with `private = { ignore = true }`.
        if package.is_member && !package.publish {
            return None;
        }
        let Some(licence) = licence else { return Some(format!("{name} {version} names no licence")) };
        // Old packages write "MIT/Apache-2.0".
        let Ok(expression) = Expression::parse_mode(licence, ParseMode::LAX) else {
            return Some(format!("{name} {version} has a licence that cannot be read: {licence}"));
        };
        let is_allowed = expression.evaluate(|wanted| allowed.iter().any(|licensee| licensee.satisfies(wanted)));
        (!is_allowed).then(|| format!("{name} {version} has a licence that deny.toml does not allow: {licence}"))
    };
    Ok(packages.iter().filter_map(fault).collect())
}

fn allowed(configuration: &str) -> anyhow::Result<Vec<Licensee>> {
    let table: toml::Table = configuration.parse().context("deny.toml is no TOML")?;
    let list = table.get("licenses").and_then(|licences| licences.get("allow")?.as_array());
    let list = list.context("deny.toml has no list licenses.allow")?;
    list.iter()
        .map(|licence| {
            let licence = licence.as_str().context("licenses.allow in deny.toml holds texts")?;
            Licensee::parse(licence).with_context(|| format!("licenses.allow in deny.toml: {licence}"))
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(licence: Option<&str>) -> Vec<String> {
        let package = json!({"name": "a", "version": "1.0.0", "license": licence, "source": "a registry", "manifest_path": "/a/Cargo.toml"});
        let package = Package::of(&package).unwrap();
        let allow = "[licenses]\nallow = [\"Apache-2.0 WITH LLVM-exception\", \"BSD-3-Clause\", \"MIT\"]";
        faults(&[package], allow).unwrap()
    }

    #[test]
    fn a_licence_that_is_not_on_the_list_is_a_fault() {
        let good =
            ["MIT", "GPL-3.0-only OR MIT", "GPL-3.0/MIT", "MIT AND BSD-3-Clause", "Apache-2.0 WITH LLVM-exception"];
        for licence in good {
            assert_eq!(of(Some(licence)), [""; 0], "{licence}");
        }
        for licence in ["GPL-3.0-only", "MIT AND GPL-3.0-only", "Apache-2.0", "GPL-3.0/Apache-2.0"] {
            let fault = format!("a 1.0.0 has a licence that deny.toml does not allow: {licence}");
            assert_eq!(of(Some(licence)), [fault]);
        }
        assert_eq!(of(Some("my own")), ["a 1.0.0 has a licence that cannot be read: my own"]);
        assert_eq!(of(None), ["a 1.0.0 names no licence"]);
    }

    #[test]
    fn a_list_that_cannot_be_read_is_an_error() {
        for text in ["[licenses]", "[licenses]\nallow = [\"no such licence\"]", "[licenses"] {
            assert!(faults(&[], text).is_err(), "{text}");
        }
    }
}

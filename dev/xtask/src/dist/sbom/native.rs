//! Describes the linked code that is no crate: V8 with ICU, SQLite, Rust's standard library, the C library.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::crates::{self, defined};
use crate::metadata::Metadata;
use crate::run::{output, target_folder};
use crate::static_build::TARGET;
use crate::v8::sha256;

/// The crate that compiles SQLite.
const SQLITE_CRATE: &str = "libsqlite3-sys";

/// Components to add to a list of crates.
#[derive(Debug)]
pub(super) struct Native {
    v8: Value,
    icu: Value,
    sqlite: Value,
    everywhere: Vec<Value>,
}

impl Native {
    /// Describes the code that was linked on this machine.
    pub(super) fn find() -> anyhow::Result<Self> {
        let metadata = Metadata::read()?;
        let crate_folder = metadata.folder_of("v8")?;
        let archive = target_folder()?.join(TARGET).join("release/gn_out/obj/librusty_v8.a");
        Ok(Self {
            v8: v8(&read(&crate_folder.join("v8/include/v8-version.h"))?, &sha256(&archive)?)?,
            icu: icu(&read(&crate_folder.join("third_party/icu/source/common/unicode/uvernum.h"))?)?,
            sqlite: sqlite(&read(&metadata.folder_of(SQLITE_CRATE)?.join("sqlite3/sqlite3.h"))?)?,
            everywhere: vec![rust()?, c()?],
        })
    }

    /// Adds the components that every program has, and V8 and SQLite where their crates are listed.
    pub(super) fn add_to(&self, list: &mut Value) {
        let own = list["metadata"]["component"]["bom-ref"].clone();
        let [v8_crate, sqlite_crate] = ["v8", SQLITE_CRATE].map(|name| reference(list, name));
        for component in &self.everywhere {
            depend(list, &own, component);
        }
        if let Some(v8_crate) = v8_crate {
            depend(list, &v8_crate, &self.v8);
            depend(list, &self.v8["bom-ref"], &self.icu);
        }
        if let Some(sqlite_crate) = sqlite_crate {
            depend(list, &sqlite_crate, &self.sqlite);
        }
    }
}

/// Returns the reference of the component with a name.
fn reference(list: &Value, name: &str) -> Option<Value> {
    let mut components = list["components"].as_array()?.iter();
    Some(components.find(|component| component["name"] == name)?["bom-ref"].clone())
}

/// Adds a component, and a dependency of another component on it.
fn depend(list: &mut Value, on: &Value, component: &Value) {
    let reference = &component["bom-ref"];
    if let Some(components) = list["components"].as_array_mut() {
        components.push(component.clone());
    }
    if let Some(dependencies) = list["dependencies"].as_array_mut() {
        match dependencies.iter_mut().find(|dependency| dependency["ref"] == *on) {
            Some(dependency) => match dependency["dependsOn"].as_array_mut() {
                Some(needed) => needed.push(reference.clone()),
                None => dependency["dependsOn"] = json!([reference]),
            },
            None => dependencies.push(json!({"ref": on, "dependsOn": [reference]})),
        }
    }
}

fn v8(header: &str, archive_sum: &str) -> anyhow::Result<Value> {
    let version = crates::v8_version(header)?;
    Ok(json!({
        "type": "library",
        "bom-ref": format!("pkg:generic/v8@{version}"),
        "supplier": {"name": "The V8 project authors"},
        "name": "V8",
        "version": version,
        "description": "The JavaScript engine, as the archive librusty_v8.a that the crate v8 links; the hash is the archive's",
        "hashes": [{"alg": "SHA-256", "content": archive_sum}],
        "licenses": [{"license": {"id": "BSD-3-Clause"}}],
        "cpe": format!("cpe:2.3:a:google:v8:{version}:*:*:*:*:*:*:*"),
        "purl": format!("pkg:generic/v8@{version}"),
    }))
}

fn icu(header: &str) -> anyhow::Result<Value> {
    let version = defined(header, "U_ICU_VERSION")?.trim_matches('"');
    Ok(json!({
        "type": "library",
        "bom-ref": format!("pkg:generic/icu@{version}"),
        "supplier": {"name": "Unicode, Inc."},
        "name": "ICU",
        "version": version,
        "description": "Languages, time zones and scripts, within V8's archive",
        "licenses": [{"license": {"name": "Unicode-3.0"}}],
        "cpe": format!("cpe:2.3:a:unicode:international_components_for_unicode:{version}:*:*:*:*:*:*:*"),
        "purl": format!("pkg:generic/icu@{version}"),
    }))
}

fn sqlite(header: &str) -> anyhow::Result<Value> {
    let version = defined(header, "SQLITE_VERSION")?.trim_matches('"');
    Ok(json!({
        "type": "library",
        "bom-ref": format!("pkg:generic/sqlite@{version}"),
        "supplier": {"name": "The SQLite project"},
        "name": "SQLite",
        "version": version,
        "description": "The database in which a host keeps its journal, compiled from the source in the crate libsqlite3-sys",
        "licenses": [{"license": {"name": "Public domain"}}],
        "cpe": format!("cpe:2.3:a:sqlite:sqlite:{version}:*:*:*:*:*:*:*"),
        "purl": format!("pkg:generic/sqlite@{version}"),
    }))
}

fn rust() -> anyhow::Result<Value> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let text = output(Command::new(rustc).arg("-vV"))?;
    let version = text.lines().find_map(|line| line.strip_prefix("release: "));
    let version = version.context("rustc does not tell its version")?;
    Ok(json!({
        "type": "library",
        "bom-ref": format!("pkg:generic/rust-std@{version}"),
        "name": "rust-std",
        "version": version,
        "description": "Rust's standard library",
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
        "cpe": format!("cpe:2.3:a:rust-lang:rust:{version}:*:*:*:*:*:*:*"),
        "purl": format!("pkg:generic/rust-std@{version}"),
    }))
}

fn c() -> anyhow::Result<Value> {
    let text = output(Command::new("getconf").arg("GNU_LIBC_VERSION"))?;
    let version = text.strip_prefix("glibc ").with_context(|| format!("getconf calls the C library {text:?}"))?;
    Ok(json!({
        "type": "library",
        "bom-ref": format!("pkg:generic/glibc@{version}"),
        "name": "glibc",
        "version": version,
        "description": "The C library of the machine that built it, linked statically",
        "licenses": [{"license": {"id": "LGPL-2.1-or-later"}}],
        "cpe": format!("cpe:2.3:a:gnu:glibc:{version}:*:*:*:*:*:*:*"),
        "purl": format!("pkg:generic/glibc@{version}"),
    }))
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_crates_own_headers() {
        let metadata = Metadata::read().unwrap();
        let folder = metadata.folder_of("v8").unwrap();
        let v8 = v8(&read(&folder.join("v8/include/v8-version.h")).unwrap(), "00").unwrap();
        let icu = icu(&read(&folder.join("third_party/icu/source/common/unicode/uvernum.h")).unwrap()).unwrap();
        let parts = |component: &Value| component["version"].as_str().unwrap().split('.').count();
        let folder = metadata.folder_of(SQLITE_CRATE).unwrap();
        let sqlite = sqlite(&read(&folder.join("sqlite3/sqlite3.h")).unwrap()).unwrap();
        assert_eq!((parts(&v8), parts(&icu), parts(&sqlite)), (4, 2, 3), "{v8} {icu} {sqlite}");
        for component in [&v8, &icu, &sqlite] {
            let version = component["version"].as_str().unwrap();
            assert!(version.split('.').all(|part| part.parse::<u32>().is_ok()), "{version}");
        }
    }

    #[test]
    fn v8_and_sqlite_hang_on_their_crates_and_icu_on_v8() {
        let native = Native {
            v8: json!({"bom-ref": "v8", "name": "V8"}),
            icu: json!({"bom-ref": "icu", "name": "ICU"}),
            sqlite: json!({"bom-ref": "sqlite", "name": "SQLite"}),
            everywhere: vec![json!({"bom-ref": "c", "name": "glibc"})],
        };
        let list = |components: Value| {
            let metadata = json!({"component": {"bom-ref": "own"}});
            let mut list = json!({"metadata": metadata, "components": components, "dependencies": [{"ref": "crate"}]});
            native.add_to(&mut list);
            list
        };
        assert_eq!(
            list(json!([{"bom-ref": "crate", "name": "v8"}, {"bom-ref": "binding", "name": SQLITE_CRATE}]))["dependencies"],
            json!([
                {"ref": "crate", "dependsOn": ["v8"]},
                {"ref": "own", "dependsOn": ["c"]},
                {"ref": "v8", "dependsOn": ["icu"]},
                {"ref": "binding", "dependsOn": ["sqlite"]},
            ])
        );
        assert_eq!(list(json!([]))["components"], json!([{"bom-ref": "c", "name": "glibc"}]));
    }
}

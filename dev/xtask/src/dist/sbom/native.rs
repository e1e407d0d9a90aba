//! Describes the linked code that is no crate: V8 with ICU, Rust's standard library, the C library.

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

/// Components to add to a list of crates.
#[derive(Debug)]
pub(super) struct Native {
    v8: Value,
    icu: Value,
    everywhere: Vec<Value>,
}

impl Native {
    /// Describes the code that was linked on this machine.
    pub(super) fn find() -> anyhow::Result<Self> {
        let crate_folder = Metadata::read()?;
        let crate_folder = crate_folder.folder_of("v8")?;
        let archive = target_folder()?.join(TARGET).join("release/gn_out/obj/librusty_v8.a");
        Ok(Self {
            v8: v8(&read(&crate_folder.join("v8/include/v8-version.h"))?, &sha256(&archive)?)?,
            icu: icu(&read(&crate_folder.join("third_party/icu/source/common/unicode/uvernum.h"))?)?,
            everywhere: vec![rust()?, c()?],
        })
    }

    /// Adds the components that every program has, and V8 where its crate is listed.
    pub(super) fn add_to(&self, list: &mut Value) {
        let own = list["metadata"]["component"]["bom-ref"].clone();
        let binding = list["components"].as_array().into_iter().flatten().find(|component| component["name"] == "v8");
        let binding = binding.map(|component| component["bom-ref"].clone());
        for component in &self.everywhere {
            depend(list, &own, component);
        }
        if let Some(binding) = binding {
            depend(list, &binding, &self.v8);
            depend(list, &self.v8["bom-ref"], &self.icu);
        }
    }
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
        assert_eq!((parts(&v8), parts(&icu)), (4, 2), "{v8} {icu}");
        for component in [&v8, &icu] {
            let version = component["version"].as_str().unwrap();
            assert!(version.split('.').all(|part| part.parse::<u32>().is_ok()), "{version}");
        }
    }

    #[test]
    fn v8_hangs_on_its_crate_and_icu_on_v8() {
        let native = Native {
            v8: json!({"bom-ref": "v8", "name": "V8"}),
            icu: json!({"bom-ref": "icu", "name": "ICU"}),
            everywhere: vec![json!({"bom-ref": "c", "name": "glibc"})],
        };
        let list = |components: Value| {
            let metadata = json!({"component": {"bom-ref": "own"}});
            let mut list = json!({"metadata": metadata, "components": components, "dependencies": [{"ref": "crate"}]});
            native.add_to(&mut list);
            list
        };
        assert_eq!(
            list(json!([{"bom-ref": "crate", "name": "v8"}]))["dependencies"],
            json!([
                {"ref": "crate", "dependsOn": ["v8"]},
                {"ref": "own", "dependsOn": ["c"]},
                {"ref": "v8", "dependsOn": ["icu"]},
            ])
        );
        assert_eq!(list(json!([]))["components"], json!([{"bom-ref": "c", "name": "glibc"}]));
    }
}

//! Lists what each program consists of, as CycloneDX: the crates that `cargo-cyclonedx` finds, without those that are
//! not linked, and with native code added.

mod native;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::source::{Source, copy_to};
use super::{PROGRAMS, remove};
use crate::run::{cargo, check, output, step, target_folder};
use crate::static_build::{Program, TARGET};
use crate::v8::sha256;
use native::Native;

/// Program that lists the crates, and the version whose output this module can read.
const TOOL: &str = "cargo-cyclonedx";
const TOOL_VERSION: &str = "0.5.9";

/// Name and version of a crate.
type Crate = (String, String);

/// Writes `<program>.cdx.json` for each program; `sources` is an empty folder to work in.
pub(super) fn write(release: &Path, sources: &Path, source: &Source) -> anyhow::Result<()> {
    let tool = tool()?;
    step("Listing what the programs are made of");
    // The program writes beside every manifest that it finds, so it works on a copy of the tree.
    copy_to(sources)?;
    let mut list = Command::new(tool);
    list.args(["cyclonedx", "--quiet", "--format", "json", "--spec-version", "1.5", "--describe", "binaries"]);
    list.args(["--no-build-deps", "--target", TARGET, "--manifest-path"]).arg(sources.join("Cargo.toml"));
    check(list.env("SOURCE_DATE_EPOCH", source.seconds.to_string()))?;
    let native = Native::find()?;
    for program in PROGRAMS {
        let written = sources.join(program.folder).join(format!("{}_bin.cdx.json", program.name));
        let text = fs::read_to_string(&written).with_context(|| format!("{TOOL} wrote no {}", written.display()))?;
        let mut list: Value = serde_json::from_str(&text)?;
        prune(&mut list, &linked(program)?)?;
        native.add_to(&mut list);
        describe(&mut list, &sha256(&release.join(program.name))?, source);
        let text = without_folder(&format!("{list:#}\n"), &list, program)?;
        fs::write(release.join(format!("{}.cdx.json", program.name)), text)?;
    }
    remove(sources)
}

/// Returns the path of the program; installs it if necessary.
fn tool() -> anyhow::Result<PathBuf> {
    let root = target_folder()?.join("tools");
    let program = root.join("bin").join(TOOL);
    let version = output(Command::new(&program).args(["cyclonedx", "--version"]));
    if version.is_ok_and(|version| version.split(' ').next_back() == Some(TOOL_VERSION)) {
        return Ok(program);
    }
    step(&format!("Installing {TOOL} {TOOL_VERSION} in {} (once, some minutes)", root.display()));
    let build = root.join("build");
    let mut install = cargo();
    install.args(["install", TOOL, "--version", TOOL_VERSION, "--locked", "--force", "--root"]).arg(&root);
    check(install.arg("--target-dir").arg(&build))?;
    remove(&build)?;
    Ok(program)
}

/// Lists the crates whose code is in a program. `cargo-cyclonedx` asks about the whole workspace, where the features
/// that other members need bring in more.
fn linked(program: Program) -> anyhow::Result<BTreeSet<Crate>> {
    let mut tree = cargo();
    tree.args(["tree", "--locked", "--package", program.name, "--target", TARGET, "--no-dedupe"]);
    tree.args(["--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"]);
    let crates = output(&mut tree)?;
    let crates = crates.lines().map(|line| {
        let mut words = line.split(' ');
        let name = words.next().filter(|name| !name.is_empty());
        let version = words.next().and_then(|word| word.strip_prefix('v'));
        let pair = name.zip(version).with_context(|| format!("cargo tree says {line:?}"))?;
        anyhow::Ok((pair.0.to_owned(), pair.1.to_owned()))
    });
    let mut crates: BTreeSet<_> = crates.collect::<Result<_, _>>()?;
    // Leave out the program itself, which the list describes.
    crates.retain(|(name, _)| name != program.name);
    Ok(crates)
}

/// Removes all crates but these from the list.
fn prune(list: &mut Value, linked: &BTreeSet<Crate>) -> anyhow::Result<()> {
    let name = |component: &Value| {
        let text = |field: &str| component[field].as_str().unwrap_or_default().to_owned();
        (text("name"), text("version"))
    };
    let components = list["components"].as_array_mut().context("the list has no components")?;
    components.retain(|component| linked.contains(&name(component)));
    let listed: BTreeSet<_> = components.iter().map(name).collect();
    if let Some((name, version)) = linked.difference(&listed).next() {
        bail!("{TOOL} does not list {name} {version}, which is linked");
    }
    let mut kept: BTreeSet<_> = components.iter().map(|component| component["bom-ref"].clone()).map(key).collect();
    kept.insert(key(list["metadata"]["component"]["bom-ref"].clone()));
    let dependencies = list["dependencies"].as_array_mut().context("the list has no dependencies")?;
    dependencies.retain(|dependency| kept.contains(&key(dependency["ref"].clone())));
    for dependency in dependencies {
        // An index would insert `null` for a missing member.
        if let Some(on) = dependency.get_mut("dependsOn").and_then(Value::as_array_mut) {
            on.retain(|on| kept.contains(&key(on.clone())));
        }
    }
    Ok(())
}

fn key(reference: Value) -> String {
    reference.as_str().unwrap_or_default().to_owned()
}

/// Adds which file of which commit the list describes.
fn describe(list: &mut Value, sum: &str, source: &Source) {
    let metadata = &mut list["metadata"];
    metadata["component"]["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
    metadata["timestamp"] = json!(source.time);
    if let Some(properties) = metadata["properties"].as_array_mut() {
        properties.push(json!({"name": "sandbox-relay:commit", "value": source.commit}));
        properties.push(json!({"name": "sandbox-relay:dirty", "value": source.is_dirty.to_string()}));
    }
}

/// Removes the working folder, by which the list names the packages of the workspace.
fn without_folder(text: &str, list: &Value, program: Program) -> anyhow::Result<String> {
    let own = key(list["metadata"]["component"]["bom-ref"].clone());
    let folder = own.split_once(&format!("/{}#", program.folder)).map(|(folder, _)| folder);
    let folder = folder.filter(|folder| folder.starts_with("path+file://"));
    let folder = folder.with_context(|| format!("{TOOL} calls {} {own:?}", program.name))?;
    Ok(text.replace(folder, "path+file://"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn list() -> Value {
        json!({
            "metadata": {
                "component": {"bom-ref": "path+file:///tmp/x/host-client/relay-host#0.1.0", "name": "relay-host"},
                "properties": [],
            },
            "components": [
                {"bom-ref": "path+file:///tmp/x/proto#relay-proto@0.1.0", "name": "relay-proto", "version": "0.1.0"},
                {"bom-ref": "registry#a@1.0.0", "name": "a", "version": "1.0.0"},
                {"bom-ref": "registry#a@2.0.0", "name": "a", "version": "2.0.0"},
            ],
            "dependencies": [
                {"ref": "path+file:///tmp/x/host-client/relay-host#0.1.0", "dependsOn": ["registry#a@1.0.0", "registry#a@2.0.0"]},
                {"ref": "registry#a@1.0.0"},
                {"ref": "registry#a@2.0.0"},
            ],
        })
    }

    fn crates(pairs: &[(&str, &str)]) -> BTreeSet<Crate> {
        pairs.iter().map(|(name, version)| ((*name).to_owned(), (*version).to_owned())).collect()
    }

    #[test]
    fn what_is_not_linked_is_not_listed() {
        let mut list = list();
        prune(&mut list, &crates(&[("relay-proto", "0.1.0"), ("a", "1.0.0")])).unwrap();
        let names: Vec<_> = list["components"].as_array().unwrap().iter().map(|one| &one["bom-ref"]).collect();
        assert_eq!(names, ["path+file:///tmp/x/proto#relay-proto@0.1.0", "registry#a@1.0.0"]);
        assert_eq!(
            list["dependencies"],
            json!([
                {"ref": "path+file:///tmp/x/host-client/relay-host#0.1.0", "dependsOn": ["registry#a@1.0.0"]},
                {"ref": "registry#a@1.0.0"},
            ])
        );
    }

    #[test]
    fn a_linked_crate_that_is_not_listed_is_an_error() {
        let error = prune(&mut list(), &crates(&[("b", "1.0.0")])).unwrap_err();
        assert_eq!(error.to_string(), "cargo-cyclonedx does not list b 1.0.0, which is linked");
    }

    #[test]
    fn the_folder_is_not_told() {
        let program = crate::static_build::HOST;
        let text = without_folder(&list().to_string(), &list(), program).unwrap();
        assert!(text.contains(r#""bom-ref":"path+file:///host-client/relay-host#0.1.0""#), "{text}");
        assert!(text.contains(r#""bom-ref":"path+file:///proto#relay-proto@0.1.0""#), "{text}");
        assert!(!text.contains("/tmp"), "{text}");
    }

    #[test]
    fn what_other_members_need_is_not_linked_into_the_relay() {
        let linked = linked(crate::static_build::RELAY).unwrap();
        let names: BTreeSet<_> = linked.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.is_superset(&["v8", "aws-lc-sys", "relay-proto", "tokio"].into()), "{names:?}");
        for absent in ["sandbox-relay", "host-client", "ring", "serde_derive", "prost-build", "proptest"] {
            assert!(!names.contains(absent), "{absent}");
        }
    }
}

//! Compares the sources of two versions of the crate: V8's own version, ICU, the bindings, V8's flags.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context as _;

use super::report::{Difference, Named, Report};
use super::{Versions, binding};
use crate::crates;

/// Folder of the sources that set V8's flags.
const RELAY: &str = "sandbox-relay/src";
const BINDING: &str = "gen/src_binding_release_x86_64-unknown-linux-gnu.rs";

/// Stages of a feature of JavaScript: the name in V8's macros, and the words for people.
const STAGES: [(&str, &str); 3] = [("INPROGRESS", "in progress"), ("STAGED", "staged"), ("SHIPPING", "ships")];

/// Reports the differences between the sources.
pub(super) fn compare(versions: &Versions, report: &mut Report) -> anyhow::Result<()> {
    let (old, new) = (crates::source("v8", &versions.old)?, crates::source("v8", &versions.new)?);
    let both = |file: &str| anyhow::Ok((read(&old.join(file))?, read(&new.join(file))?));

    let (old_header, new_header) = both("v8/include/v8-version.h")?;
    let (old_icu, new_icu) = both("third_party/icu/source/common/unicode/uvernum.h")?;
    let (old_icu, new_icu) = (icu_version(&old_icu)?, icu_version(&new_icu)?);
    report.add(
        "Versions",
        &[
            format!("crate v8: {} -> {}", versions.old, versions.new),
            format!("V8: {} -> {}", crates::v8_version(&old_header)?, crates::v8_version(&new_header)?),
            format!("ICU: {old_icu} -> {new_icu}; its data: {}", icu_data(&new_icu)),
        ],
    )?;

    let (old_binding, new_binding) = both(BINDING)?;
    let generated = Difference::between(&binding::items(&old_binding), &binding::items(&new_binding));
    let by_hand = Difference::between(&declared(&old.join("src"))?, &declared(&new.join("src"))?);
    report.add(
        "Binding",
        &[generated.lines("generated items"), by_hand.lines("functions that the crate declares")].concat(),
    )?;

    let (old_flags, new_flags) = both("v8/src/flags/flag-definitions.h")?;
    let ours: Vec<_> = flags_set(&sources(Path::new(RELAY))?.concat())
        .iter()
        .map(|flag| flag_line(flag, &old_flags, &new_flags))
        .collect();
    let moved = feature_lines(&features(&old_flags), &features(&new_flags));
    report.add("V8's flags", &[ours, moved].concat())
}

fn icu_version(header: &str) -> anyhow::Result<String> {
    Ok(crates::defined(header, "U_ICU_VERSION")?.trim_matches('"').to_owned())
}

/// Tells whether the registry has the crate with ICU's data, which a build from source needs.
fn icu_data(icu: &str) -> String {
    let major = icu.split('.').next().unwrap_or_default();
    let requirement = format!("0.{major}");
    match crates::matching("deno_core_icudata", &requirement) {
        Ok(version) => format!("deno_core_icudata {version}"),
        Err(error) => {
            let why = format!("{error:#}");
            let why = why.lines().next().unwrap_or_default();
            format!("no deno_core_icudata {requirement}, so that V8 cannot be built from source ({why})")
        }
    }
}

/// Lists the foreign functions that the files of a folder declare.
fn declared(folder: &Path) -> anyhow::Result<Named> {
    Ok(sources(folder)?.iter().flat_map(|source| binding::foreign_functions(source)).collect())
}

/// Reads all Rust files in a folder and below it.
fn sources(folder: &Path) -> anyhow::Result<Vec<String>> {
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            texts.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            texts.push(read(&path)?);
        }
    }
    Ok(texts)
}

/// Lists the flags that a source sets, by V8's names: `--no-a-b` is `a_b`.
fn flags_set(source: &str) -> Vec<String> {
    let calls = source.split("set_flags_from_string(\"").skip(1).filter_map(|rest| rest.split('"').next());
    let flags = calls.flat_map(str::split_ascii_whitespace).filter_map(|flag| flag.strip_prefix("--"));
    flags.map(|flag| flag.strip_prefix("no-").unwrap_or(flag).replace('-', "_")).collect()
}

fn flag_line(flag: &str, old: &str, new: &str) -> String {
    match (definition(flag, old), definition(flag, new)) {
        (_, None) => format!("{flag}, which we set: GONE"),
        (old, Some(new)) if old.as_ref() != Some(&new) => format!("{flag}, which we set: changed to {new}"),
        _ => format!("{flag}, which we set: the same"),
    }
}

/// Finds the definition of a flag: the name of the macro and its arguments up to the description.
fn definition(flag: &str, definitions: &str) -> Option<String> {
    let at = definitions.match_indices(&format!("({flag},")).map(|(at, _)| at).next()?;
    let start = definitions[..at].rfind(|before: char| before.is_whitespace()).map_or(0, |space| space + 1);
    let end = at + definitions[at..].find(['"', ')'])?;
    let text: Vec<_> = definitions[start..end].split(|c: char| c.is_whitespace() || c == '\\').collect();
    Some(
        text.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ").trim_end_matches(',').to_owned(),
    )
}

/// Lists the features of JavaScript that have reached another stage. Those that ship are there for scripts.
fn feature_lines(old: &Named, new: &Named) -> Vec<String> {
    let names: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let stage = |features: &Named, name: &str| features.get(name).map_or("no flag", String::as_str).to_owned();
    let moves = names.into_iter().map(|name| (name, stage(old, name), stage(new, name)));
    let moved: Vec<_> = moves.filter(|(_, before, after)| before != after).collect();
    let mut lines = vec![format!("flags of JavaScript features: {} moved", moved.len())];
    lines.extend(moved.iter().map(|(name, before, after)| format!("  {name}: {before} -> {after}")));
    lines
}

/// Lists the flags of JavaScript features with the stage of each, which is in the name of the macro that lists them.
fn features(definitions: &str) -> Named {
    let mut features = Named::new();
    let mut stage = None;
    for line in definitions.lines() {
        if let Some(rest) = line.strip_prefix("#define ") {
            let of_features = rest.starts_with("HARMONY_") || rest.starts_with("JAVASCRIPT_");
            stage = STAGES.iter().find(|(mark, _)| of_features && rest.contains(mark)).map(|(_, stage)| *stage);
        } else if let (Some(stage), Some((_, rest))) = (stage, line.split_once(" V(")) {
            let name = rest.split([',', ')']).next().unwrap_or_default();
            features.insert(name.to_owned(), stage.to_owned());
        }
        if !line.ends_with('\\') {
            stage = None;
        }
    }
    features
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const FLAGS: &str = r#"
#define HARMONY_INPROGRESS_BASE(V)              \
  V(harmony_shadow_realm, "harmony ShadowRealm") \
  V(js_split,                                    \
    "split")

#define HARMONY_SHIPPING(V) HARMONY_SHIPPING_BASE(V)
#define OTHER(V) \
  V(no_feature)
DEFINE_BOOL(single_threaded, false,
            "disable the use of background tasks")
"#;

    #[test]
    fn versions_stand_in_headers() {
        let header = "#define V8_MAJOR_VERSION 15\n#define V8_MINOR_VERSION 2\n\
            #define V8_BUILD_NUMBER 124\n#define V8_PATCH_LEVEL 1\n";
        assert_eq!(crates::v8_version(header).unwrap(), "15.2.124.1");
        assert!(crates::v8_version("").unwrap_err().to_string().contains("V8_MAJOR_VERSION"));
        assert_eq!(
            icu_version("#define U_ICU_VERSION_SHORT \"78\"\n#define U_ICU_VERSION \"78.2\"\n").unwrap(),
            "78.2"
        );
    }

    #[test]
    fn the_flags_that_we_set_are_looked_up_as_v8_names_them() {
        let source = "x(); v8::V8::set_flags_from_string(\"--single-threaded --no-harmony-shadow-realm\"); y();";
        assert_eq!(flags_set(source), ["single_threaded", "harmony_shadow_realm"]);
        assert_eq!(flag_line("single_threaded", FLAGS, FLAGS), "single_threaded, which we set: the same");
        assert_eq!(flag_line("single_threaded", FLAGS, "DEFINE_BOOL(other, 1)"), "single_threaded, which we set: GONE");
        let changed = FLAGS.replace("single_threaded, false", "single_threaded, true");
        assert_eq!(
            flag_line("single_threaded", FLAGS, &changed),
            "single_threaded, which we set: changed to DEFINE_BOOL(single_threaded, true"
        );
    }

    #[test]
    fn features_are_told_by_how_far_they_are() {
        let old = features(FLAGS);
        assert_eq!(old.keys().collect::<Vec<_>>(), ["harmony_shadow_realm", "js_split"]);
        assert_eq!(feature_lines(&old, &old), ["flags of JavaScript features: 0 moved"]);
        let new = features(
            &FLAGS
                .replace("HARMONY_INPROGRESS_BASE", "JAVASCRIPT_SHIPPING_FEATURES_BASE")
                .replace("js_split", "js_join"),
        );
        assert_eq!(
            feature_lines(&old, &new)[1..],
            [
                "  harmony_shadow_realm: in progress -> ships",
                "  js_join: no flag -> ships",
                "  js_split: in progress -> no flag"
            ]
        );
    }

    #[test]
    fn the_pinned_version_has_all_that_is_looked_for() {
        let lock = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock")).unwrap();
        let folder = crates::source("v8", &crates::locked_version(&lock, "v8").unwrap()).unwrap();
        let flags = read(&folder.join("v8/src/flags/flag-definitions.h")).unwrap();
        let relay = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(RELAY);
        let ours = flags_set(&sources(&relay).unwrap().concat());
        assert!(ours.contains(&"jitless".to_owned()), "{ours:?}");
        assert!(ours.iter().all(|flag| definition(flag, &flags).is_some()), "{ours:?}");
        assert!(features(&flags).len() > 10);
        assert!(declared(&folder.join("src")).unwrap().len() > 500);
        assert!(binding::items(&read(&folder.join(BINDING)).unwrap()).len() > 100);
    }
}

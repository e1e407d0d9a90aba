//! Writes the image as a tar file for `docker load`, without the times and storage format of the engine that built it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::{Map, Value, json};
use tar::{Builder, EntryType, Header};

use super::VERSION;
use super::source::Source;
use crate::docker::{Engine, build_image_with};
use crate::run::step;
use crate::static_build::RELAY;
use crate::v8::sha256;

/// Members of an image's configuration that decide how a container runs. The others describe the engine and differ from
/// one engine to the next.
const KEPT: [&str; 10] = [
    "Cmd",
    "Entrypoint",
    "Env",
    "ExposedPorts",
    "Healthcheck",
    "Labels",
    "StopSignal",
    "User",
    "Volumes",
    "WorkingDir",
];

/// Builds the image and writes `sandbox-relay-image.tar` beside the relay that it holds.
pub(super) fn write(engine: &Engine, release: &Path, layer: &Path, source: &Source) -> anyhow::Result<()> {
    let image = engine.inspect(build_image_with(engine)?)?;
    step("Writing the image as a file");
    let image: Value = serde_json::from_str(&image).context("the engine's answer about the image cannot be read")?;
    // The layer is written here as the Dockerfile makes it. If the Dockerfile made a second one, it would be missing.
    let layers = image["RootFS"]["Layers"].as_array().map_or(0, Vec::len);
    if layers != 1 {
        bail!("the image has {layers} layers, and dev/xtask/src/dist/image.rs knows of one, with the relay in it");
    }
    write_layer(&release.join(RELAY.name), layer, source)?;
    let config = config(&image, &sha256(layer)?, source);
    write_archive(&config, layer, &release.join("sandbox-relay-image.tar"), source)
}

/// Writes the only layer: the relay, which all may execute and only root may change.
fn write_layer(relay: &Path, layer: &Path, source: &Source) -> anyhow::Result<()> {
    let mut archive = Builder::new(File::create(layer)?);
    let relay = File::open(relay)?;
    append(&mut archive, RELAY.name, 0o755, relay.metadata()?.len(), relay, source)?;
    archive.into_inner()?;
    Ok(())
}

fn config(image: &Value, layer_sum: &str, source: &Source) -> Value {
    let kept = KEPT.into_iter().filter(|name| !image["Config"][name].is_null());
    let config: Map<_, _> = kept.map(|name| (name.to_owned(), image["Config"][name].clone())).collect();
    json!({
        "architecture": image["Architecture"],
        "os": image["Os"],
        "created": source.time,
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer_sum}")]},
        "history": [{"created": source.time, "created_by": format!("cargo xtask dist, commit {}", source.commit)}],
    })
}

/// Writes the archive in the form of `docker save`: the layer, the image's configuration, and a manifest of both.
fn write_archive(config: &Value, layer: &Path, archive: &Path, source: &Source) -> anyhow::Result<()> {
    let list = json!([{
        "Config": "config.json",
        "RepoTags": [format!("sandbox-relay:{VERSION}")],
        "Layers": ["layer.tar"],
    }]);
    let mut archive = Builder::new(File::create(archive)?);
    for (name, document) in [("manifest.json", list), ("config.json", config.clone())] {
        let text = document.to_string();
        append(&mut archive, name, 0o644, text.len() as u64, text.as_bytes(), source)?;
    }
    let layer = File::open(layer)?;
    append(&mut archive, "layer.tar", 0o644, layer.metadata()?.len(), layer, source)?;
    archive.into_inner()?;
    Ok(())
}

fn append(
    archive: &mut Builder<File>,
    name: &str,
    mode: u32,
    bytes: u64,
    content: impl Read,
    source: &Source,
) -> anyhow::Result<()> {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(source.seconds);
    header.set_size(bytes);
    archive.append_data(&mut header, name, content)?;
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_archive_holds_the_layer_and_what_a_container_is_started_with_and_nothing_of_this_machine() {
        let folder = tempfile::tempdir().unwrap();
        let (relay, layer, archive) =
            (folder.path().join("relay"), folder.path().join("layer"), folder.path().join("archive"));
        fs::write(&relay, "a program").unwrap();
        let source = Source {
            commit: "c0ffee".into(),
            seconds: 1_700_000_000,
            time: "2023-11-14T22:13:20Z".into(),
            is_dirty: false,
        };
        let image = json!({
            "Id": "sha256:0", "Created": "2026-01-01T00:00:00Z", "Architecture": "amd64", "Os": "linux",
            "Config": {"User": "65534:65534", "Hostname": "abc", "OnBuild": null, "Volumes": null, "Cmd": ["serve"]},
        });

        write_layer(&relay, &layer, &source).unwrap();
        let config = config(&image, &sha256(&layer).unwrap(), &source);
        write_archive(&config, &layer, &archive, &source).unwrap();

        let entries = |archive: &Path| {
            let mut archive = tar::Archive::new(File::open(archive).unwrap());
            let entries = archive.entries().unwrap().map(|entry| {
                let mut entry = entry.unwrap();
                let mut content = Vec::new();
                entry.read_to_end(&mut content).unwrap();
                let header = entry.header();
                let owner = (header.uid().unwrap(), header.gid().unwrap());
                assert_eq!((owner, header.mtime().unwrap()), ((0, 0), 1_700_000_000));
                (entry.path().unwrap().to_str().unwrap().to_owned(), header.mode().unwrap(), content)
            });
            entries.collect::<Vec<_>>()
        };
        assert_eq!(entries(&layer), [("sandbox-relay".to_owned(), 0o755, b"a program".to_vec())]);
        let parts = entries(&archive);
        let names: Vec<_> = parts.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["manifest.json", "config.json", "layer.tar"]);
        assert_eq!(parts[2].2, fs::read(&layer).unwrap());
        let written: Value = serde_json::from_slice(&parts[1].2).unwrap();
        assert_eq!(
            written,
            json!({
                "architecture": "amd64", "os": "linux", "created": "2023-11-14T22:13:20Z",
                "config": {"User": "65534:65534", "Cmd": ["serve"]},
                "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", sha256(&layer).unwrap())]},
                "history": [{"created": "2023-11-14T22:13:20Z", "created_by": "cargo xtask dist, commit c0ffee"}],
            })
        );
    }
}

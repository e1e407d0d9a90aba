//! Tests the order of the places, each present, absent and broken, with packed files in the place of archives and a
//! server on loopback.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::{Cell, RefCell};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Places with packed files, which stand for archives: the tests look at which of them is taken. Whether the real one
/// links and runs is seen by the first build on a machine.
struct Places {
    folder: tempfile::TempDir,
    version: String,
    named: Option<Named>,
    has_mirror: bool,
    upstream: String,
    /// Content of an archive that does not link.
    refused: Option<String>,
    /// `true`: the check of an archive cannot be made.
    has_no_room: bool,
    linked: RefCell<Vec<String>>,
    built: Cell<usize>,
    can_build: bool,
}

impl Places {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            version: super::super::pinned_version(&std::fs::read_to_string(root().join("Cargo.toml")).unwrap())
                .unwrap(),
            named: None,
            has_mirror: false,
            // No server listens at this port.
            upstream: "http://127.0.0.1:9".to_owned(),
            refused: None,
            has_no_room: false,
            linked: RefCell::default(),
            built: Cell::new(0),
            can_build: true,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes an archive with this content and the bindings of this version into a folder.
    fn put(&self, folder: &str, content: &str) -> PathBuf {
        let folder = self.path(folder);
        std::fs::create_dir_all(&folder).unwrap();
        write_archive(&folder, content, &self.version);
        folder
    }

    fn find(&self) -> anyhow::Result<(Place, String)> {
        let mirror = self.path("mirror");
        let cache = self.path("cache");
        let found = Lookup {
            version: &self.version,
            named: self.named.as_ref(),
            mirror: self.has_mirror.then_some(mirror.as_path()),
            cache: &cache,
            upstream: &self.upstream,
            link: &|files| {
                let content = unpacked(&files.archive);
                self.linked.borrow_mut().push(content.clone());
                if self.has_no_room {
                    bail!("No space left on device");
                }
                let is_refused = self.refused.as_ref() == Some(&content);
                Ok(if is_refused { Err("no program can be linked with it".to_owned()) } else { Ok(()) })
            },
            build: &|version, _, into| {
                self.built.set(self.built.get() + 1);
                if !self.can_build {
                    bail!("step 4 of 5 (compile) failed");
                }
                write_archive(into, "built", version);
                Ok(())
            },
        }
        .find()?;
        Ok((found.place, unpacked(&found.files.archive)))
    }

    fn taken(&self) -> (Place, String) {
        self.find().unwrap()
    }

    fn error(&self) -> String {
        format!("{:#}", self.find().unwrap_err())
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn write_archive(folder: &Path, content: &str, version: &str) {
    std::fs::write(folder.join(PACKED), packed(content)).unwrap();
    let own = crate::crates::source("v8", version).unwrap().join("gen").join(BINDING);
    std::fs::copy(own, folder.join(BINDING)).unwrap();
}

fn packed(content: &str) -> Vec<u8> {
    let mut gzip = std::process::Command::new("gzip");
    let mut gzip = gzip.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    gzip.stdin.take().unwrap().write_all(content.as_bytes()).unwrap();
    gzip.wait_with_output().unwrap().stdout
}

fn unpacked(archive: &Path) -> String {
    run::output(std::process::Command::new("gzip").args(["--decompress", "--stdout"]).arg(archive)).unwrap()
}

/// Serves files, also in parts. Returns the address of the server and the number of its requests.
fn serve(files: Vec<(String, Vec<u8>)>) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&requests);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            seen.fetch_add(1, Ordering::SeqCst);
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            let asked = lines.next().unwrap_or_default();
            let from = lines
                .take_while(|line| !line.is_empty())
                .find_map(|line| line.strip_prefix("Range: bytes=")?.strip_suffix('-')?.parse::<usize>().ok());
            let path = asked.split(' ').nth(1).unwrap_or_default().to_owned();
            let Some((_, body)) = files.iter().find(|(name, _)| *name == path) else {
                stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
                continue;
            };
            let (head, part) = match from {
                Some(from) if from >= body.len() => ("416 Range Not Satisfiable\r\n".to_owned(), &body[..0]),
                Some(from) => {
                    let range = format!("Content-Range: bytes {from}-{}/{}\r\n", body.len() - 1, body.len());
                    (format!("206 Partial Content\r\n{range}"), &body[from..])
                }
                None => ("200 OK\r\n".to_owned(), &body[..]),
            };
            let head = format!("HTTP/1.1 {head}Content-Length: {}\r\nConnection: close\r\n\r\n", part.len());
            stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(part)).unwrap();
        }
    });
    (address, requests)
}

fn binding_of(version: &str) -> Vec<u8> {
    std::fs::read(crate::crates::source("v8", version).unwrap().join("gen").join(BINDING)).unwrap()
}

#[test]
fn the_places_are_asked_in_their_order() {
    let mut places = Places::new();
    // From the last place to the first: each one that has an archive goes before those that had one already.
    assert_eq!(places.taken(), (Place::Source, "built".to_owned()));
    std::fs::remove_dir_all(places.path("cache")).unwrap();
    let tag = format!("/v{}", places.version);
    let files = vec![
        (format!("{tag}/{PACKED}"), packed("of upstream")),
        (format!("{tag}/{BINDING}"), binding_of(&places.version)),
    ];
    let (upstream, requests) = serve(files);
    places.upstream = upstream;
    assert_eq!(places.taken(), (Place::Upstream, "of upstream".to_owned()));
    assert_eq!(requests.load(Ordering::SeqCst), 2, "the archive and the bindings");
    assert_eq!(places.taken(), (Place::Cache, "of upstream".to_owned()), "what came from upstream stays");
    assert_eq!(requests.load(Ordering::SeqCst), 2);
    places.has_mirror = true;
    places.put("mirror", "of the mirror");
    assert_eq!(places.taken(), (Place::Mirror, "of the mirror".to_owned()));
    let own = places.put("own", "of the user");
    places.named = Some(Named::Archive(own.join(PACKED).display().to_string()));
    assert_eq!(places.taken(), (Place::Named, "of the user".to_owned()));
    places.named = Some(Named::Mirror(own.display().to_string()));
    assert_eq!(places.taken(), (Place::Named, "of the user".to_owned()));
    assert_eq!(places.built.get(), 1, "it was built once, when nothing else was there");
}

#[test]
fn what_was_built_is_found_again_and_checked_once() {
    let places = Places::new();
    assert_eq!(places.taken(), (Place::Source, "built".to_owned()));
    assert_eq!(places.taken(), (Place::Cache, "built".to_owned()));
    assert_eq!((places.built.get(), places.linked.borrow().len()), (1, 1));
    let sums = std::fs::read_to_string(places.path("cache").join(&places.version).join(SUMS)).unwrap();
    assert!(sums.contains(PACKED) && sums.contains(BINDING), "{sums}");
}

#[test]
fn another_archive_of_the_same_name_is_checked_anew() {
    let mut places = Places::new();
    places.has_mirror = true;
    places.put("mirror", "first");
    places.taken();
    places.put("mirror", "second");
    assert_eq!(places.taken(), (Place::Mirror, "second".to_owned()));
    assert_eq!(*places.linked.borrow(), ["first", "second"]);
}

#[test]
fn a_mirror_that_is_no_good_is_passed_over() {
    let mut places = Places::new();
    places.has_mirror = true;
    places.put("mirror", "x".repeat(50_000).as_str());
    let archive = places.path("mirror").join(PACKED);
    let whole = std::fs::read(&archive).unwrap();
    // Half an archive, an empty file, and a page of HTML.
    for bytes in [&whole[..whole.len() / 2], b"", b"<html>Please log in</html>"] {
        std::fs::write(&archive, bytes).unwrap();
        let (place, _) = places.taken();
        assert!(matches!(place, Place::Source | Place::Cache), "{place:?}");
        assert!(archive.exists(), "what is not ours is not removed");
    }
    std::fs::write(&archive, &whole).unwrap();
    std::fs::write(places.path("mirror").join(BINDING), "// of another version").unwrap();
    assert_eq!(places.taken().0, Place::Cache);
    assert_eq!(*places.linked.borrow(), ["built"], "none of them was linked");
}

#[test]
fn a_mirror_whose_archive_does_not_link_is_passed_over() {
    let mut places = Places::new();
    places.has_mirror = true;
    places.put("mirror", "of another version");
    places.refused = Some("of another version".to_owned());
    assert_eq!(places.taken(), (Place::Source, "built".to_owned()));
    assert_eq!(places.taken(), (Place::Cache, "built".to_owned()));
    assert_eq!(*places.linked.borrow(), ["of another version", "built"], "each was tried once");
}

#[test]
fn what_cannot_be_told_is_not_held_against_an_archive() {
    let mut places = Places::new();
    places.has_no_room = true;
    assert_eq!(
        places.error(),
        format!(
            "it cannot be told whether {} is good; this is tried again next time: No space left on device",
            shown(&places.path("cache").join(&places.version).join(PACKED))
        )
    );
    places.has_no_room = false;
    assert_eq!(places.taken(), (Place::Cache, "built".to_owned()));
    assert_eq!(places.built.get(), 1, "what was built is not built again");
}

#[test]
fn other_bindings_beside_an_archive_that_was_good_are_seen() {
    let mut places = Places::new();
    places.has_mirror = true;
    places.put("mirror", "of the mirror");
    assert_eq!(places.taken().0, Place::Mirror);
    std::fs::write(places.path("mirror").join(BINDING), "// of another version").unwrap();
    assert_eq!(places.taken().0, Place::Source);
}

#[test]
fn a_mirror_by_version_goes_before_a_flat_one() {
    let mut places = Places::new();
    places.has_mirror = true;
    places.put("mirror", "flat");
    places.put(&format!("mirror/v{}", places.version), "by version");
    assert_eq!(places.taken(), (Place::Mirror, "by version".to_owned()));
}

#[test]
fn what_the_user_named_is_taken_or_nothing() {
    let mut places = Places::new();
    let own = places.put("own", "of the user");
    let name = |path: &Path| path.display().to_string();
    places.refused = Some("of the user".to_owned());
    places.named = Some(Named::Archive(name(&own.join(PACKED))));
    let expected = "the V8 that you named cannot be used; correct the variable, or unset it: ";
    assert_eq!(places.error(), format!("{expected}no program can be linked with it"));
    places.named = Some(Named::Archive("/not/there.a.gz".to_owned()));
    assert_eq!(places.error(), format!("{expected}/not/there.a.gz is not there"));
    places.named = Some(Named::Mirror("http://127.0.0.1:9".to_owned()));
    assert!(places.error().starts_with(&format!("{expected}http://127.0.0.1:9/v{}/{PACKED}: ", places.version)));
    std::fs::write(own.join(PACKED), b"\x1f\x8bhalf").unwrap();
    places.named = Some(Named::Mirror(name(&own)));
    assert!(places.error().contains("is damaged, or only half there: "), "{}", places.error());
    assert_eq!(places.built.get(), 0);
}

#[test]
fn an_archive_goes_with_the_bindings_of_the_crate() {
    let mut places = Places::new();
    let own = places.put("own", "of the user");
    std::fs::remove_file(own.join(BINDING)).unwrap();
    places.named = Some(Named::Archive(own.join(PACKED).display().to_string()));
    assert_eq!(places.taken(), (Place::Named, "of the user".to_owned()));
}

#[test]
fn mirrors_of_the_user_are_asked_as_the_crate_asks_them() {
    let mut places = Places::new();
    let version = places.version.clone();
    let files = vec![
        (format!("/mirror/v{version}/{PACKED}"), packed("by version")),
        (format!("/any/{version}/x86_64-unknown-linux-gnu/release/{PACKED}"), packed("by template")),
        ("/direct/some.a.gz".to_owned(), packed("direct")),
    ];
    let (address, requests) = serve(files);
    for (named, content) in [
        (Named::Mirror(format!("{address}/mirror")), "by version"),
        (
            Named::Mirror(format!("{address}/any/{{version}}/{{target}}/{{profile}}{{features}}/{{file}}")),
            "by template",
        ),
        (Named::Archive(format!("{address}/direct/some.a.gz")), "direct"),
    ] {
        places.named = Some(named);
        assert_eq!(places.taken(), (Place::Named, content.to_owned()));
        let before = requests.load(Ordering::SeqCst);
        assert_eq!(places.taken(), (Place::Named, content.to_owned()));
        assert_eq!(requests.load(Ordering::SeqCst), before, "it is asked once");
    }
}

#[test]
fn an_interrupted_download_goes_on() {
    let mut places = Places::new();
    let content: String = (0..500).map(|number| format!("{number}.")).collect();
    let whole = packed(&content);
    let tag = format!("/v{}", places.version);
    let (upstream, _) = serve(vec![(format!("{tag}/{PACKED}"), whole.clone())]);
    places.upstream = upstream;
    let part = places.path("cache").join(format!("{}.part", places.version));
    for rest in [whole[..whole.len() / 3].to_vec(), whole.clone(), b"of something else, and longer".repeat(200)] {
        std::fs::create_dir_all(&part).unwrap();
        std::fs::write(part.join(format!("{PACKED}.part")), rest).unwrap();
        assert_eq!(places.taken(), (Place::Upstream, content.clone()));
        std::fs::remove_dir_all(places.path("cache").join(&places.version)).unwrap();
    }
}

#[test]
fn upstream_that_gives_something_else_is_passed_over() {
    let mut places = Places::new();
    let tag = format!("/v{}", places.version);
    let (upstream, _) = serve(vec![(format!("{tag}/{PACKED}"), b"<html>Blocked by policy</html>".to_vec())]);
    places.upstream = upstream;
    assert_eq!(places.taken(), (Place::Source, "built".to_owned()));
}

#[test]
fn a_damaged_cache_is_made_anew() {
    let places = Places::new();
    places.taken();
    let archive = places.path("cache").join(&places.version).join(PACKED);
    std::fs::write(&archive, packed("changed by somebody")).unwrap();
    assert_eq!(places.taken(), (Place::Source, "built".to_owned()));
    assert_eq!(places.built.get(), 2);
}

#[test]
fn a_build_that_fails_is_the_last_word() {
    let mut places = Places::new();
    places.can_build = false;
    assert_eq!(places.error(), "step 4 of 5 (compile) failed");
    places.can_build = true;
    assert_eq!(places.taken(), (Place::Source, "built".to_owned()));
}

#[test]
fn a_mirror_may_be_a_link() {
    let mut places = Places::new();
    let real = places.put("real", "behind a link");
    symlink(real, places.path("mirror")).unwrap();
    places.has_mirror = true;
    assert_eq!(places.taken(), (Place::Mirror, "behind a link".to_owned()));
}

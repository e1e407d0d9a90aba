//! Finds or starts a Docker engine, and builds the image.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use crate::run::{check, output, step, target_folder};
use crate::static_build;
use crate::system::{has, install};

/// Name of the image.
const IMAGE: &str = "sandbox-relay:local";
const DOCKERFILE: &str = "docker/Dockerfile";
/// Name of the binary in the build context, which the Dockerfile copies.
const STAGED: &str = "sandbox-relay.static";
const START_WITHIN: Duration = Duration::from_secs(60);

/// Docker engine that answers.
#[derive(Debug)]
pub(crate) struct Engine {
    program: &'static str,
}

impl Engine {
    pub(crate) fn program(&self) -> &'static str {
        self.program
    }

    /// Returns an engine that answers. If there is none, starts one; as root on Debian, installs it first.
    pub(crate) fn find_or_start() -> anyhow::Result<Self> {
        if let Some(engine) = Self::find() {
            return Ok(engine);
        }
        let is_root = output(Command::new("id").arg("-u"))? == "0";
        let advice = "install Docker (from version 23 on with its plugin buildx) and start it, or leave this out (--help says how)";
        if !is_root {
            bail!("a Docker engine is needed, and none answers: {advice}");
        }
        if !has("dockerd") || !has("iptables") || Self::clients().next().is_none() {
            if !has("apt-get") {
                bail!("a Docker engine is needed, and there is none: {advice}");
            }
            step("Installing a Docker engine (docker.io and iptables)");
            install(&["docker.io", "iptables"])?;
        }
        Self::start()
    }

    /// Returns the engine that answers to the first client that can build an image.
    fn find() -> Option<Self> {
        Self::clients().find(Self::answers)
    }

    /// Lists the clients that can build an image, in the order in which they are tried. A client that cannot is left
    /// out before any engine is asked. Otherwise, while an engine starts, the first client could ask too early, and the
    /// second in time.
    fn clients() -> impl Iterator<Item = Self> {
        ["/usr/bin/docker", "docker"].into_iter().map(|program| Self { program }).filter(Self::can_build)
    }

    /// Returns whether the client can build with BuildKit. From version 23 on it needs the plugin buildx for that.
    fn can_build(&self) -> bool {
        let Ok(version) = output(Command::new(self.program).arg("--version")) else {
            return false;
        };
        if has_builder(&version) {
            return true;
        }
        let mut plugin = Command::new(self.program);
        plugin.args(["buildx", "version"]).stdout(Stdio::null()).stderr(Stdio::null());
        plugin.status().is_ok_and(|status| status.success())
    }

    fn answers(&self) -> bool {
        let mut info = Command::new(self.program);
        info.arg("info").stdout(Stdio::null()).stderr(Stdio::null());
        info.status().is_ok_and(|status| status.success())
    }

    fn image_bytes(&self) -> Option<u64> {
        let inspect = ["image", "inspect", "--format", "{{.Size}}", IMAGE];
        output(Command::new(self.program).args(inspect)).ok()?.parse().ok()
    }

    /// Returns the engine's description of an image, as JSON.
    pub(crate) fn inspect(&self, image: &str) -> anyhow::Result<String> {
        output(Command::new(self.program).args(["image", "inspect", "--format", "{{json .}}", image]))
    }

    fn start() -> anyhow::Result<Self> {
        let log = target_folder()?.join("dockerd.log");
        step(&format!("Starting a Docker engine; its log is {}", log.display()));
        let file = File::create(&log)?;
        let mut engine = Command::new("dockerd");
        engine.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let mut engine = engine.spawn().context("dockerd cannot be run")?;
        let started = Instant::now();
        while started.elapsed() < START_WITHIN {
            if let Some(engine) = Self::find() {
                return Ok(engine);
            }
            if let Some(status) = engine.try_wait()? {
                bail!("dockerd ended with {status}; {} says why", log.display());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        bail!("dockerd does not answer; {} may say why", log.display())
    }
}

/// Returns whether a client of this version (`Docker version 20.10.24, build 297e128`) contains BuildKit itself.
fn has_builder(version: &str) -> bool {
    let number = version.trim_start_matches("Docker version ").split('.').next();
    number.and_then(|major| major.parse::<u32>().ok()).is_some_and(|major| major < 23)
}

/// Builds the image with the engine that answers or can be started. Returns the image's name.
pub(crate) fn build_image() -> anyhow::Result<&'static str> {
    build_image_with(&Engine::find_or_start()?)
}

/// Builds a static binary and the image from it. Returns the image's name.
pub(crate) fn build_image_with(engine: &Engine) -> anyhow::Result<&'static str> {
    let binary = static_build::build(static_build::RELAY)?;
    let context = context_with(&binary, &target_folder()?)?;
    step("Building the image");
    check(&mut build_command(engine.program, &context))?;
    eprintln!("{IMAGE}: {} MB", engine.image_bytes().context("the image is not there")? / 1_000_000);
    Ok(IMAGE)
}

/// Makes the folder that the engine gets as its build context: `<target>/image`, with only the binary in it. `target`
/// is the folder that cargo builds into, since the repository's own folder `target` may be missing or a link.
fn context_with(binary: &Path, target: &Path) -> anyhow::Result<PathBuf> {
    let context = target.join("image");
    std::fs::create_dir_all(&context)?;
    std::fs::copy(binary, context.join(STAGED)).with_context(|| format!("{} cannot be copied", binary.display()))?;
    Ok(context)
}

fn build_command(docker: &str, context: &Path) -> Command {
    let mut build = Command::new(docker);
    build.env("DOCKER_BUILDKIT", "1").args(["build", "--build-arg", "BINARY=prebuilt", "--file", DOCKERFILE]);
    build.args(["--tag", IMAGE]).arg(context);
    build
}

/// Returns the size of the image in bytes; `None`: there is no image.
pub(crate) fn image_bytes() -> Option<u64> {
    Engine::find()?.image_bytes()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn clients_before_version_23_build_without_a_plugin() {
        assert!(has_builder("Docker version 20.10.24+dfsg1, build 297e128"));
        assert!(!has_builder("Docker version 28.2.2, build e6534b4"));
        assert!(!has_builder("Docker version 23.0.0, build 1"));
        assert!(!has_builder("podman"));
    }

    #[test]
    fn the_context_holds_the_binary_that_the_dockerfile_copies_and_nothing_else() {
        let target = tempfile::tempdir().unwrap();
        let binary = target.path().join("built");
        std::fs::write(&binary, "a program").unwrap();
        let context = context_with(&binary, target.path()).unwrap();
        let names = std::fs::read_dir(&context).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert_eq!(names.collect::<Vec<_>>(), [STAGED]);
        assert_eq!(std::fs::read(context.join(STAGED)).unwrap(), b"a program");

        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let dockerfile = std::fs::read_to_string(root.join(DOCKERFILE)).unwrap();
        assert!(dockerfile.contains(&format!("COPY {STAGED} /sandbox-relay\n")), "{dockerfile}");
        let command = format!("{:?}", build_command("docker", &context));
        assert!(command.contains(&format!("\"{}\"", context.display())), "{command}");
    }
}

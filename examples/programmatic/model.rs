//! The model: one of a provider, or a program that is played back.

use std::path::Path;
use std::sync::Arc;

use host_client::programmatic::{CallbackModel, Model, ModelReply};

/// The answer that is played back in the place of a model's; `ROOT` stands for the folder of the data.
const PLAYED: &str = r#"```js
const [log, file] = await Promise.all([
  git.git_log({repo_path: "ROOT/repo", max_count: 60}),
  files.read_text_file({path: "ROOT/issues.json"}),
]);
const commits = new Map();
for (const [, number] of log.matchAll(/^Message: .*\(#(\d+)\)/gm)) {
  commits.set(Number(number), (commits.get(Number(number)) ?? 0) + 1);
}
return JSON.parse(file.content)
  .filter((issue) => issue.state === "open" && issue.labels.includes("bug") && commits.has(issue.number))
  .map((issue) => ({issue: issue.number, commits: commits.get(issue.number)}));
```"#;

/// Returns the model of this name; `None`: one that plays a program back, for data in this folder.
pub(crate) fn of(name: Option<&str>, root: &Path) -> anyhow::Result<Arc<dyn Model>> {
    let Some(name) = name else {
        let reply = ModelReply::new(PLAYED.replace("ROOT", &root.display().to_string()));
        return Ok(Arc::new(CallbackModel::new(move |_| {
            let reply = reply.clone();
            async { Ok(reply) }
        })));
    };
    provider(name)
}

#[cfg(feature = "rig")]
fn provider(name: &str) -> anyhow::Result<Arc<dyn Model>> {
    use host_client::programmatic::RigModel;
    use rig_core::providers::{anthropic::Anthropic, openai::OpenAI};
    Ok(Arc::new(match name.split_once(':') {
        Some(("openai", model)) => RigModel::new(OpenAI::from_env()?.completion(model)),
        Some(("anthropic", model)) => RigModel::new(Anthropic::from_env()?.completion(model)).max_tokens(8_000),
        _ => anyhow::bail!("a model is openai:NAME or anthropic:NAME"),
    }))
}

#[cfg(not(feature = "rig"))]
fn provider(_: &str) -> anyhow::Result<Arc<dyn Model>> {
    anyhow::bail!("this was built without models: add --features rig")
}

// The script that a model would write: it reads hundreds of files and gives back one small table.
const BATCH_BYTES = 384 * 1024;
const AT_ONCE = 8;

// The value of a key in a manifest. Enough of TOML for what cargo publishes.
function field(manifest, name) {
  const found = manifest.match(new RegExp(`^${name}\\s*=\\s*"([^"]*)"`, "m"));
  return found ? found[1] : null;
}

// How often the keyword stands in the code; comments do not count.
function countUnsafe(text) {
  let count = 0;
  for (let at = text.indexOf("unsafe"); at >= 0; at = text.indexOf("unsafe", at + 6)) {
    const next = text[at + 6];
    if (next !== " " && next !== "\n" && next !== "{") continue;
    const line = text.slice(text.lastIndexOf("\n", at) + 1, at);
    if (!line.includes("//") && !line.trimStart().startsWith("*") && !line.includes('"')) count++;
  }
  return count;
}

// Files in groups that fit into one call.
function batches(files) {
  const all = [];
  let batch = [], size = 0;
  for (const { path, bytes } of files) {
    if (batch.length > 0 && size + bytes > BATCH_BYTES) {
      all.push(batch);
      batch = [];
      size = 0;
    }
    batch.push(path);
    size += bytes;
  }
  if (batch.length > 0) all.push(batch);
  return all;
}

async function inspect(folder) {
  const [[manifest], sources] = await Promise.all([
    mcp.call("files.read", { paths: [`${folder}/Cargo.toml`] }),
    mcp.call("files.list", { folder, suffix: ".rs" }),
  ]);
  let unsafe = 0, lines = 0, skipped = 0;
  for (const paths of batches(sources)) {
    for (const { text } of await mcp.call("files.read", { paths })) {
      if (text === null) { skipped++; continue; }
      unsafe += countUnsafe(text);
      lines += text.split("\n").length;
    }
  }
  return {
    folder, unsafe, lines, skipped, files: sources.length,
    license: field(manifest.text, "license") ?? (field(manifest.text, "license-file") ? "(a file)" : null),
    repository: field(manifest.text, "repository"),
  };
}

const folders = (await mcp.call("files.list")).map((entry) => entry.path);
const packages = [];
await Promise.all(Array.from({ length: AT_ONCE }, async () => {
  for (let folder = folders.shift(); folder !== undefined; folder = folders.shift()) {
    packages.push(await inspect(folder));
  }
}));

const licenses = {};
for (const { license } of packages) {
  // Manifests write the same choice in several ways: sort it, unless it is more than a choice.
  const text = license ?? "(none)";
  const key = /[()]|AND/.test(text) ? text : text.split(/\s+OR\s+|\s*\/\s*/).sort().join(" OR ");
  licenses[key] = (licenses[key] ?? 0) + 1;
}
const sum = (key) => packages.reduce((total, it) => total + it[key], 0);

return {
  packages: packages.length, files: sum("files"), lines: sum("lines"), skipped: sum("skipped"),
  licenses: Object.entries(licenses).sort((a, b) => b[1] - a[1]),
  most_unsafe: packages.sort((a, b) => b.unsafe - a.unsafe).slice(0, 10).map((it) => [it.folder, it.unsafe, it.lines]),
  without_license: packages.filter((it) => !it.license).map((it) => it.folder).sort(),
  without_repository: packages.filter((it) => !it.repository).map((it) => it.folder).sort(),
};

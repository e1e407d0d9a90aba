//! Tasks about folders of files.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::agent::Call;
use crate::scripted::{Answer, Turns};
use crate::task::{Kind, Task, describe, files, names, programs, read, read_all, run};

const LIST_AND_READ: [&str; 2] = ["files.list_directory", "files.read_text_file"];

pub(super) const TASKS: [Task; 8] = [
    Task {
        name: "sales",
        question: "What is the turnover (units times price) of each region, over all CSV files in /data/sales? Answer \
            with JSON: {region: cents}.",
        kind: Kind::Bulk,
        servers: &["files"],
        leaves: None,
        by_tools: |turns| Box::pin(sales(turns)),
        by_programs: |turns| {
            let code = [include_str!("programs/sales_look.js"), include_str!("programs/sales.js")];
            Box::pin(async move { programs(turns, &LIST_AND_READ, &code).await })
        },
    },
    Task {
        name: "todos",
        question: "The files in /data/code have comments such as `TODO(p2): text`. Which are the ten most urgent, by \
            priority (p1 first) and then by file name? Answer with JSON: [{\"file\": \"...\", \"priority\": 1, \
            \"todo\": \"...\"}, ...].",
        kind: Kind::Bulk,
        servers: &["files"],
        leaves: None,
        by_tools: |turns| Box::pin(todos(turns)),
        by_programs: |turns| {
            Box::pin(async move { programs(turns, &LIST_AND_READ, &[include_str!("programs/todos.js")]).await })
        },
    },
    Task {
        name: "definition",
        question: "In /data/code, mod_005.ts exports formatMoney from another file, as `export { formatMoney } from \
            \"./mod_...\"`, which may do the same. Which file defines it, and how many hops away? Answer with JSON: \
            {\"file\": \"...\", \"hops\": 1}.",
        kind: Kind::Bulk,
        servers: &["files"],
        leaves: None,
        by_tools: |turns| Box::pin(definition(turns)),
        by_programs: |turns| {
            Box::pin(async move {
                let mut found =
                    programs(turns, &["files.read_text_file"], &[include_str!("programs/definition.js")]).await?;
                anyhow::ensure!(found["defined"] == true, "the last file does not define it");
                Ok(json!({"file": found["file"].take(), "hops": found["hops"].take()}))
            })
        },
    },
    Task {
        name: "errors",
        question: "How many ERROR lines has each service in the logs in /data/logs, and which message is the most \
            frequent among them? Answer with JSON: {\"services\": {service: count}, \"top\": \"message\"}.",
        kind: Kind::Bulk,
        servers: &["files"],
        leaves: None,
        by_tools: |turns| Box::pin(errors(turns)),
        by_programs: |turns| {
            let code = [include_str!("programs/errors_look.js"), include_str!("programs/errors.js")];
            Box::pin(async move { programs(turns, &LIST_AND_READ, &code).await })
        },
    },
    Task {
        name: "slowest",
        question: "Which are the five slowest requests? /data/requests/backend.log has the times, \
            /data/requests/gateway.log the users. Answer with JSON, the slowest first: [{\"request\": \"...\", \
            \"user\": \"...\", \"ms\": 1}, ...].",
        kind: Kind::Bulk,
        servers: &["files"],
        leaves: None,
        by_tools: |turns| Box::pin(slowest(turns)),
        by_programs: |turns| {
            let code = [include_str!("programs/slowest_look.js"), include_str!("programs/slowest.js")];
            Box::pin(async move { programs(turns, &["files.read_text_file"], &code).await })
        },
    },
    Task {
        name: "roster",
        question: "Write the name, the team and the email of everybody in /data/profiles who is active to \
            /data/out/roster.csv, with the header name,team,email, and sorted by name. Answer with JSON: {\"rows\": \
            count}.",
        kind: Kind::Bulk,
        servers: &["files"],
        leaves: Some("out/roster.csv"),
        by_tools: |turns| Box::pin(roster(turns)),
        by_programs: |turns| {
            let code = [include_str!("programs/roster_look.js"), include_str!("programs/roster.js")];
            let tools = ["files.list_directory", "files.read_text_file", "files.write_file"];
            Box::pin(async move { programs(turns, &tools, &code).await })
        },
    },
    Task {
        name: "version",
        question: "Which version has the package in /data/app/package.json? Answer with a JSON string.",
        kind: Kind::Few,
        servers: &["files"],
        leaves: None,
        by_tools: |mut turns| {
            Box::pin(async move {
                let text = turns.calls(vec![read("/data/app/package.json")]).await?.remove(0);
                Ok(serde_json::from_str::<Value>(&text)?["version"].take())
            })
        },
        by_programs: |turns| {
            Box::pin(
                async move { programs(turns, &["files.read_text_file"], &[include_str!("programs/version.js")]).await },
            )
        },
    },
    Task {
        name: "ticket",
        question: "Which of the tickets in /data/tickets (index.json has the subjects, ID.txt the texts) sounds as if \
            a customer has lost data, and whose is it? Answer with JSON: {\"ticket\": \"...\", \"customer\": \"...\"}.",
        kind: Kind::Judgement,
        servers: &["files"],
        leaves: None,
        by_tools: |turns| Box::pin(ticket(turns)),
        by_programs: |turns| Box::pin(ticket_by_programs(turns)),
    },
];

/// Lists a folder and reads all that is in it, so many files in one call: two turns.
async fn read_folder(turns: &mut Turns, folder: &str, at_once: usize) -> anyhow::Result<String> {
    let names = names(&turns.call("files.list_directory", json!({"path": folder})).await?);
    let texts = turns.calls(names.chunks(at_once).map(|names| read_all(folder, names)).collect()).await?;
    Ok(texts.join("\n---\n"))
}

async fn sales(mut turns: Turns) -> Answer {
    let text = read_folder(&mut turns, "/data/sales", 50).await?;
    let mut totals = BTreeMap::<_, u64>::new();
    for (_, table) in files(&text) {
        for line in table.lines().skip(1).filter(|line| !line.is_empty()) {
            let fields: Vec<_> = line.split(',').collect();
            let [_, region, _, units, price] = fields[..] else { anyhow::bail!("an odd line: {line}") };
            *totals.entry(region).or_default() += units.parse::<u64>()? * price.parse::<u64>()?;
        }
    }
    Ok(json!(totals))
}

async fn todos(mut turns: Turns) -> Answer {
    let text = read_folder(&mut turns, "/data/code", 50).await?;
    let mut todos = Vec::new();
    for (file, text) in files(&text) {
        for (priority, todo) in text.lines().filter_map(|line| line.strip_prefix("// TODO(p")?.split_once("): ")) {
            todos.push((priority.parse::<u64>()?, file, todo));
        }
    }
    todos.sort();
    let todo = |(priority, file, todo): &(u64, &str, &str)| json!({"file": file, "priority": priority, "todo": todo});
    Ok(todos.iter().take(10).map(todo).collect())
}

async fn definition(mut turns: Turns) -> Answer {
    let mut file = "mod_005.ts".to_owned();
    for hops in 0..200 {
        let text = turns.calls(vec![read(&format!("/data/code/{file}"))]).await?.remove(0);
        if text.contains("function formatMoney") {
            return Ok(json!({"file": file, "hops": hops}));
        }
        let next =
            text.lines().find_map(|line| line.strip_prefix("export { formatMoney } from \"./")?.strip_suffix("\";"));
        file = format!("{}.ts", next.context("the chain breaks off")?);
    }
    anyhow::bail!("the chain has no end")
}

async fn errors(mut turns: Turns) -> Answer {
    let text = read_folder(&mut turns, "/data/logs", 50).await?;
    let (mut services, mut faults) = (BTreeMap::<_, u64>::new(), BTreeMap::<_, u64>::new());
    for line in text.lines() {
        let Some((_, error)) = line.split_once(" ERROR ") else { continue };
        let (service, fault) = error.split_once(' ').context("an odd line")?;
        *services.entry(service).or_default() += 1;
        *faults.entry(fault).or_default() += 1;
    }
    let top = faults.iter().max_by_key(|(fault, count)| (**count, Reverse(**fault)));
    Ok(json!({"services": services, "top": top.map(|(fault, _)| fault)}))
}

async fn slowest(mut turns: Turns) -> Answer {
    let logs = ["gateway", "backend"].map(|name| read(&format!("/data/requests/{name}.log")));
    let texts = turns.calls(logs.into()).await?;
    let field = |line: &str, name: &str| {
        let found = line.split(' ').find_map(|field| field.strip_prefix(name));
        found.map(str::to_owned).with_context(|| format!("an odd line: {line}"))
    };
    let mut slow = Vec::new();
    for (gateway, backend) in texts[0].lines().zip(texts[1].lines()) {
        let took = field(backend, "took=")?;
        let ms: u64 = took.strip_suffix("ms").context("no unit")?.parse()?;
        slow.push((ms, backend.split(' ').next(), field(gateway, "user=")?));
    }
    slow.sort();
    let row = |(ms, request, user): &(u64, Option<&str>, String)| json!({"request": request, "user": user, "ms": ms});
    Ok(slow.iter().rev().take(5).map(row).collect())
}

async fn roster(mut turns: Turns) -> Answer {
    let text = read_folder(&mut turns, "/data/profiles", 50).await?;
    let mut rows = Vec::new();
    for (_, text) in files(&text) {
        let profile: Value = serde_json::from_str(text)?;
        if profile["active"] == true {
            let field = |name: &str| profile[name].as_str().unwrap_or_default().to_owned();
            rows.push(format!("{},{},{}\n", field("name"), field("team"), field("email")));
        }
    }
    rows.sort();
    let content = format!("name,team,email\n{}", rows.concat());
    turns.call("files.write_file", json!({"path": "/data/out/roster.csv", "content": content})).await?;
    Ok(json!({"rows": rows.len()}))
}

/// The one whose subject tells a reader of lost data.
fn suspicious(index: &Value) -> anyhow::Result<&str> {
    let is_it = |ticket: &&Value| ticket["subject"].as_str().is_some_and(|subject| subject.contains("are gone"));
    index
        .as_array()
        .into_iter()
        .flatten()
        .find(is_it)
        .and_then(|ticket| ticket["id"].as_str())
        .context("no such ticket")
}

fn customer(id: &str, text: &str) -> Value {
    json!({"ticket": id, "customer": text.lines().find_map(|line| line.strip_prefix("Customer: "))})
}

async fn ticket(mut turns: Turns) -> Answer {
    let index = turns.calls(vec![read("/data/tickets/index.json")]).await?.remove(0);
    let index = serde_json::from_str(&index)?;
    let id = suspicious(&index)?;
    let call: Call = read(&format!("/data/tickets/{id}.txt"));
    let text = turns.calls(vec![call]).await?.remove(0);
    Ok(customer(id, &text))
}

/// A program cannot judge: the model looks between two of them.
async fn ticket_by_programs(mut turns: Turns) -> Answer {
    describe(&mut turns, &["files.read_text_file"]).await?;
    let index = run(&mut turns, include_str!("programs/ticket_index.js")).await?;
    let id = suspicious(&index)?;
    let code = include_str!("programs/ticket_read.js").replace("T-317", id);
    let text = run(&mut turns, &code).await?;
    Ok(customer(id, text.as_str().unwrap_or_default()))
}

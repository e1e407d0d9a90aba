//! Tasks about a database, a knowledge graph and clocks.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::agent::Call;
use crate::scripted::{Answer, Turns};
use crate::task::{Kind, Task, describe, programs, read, run};

const QUERY: &str = "sqlite.read_query";
const CONVERT: &str = "time.convert_time";
const ZONES: [&str; 20] = [
    "Africa/Johannesburg",
    "Africa/Lagos",
    "Africa/Nairobi",
    "America/Bogota",
    "America/Jamaica",
    "America/Lima",
    "America/Panama",
    "America/Phoenix",
    "Asia/Bangkok",
    "Asia/Dhaka",
    "Asia/Dubai",
    "Asia/Jakarta",
    "Asia/Karachi",
    "Asia/Kathmandu",
    "Asia/Kolkata",
    "Asia/Shanghai",
    "Asia/Singapore",
    "Asia/Tokyo",
    "Australia/Brisbane",
    "Pacific/Honolulu",
];

pub(super) const TASKS: [Task; 7] = [
    Task {
        name: "customers",
        question: "Which five customers in the SQLite database ordered for most in the third quarter of 2026? Answer \
            with JSON, the best first: [{\"name\": \"...\", \"cents\": 1}, ...].",
        kind: Kind::Few,
        servers: &["sqlite"],
        leaves: None,
        by_tools: |turns| Box::pin(customers(turns)),
        by_programs: |turns| {
            let code = [include_str!("programs/look_sql.js"), include_str!("programs/customers.js")];
            Box::pin(async move { rows(&programs(turns, &[QUERY], &code).await?) })
        },
    },
    Task {
        name: "orders",
        question: "How many rows has the table orders of the SQLite database? Answer with a JSON number.",
        kind: Kind::Few,
        servers: &["sqlite"],
        leaves: None,
        by_tools: |mut turns| {
            Box::pin(async move {
                let text = turns.call(QUERY, json!({"query": "SELECT COUNT(*) AS n FROM orders"})).await?;
                Ok(rows(&text.into())?[0]["n"].take())
            })
        },
        by_programs: |turns| {
            Box::pin(async move {
                let text = programs(turns, &[QUERY], &[include_str!("programs/orders.js")]).await?;
                Ok(rows(&text)?[0]["n"].take())
            })
        },
    },
    Task {
        name: "payments",
        question: "/data/payments.csv says what each customer paid in all, the SQLite database what they ordered. Who \
            paid another sum, and how much is missing? Answer with JSON: {name: cents}.",
        kind: Kind::Bulk,
        servers: &["sqlite", "files"],
        leaves: None,
        by_tools: |turns| Box::pin(payments(turns)),
        by_programs: |turns| {
            let code = [include_str!("programs/payments_look.js"), include_str!("programs/payments.js")];
            Box::pin(async move { programs(turns, &[QUERY, "files.read_text_file"], &code).await })
        },
    },
    Task {
        name: "remember",
        question: "Note everybody in /data/people.json in the knowledge graph, as entities of type person with the \
            observation `role: ...`, and who reports to whom as relations reports_to. Answer with JSON: {\"people\": \
            count, \"relations\": count}.",
        kind: Kind::Bulk,
        servers: &["memory", "files"],
        leaves: Some("memory.jsonl"),
        by_tools: |turns| Box::pin(remember(turns)),
        by_programs: |turns| {
            let code = [include_str!("programs/remember_look.js"), include_str!("programs/remember.js")];
            let tools = ["files.read_text_file", "memory.create_entities", "memory.create_relations"];
            Box::pin(async move { programs(turns, &tools, &code).await })
        },
    },
    Task {
        name: "outage",
        question: "In the knowledge graph, services depend on services (depends_on). Which depend on service-04, \
            directly or through others? Answer with a sorted JSON array of names.",
        kind: Kind::Bulk,
        servers: &["memory"],
        leaves: None,
        by_tools: |turns| Box::pin(outage(turns)),
        by_programs: |turns| {
            Box::pin(
                async move { programs(turns, &["memory.read_graph"], &[include_str!("programs/outage.js")]).await },
            )
        },
    },
    Task {
        name: "meeting",
        question: "What do the clocks show at 09:30 UTC in Africa/Johannesburg, Africa/Lagos, Africa/Nairobi, \
            America/Bogota, America/Jamaica, America/Lima, America/Panama, America/Phoenix, Asia/Bangkok, Asia/Dhaka, \
            Asia/Dubai, Asia/Jakarta, Asia/Karachi, Asia/Kathmandu, Asia/Kolkata, Asia/Shanghai, Asia/Singapore, \
            Asia/Tokyo, Australia/Brisbane and Pacific/Honolulu? Answer with JSON: {zone: \"HH:MM\"}.",
        kind: Kind::Bulk,
        servers: &["time"],
        leaves: None,
        by_tools: |turns| Box::pin(meeting(turns)),
        by_programs: |turns| {
            let code = [include_str!("programs/meeting_look.js"), include_str!("programs/meeting.js")];
            Box::pin(async move { programs(turns, &[CONVERT], &code).await })
        },
    },
    Task {
        name: "call",
        question: "What do the clocks show in Asia/Kathmandu at 09:30 UTC? Answer with a JSON string, HH:MM.",
        kind: Kind::Few,
        servers: &["time"],
        leaves: None,
        by_tools: |mut turns| {
            Box::pin(async move {
                let text = turns.calls(vec![convert("Asia/Kathmandu")]).await?.remove(0);
                clock(&serde_json::from_str(&text)?)
            })
        },
        by_programs: |mut turns| {
            Box::pin(async move {
                describe(&mut turns, &[CONVERT]).await?;
                clock(&run(&mut turns, include_str!("programs/call.js")).await?)
            })
        },
    },
];

/// The rows in what the server of SQLite gave: the text of a list of Python.
fn rows(text: &Value) -> Answer {
    let text = text.as_str().context("rows are a text")?;
    Ok(serde_json::from_str(&text.replace('\'', "\""))?)
}

fn query(sql: &str) -> Call {
    Call::new(QUERY, json!({"query": sql}))
}

async fn customers(mut turns: Turns) -> Answer {
    turns.calls(vec![query("SELECT sql FROM sqlite_master")]).await?;
    let sql = "SELECT c.name AS name, SUM(o.cents) AS cents FROM orders o JOIN customers c ON c.id = o.customer_id \
        WHERE o.day BETWEEN '2026-07-01' AND '2026-09-30' GROUP BY c.id ORDER BY cents DESC LIMIT 5";
    rows(&turns.calls(vec![query(sql)]).await?.remove(0).into())
}

async fn payments(mut turns: Turns) -> Answer {
    let mut texts = turns.calls(vec![query("SELECT sql FROM sqlite_master"), read("/data/payments.csv")]).await?;
    let paid = texts.pop().unwrap_or_default();
    let sql =
        "SELECT c.name, SUM(o.cents) AS cents FROM orders o JOIN customers c ON c.id = o.customer_id GROUP BY c.id";
    let ordered = rows(&turns.calls(vec![query(sql)]).await?.remove(0).into())?;
    let paid: BTreeMap<_, _> = paid.lines().filter_map(|line| line.split_once(',')).collect();
    let mut gaps = BTreeMap::new();
    for row in ordered.as_array().into_iter().flatten() {
        let (name, cents) = (row["name"].as_str().unwrap_or_default(), row["cents"].as_u64().unwrap_or_default());
        let paid: u64 = paid.get(name).context("a customer who paid nothing")?.parse()?;
        if paid < cents {
            gaps.insert(name.to_owned(), cents - paid);
        }
    }
    Ok(json!(gaps))
}

/// All that goes into the graph has to be written out by the model.
async fn remember(mut turns: Turns) -> Answer {
    let text = turns.calls(vec![read("/data/people.json")]).await?.remove(0);
    let people: Vec<Value> = serde_json::from_str(&text)?;
    let entity = |person: &Value| {
        let role = format!("role: {}", person["role"].as_str().unwrap_or_default());
        json!({"name": person["name"], "entityType": "person", "observations": [role]})
    };
    let entities: Vec<_> = people.iter().map(entity).collect();
    turns.call("memory.create_entities", json!({"entities": entities})).await?;
    let managed = people.iter().filter(|person| !person["manager"].is_null());
    let relation =
        |person: &Value| json!({"from": person["name"], "to": person["manager"], "relationType": "reports_to"});
    let relations: Vec<_> = managed.map(relation).collect();
    turns.call("memory.create_relations", json!({"relations": relations})).await?;
    Ok(json!({"people": people.len(), "relations": relations.len()}))
}

async fn outage(mut turns: Turns) -> Answer {
    let graph: Value = serde_json::from_str(&turns.call("memory.read_graph", json!({})).await?)?;
    let relations = graph["relations"].as_array().context("a graph without relations")?;
    let mut down = BTreeSet::from(["service-04"]);
    let mut before = 0;
    while before < down.len() {
        before = down.len();
        for relation in relations {
            if let (Some(from), Some(to)) = (relation["from"].as_str(), relation["to"].as_str())
                && down.contains(to)
            {
                down.insert(from);
            }
        }
    }
    down.remove("service-04");
    Ok(json!(down))
}

fn convert(zone: &str) -> Call {
    Call::new(CONVERT, json!({"source_timezone": "UTC", "time": "09:30", "target_timezone": zone}))
}

/// The clock in a converted time.
fn clock(converted: &Value) -> Answer {
    let time = converted["target"]["datetime"].as_str().and_then(|time| time.get(11..16));
    Ok(json!(time.context("no time")?))
}

async fn meeting(mut turns: Turns) -> Answer {
    let texts = turns.calls(ZONES.iter().map(|zone| convert(zone)).collect()).await?;
    let mut clocks = BTreeMap::new();
    for (zone, text) in ZONES.iter().zip(&texts) {
        clocks.insert(*zone, clock(&serde_json::from_str(text)?)?);
    }
    Ok(json!(clocks))
}

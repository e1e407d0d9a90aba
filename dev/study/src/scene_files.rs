//! Folders of files, a database and a knowledge graph.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::scene::{Dice, Maker};

const FIRST_NAMES: [&str; 8] = ["Ines", "Jonas", "Kofi", "Lena", "Mika", "Nadia", "Omar", "Petra"];
const LAST_NAMES: [&str; 5] = ["Adler", "Brandt", "Costa", "Duarte", "Egede"];
const REGIONS: [&str; 4] = ["north", "south", "east", "west"];
const SERVICES: [&str; 5] = ["checkout", "ledger", "mailer", "search", "sync"];
const FAULTS: [&str; 6] = ["timeout", "connection refused", "bad gateway", "disk full", "lock held", "quota exceeded"];
/// Zones without daylight saving time, and how many minutes they are ahead of UTC.
const ZONES: [(&str, i32); 20] = [
    ("Africa/Johannesburg", 120),
    ("Africa/Lagos", 60),
    ("Africa/Nairobi", 180),
    ("America/Bogota", -300),
    ("America/Jamaica", -300),
    ("America/Lima", -300),
    ("America/Panama", -300),
    ("America/Phoenix", -420),
    ("Asia/Bangkok", 420),
    ("Asia/Dhaka", 360),
    ("Asia/Dubai", 240),
    ("Asia/Jakarta", 420),
    ("Asia/Karachi", 300),
    ("Asia/Kathmandu", 345),
    ("Asia/Kolkata", 330),
    ("Asia/Shanghai", 480),
    ("Asia/Singapore", 480),
    ("Asia/Tokyo", 540),
    ("Australia/Brisbane", 600),
    ("Pacific/Honolulu", -600),
];

/// Makes everything. Gives the knowledge graph.
pub(crate) fn make(maker: &mut Maker<'_>, python: &Path) -> anyhow::Result<String> {
    sales(maker)?;
    code(maker)?;
    logs(maker)?;
    requests(maker)?;
    people(maker)?;
    tickets(maker)?;
    times(maker);
    maker.write("app/package.json", "{\n  \"name\": \"shop\",\n  \"version\": \"4.7.2\",\n  \"private\": true\n}\n")?;
    maker.answer("version", json!("4.7.2"));
    shop(maker, python)?;
    graph(maker)
}

/// Thirty tables of sales.
fn sales(maker: &mut Maker<'_>) -> anyhow::Result<()> {
    let (mut dice, mut totals) = (Dice::new(3), BTreeMap::<&str, u64>::new());
    for day in 1..=30 {
        let mut table = "order,region,product,units,price_cents\n".to_owned();
        for order in 0..40 {
            let (region, units, price) = (dice.pick(&REGIONS), 1 + dice.roll(9), 99 + 50 * dice.roll(90));
            writeln!(table, "{day:02}{order:03},{region},P{:03},{units},{price}", dice.roll(200))?;
            *totals.entry(region).or_default() += units * price;
        }
        maker.write(&format!("sales/2026-06-{day:02}.csv"), &table)?;
    }
    maker.answer("sales", json!(totals));
    Ok(())
}

/// Two hundred modules: some with notes of what is to be done, twelve of which hand on one function.
fn code(maker: &mut Maker<'_>) -> anyhow::Result<()> {
    let mut dice = Dice::new(4);
    let mut notes = Vec::new();
    // A chain through the folder whose next link nobody can guess.
    let chain: Vec<_> = (0..12).map(|link| (link * 67 + 5) % 200).collect();
    for number in 0..200 {
        let name = format!("mod_{number:03}.ts");
        let mut text = format!("// Module {number} of the shop.\nimport {{ log }} from \"./log\";\n");
        match chain.iter().position(|link| *link == number) {
            Some(link) if link + 1 < chain.len() => {
                writeln!(text, "export {{ formatMoney }} from \"./mod_{:03}\";", chain[link + 1])?;
            }
            Some(_) => {
                text += "export function formatMoney(cents: number): string {\n  return (cents / 100).toFixed(2);\n}\n";
                maker.answer("definition", json!({"file": name, "hops": chain.len() - 1}));
            }
            None => {}
        }
        for line in 0..4 + dice.roll(6) {
            writeln!(text, "export const step{line} = (n: number) => log(n * {} + {line});", dice.roll(100))?;
        }
        if number % 3 == 1 {
            let (priority, todo) =
                (1 + dice.roll(5), dice.pick(&["handle null", "drop this", "add a test", "cache it"]));
            writeln!(text, "// TODO(p{priority}): {todo}")?;
            notes.push((priority, name.clone(), todo));
        }
        maker.write(&format!("code/{name}"), &text)?;
    }
    notes.sort();
    let note = |(priority, file, todo): &(u64, String, &str)| json!({"file": file, "priority": priority, "todo": todo});
    maker.answer("todos", notes.iter().take(10).map(note).collect());
    Ok(())
}

/// Twelve logs.
fn logs(maker: &mut Maker<'_>) -> anyhow::Result<()> {
    let mut dice = Dice::new(5);
    let (mut errors, mut faults) = (BTreeMap::<&str, u64>::new(), BTreeMap::<&str, u64>::new());
    for hour in 0..12 {
        let mut log = String::new();
        for second in 0..150 {
            let (service, level) = (dice.pick(&SERVICES), dice.pick(&["INFO", "INFO", "INFO", "WARN", "ERROR"]));
            let message = if level == "ERROR" { dice.pick(&FAULTS) } else { "request served" };
            let (minute, second) = (second * 24 / 60, second * 24 % 60);
            writeln!(log, "2026-10-01T{hour:02}:{minute:02}:{second:02}Z {level} {service} {message}")?;
            if level == "ERROR" {
                *errors.entry(service).or_default() += 1;
                *faults.entry(message).or_default() += 1;
            }
        }
        maker.write(&format!("logs/app-{hour:02}.log"), &log)?;
    }
    // Of equals, the first by name.
    let top = faults.iter().max_by_key(|(name, count)| (**count, std::cmp::Reverse(**name)));
    maker.answer("errors", json!({"services": errors, "top": top.map(|(name, _)| name)}));
    Ok(())
}

/// Two logs that have only the requests' ids in common.
fn requests(maker: &mut Maker<'_>) -> anyhow::Result<()> {
    let (mut dice, mut requests) = (Dice::new(6), Vec::new());
    let (mut gateway, mut backend) = (String::new(), String::new());
    for number in 0..300 {
        let (request, user) = (format!("r{:05}", 10_000 + number * 211), format!("u{:02}", dice.roll(60)));
        // Each time occurs once.
        let ms = 20 + (number * 7 % 300) * 13;
        writeln!(gateway, "{request} user={user} path=/{}", dice.pick(&["cart", "pay", "find", "home"]))?;
        writeln!(backend, "{request} worker={} took={ms}ms", dice.roll(8))?;
        requests.push((ms, request, user));
    }
    maker.write("requests/gateway.log", &gateway)?;
    maker.write("requests/backend.log", &backend)?;
    requests.sort();
    let slow = requests.iter().rev().take(5);
    let slow = slow.map(|(ms, request, user)| json!({"request": request, "user": user, "ms": ms}));
    maker.answer("slowest", slow.collect());
    Ok(())
}

/// Forty people, as one file and as profiles.
fn people(maker: &mut Maker<'_>) -> anyhow::Result<()> {
    let mut dice = Dice::new(7);
    let names: Vec<_> =
        FIRST_NAMES.iter().flat_map(|first| LAST_NAMES.iter().map(move |last| format!("{first} {last}"))).collect();
    let (mut people, mut active, mut managed) = (Vec::new(), 0, 0);
    for (number, name) in names.iter().enumerate() {
        let team = dice.pick(&["platform", "payments", "growth", "support"]);
        let id = format!("{}.{}", name.to_lowercase().replace(' ', "."), number * 37 % 100);
        let is_active = dice.roll(4) > 0;
        active += u64::from(is_active);
        let profile = json!({
            "id": id, "name": name, "team": team, "email": format!("{id}@example.com"), "active": is_active,
            "settings": {"theme": dice.pick(&["dark", "light"]), "language": dice.pick(&["de", "en", "pt"])},
            "badges": (0..dice.roll(6)).map(|badge| format!("badge-{badge}")).collect::<Vec<_>>(),
        });
        maker.write(&format!("profiles/{id}.json"), &serde_json::to_string_pretty(&profile)?)?;
        if number < 30 {
            let manager = (number > 0).then(|| &names[(number - 1) / 4]);
            managed += u64::from(manager.is_some());
            people.push(
                json!({"name": name, "role": dice.pick(&["engineer", "designer", "analyst"]), "manager": manager}),
            );
        }
    }
    maker.write("people.json", &serde_json::to_string_pretty(&people)?)?;
    maker.answer("remember", json!({"people": people.len(), "relations": managed}));
    maker.answer("roster", json!({"rows": active}));
    Ok(())
}

/// Tickets, one of which is about lost data although no such word is in it.
fn tickets(maker: &mut Maker<'_>) -> anyhow::Result<()> {
    let mut dice = Dice::new(8);
    let mut index = Vec::new();
    for number in 0..25 {
        let id = format!("T-{}", 300 + number);
        let customer = format!("{} {}", dice.pick(&LAST_NAMES), dice.pick(&["GmbH", "Ltd", "SA", "Inc"]));
        let subject = if number == 17 {
            maker.answer("ticket", json!({"ticket": id, "customer": customer}));
            "Half of our invoices are gone since the import".to_owned()
        } else {
            let topics = ["Export button", "Dark mode", "Invoice layout", "Password mail", "Search box", "Map view"];
            let complaints = ["is slow today", "looks odd on a phone", "could be larger", "is in the wrong language"];
            format!("{} {}", dice.pick(&topics), dice.pick(&complaints))
        };
        let text = format!("Ticket {id}\nCustomer: {customer}\nSubject: {subject}\n\nPlease have a look. Thank you!\n");
        maker.write(&format!("tickets/{id}.txt"), &text)?;
        index.push(json!({"id": id, "subject": subject}));
    }
    maker.write("tickets/index.json", &serde_json::to_string_pretty(&index)?)
}

/// Times of the clocks at 09:30 UTC.
fn times(maker: &mut Maker<'_>) {
    let time = |offset: i32| {
        let minutes = (9 * 60 + 30 + offset).rem_euclid(24 * 60);
        format!("{:02}:{:02}", minutes / 60, minutes % 60)
    };
    maker.answer("meeting", ZONES.iter().map(|(zone, offset)| ((*zone).to_owned(), json!(time(*offset)))).collect());
    maker.answer("call", json!("15:15"));
}

/// A database of orders, and what the bank says was paid.
fn shop(maker: &mut Maker<'_>, python: &Path) -> anyhow::Result<()> {
    let mut dice = Dice::new(9);
    let mut sql = "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, country TEXT);\n\
        CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER, day TEXT, cents INTEGER);\n"
        .to_owned();
    let (mut ordered, mut third_quarter) = (vec![0; 40], vec![0; 40]);
    let name = |customer: usize| format!("{} {}", LAST_NAMES[customer % 5], FIRST_NAMES[customer / 5]);
    for customer in 0..40 {
        let (name, country) = (name(customer), dice.pick(&["DE", "GH", "PT", "BR"]));
        writeln!(sql, "INSERT INTO customers VALUES ({customer}, '{name}', '{country}');")?;
    }
    for order in 0..400 {
        let (customer, month, day) = (dice.roll(40), 1 + dice.roll(10), 1 + dice.roll(28));
        let cents = 500 + dice.roll(90_000);
        writeln!(sql, "INSERT INTO orders VALUES ({order}, {customer}, '2026-{month:02}-{day:02}', {cents});")?;
        let customer = usize::try_from(customer)?;
        ordered[customer] += cents;
        third_quarter[customer] += if (7..=9).contains(&month) { cents } else { 0 };
    }
    maker.write("shop.sql", &sql)?;
    let script = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(open(sys.argv[2]).read())";
    let (database, source) = (maker.root.join("shop.db"), maker.root.join("shop.sql"));
    crate::servers::run(Command::new(python).args(["-c", script]).args([&database, &source]))?;
    std::fs::remove_file(source)?;
    maker.answer("orders", json!(400));
    let mut top: Vec<_> = (0..40).map(|customer| (third_quarter[customer], name(customer))).collect();
    top.sort_by(|a, b| b.cmp(a));
    maker.answer("customers", top.iter().take(5).map(|(cents, name)| json!({"name": name, "cents": cents})).collect());
    let (mut payments, mut gaps) = ("customer,cents\n".to_owned(), BTreeMap::new());
    for (customer, cents) in ordered.into_iter().enumerate() {
        let gap = if dice.roll(5) == 0 { 100 * (1 + dice.roll(20)) } else { 0 };
        if gap > 0 {
            gaps.insert(name(customer), gap);
        }
        writeln!(payments, "{},{}", name(customer), cents - gap)?;
    }
    maker.answer("payments", json!(gaps));
    maker.write("payments.csv", &payments)
}

/// Sixty services that depend on each other.
fn graph(maker: &mut Maker<'_>) -> anyhow::Result<String> {
    let (mut dice, mut graph, mut needs) = (Dice::new(10), String::new(), Vec::new());
    let name = |number: u64| format!("service-{number:02}");
    for number in 0..60 {
        let owner = format!("owned by {}", dice.pick(&["platform", "payments", "growth"]));
        let entity = json!({"type": "entity", "name": name(number), "entityType": "service", "observations": [owner]});
        writeln!(graph, "{entity}")?;
        if number > 0 {
            needs.push((number, dice.roll(number)));
        }
    }
    for (from, to) in &needs {
        let relation = json!({"type": "relation", "from": name(*from), "to": name(*to), "relationType": "depends_on"});
        writeln!(graph, "{relation}")?;
    }
    // A service depends on services with smaller numbers only.
    let mut down = BTreeSet::from([4]);
    for (from, to) in &needs {
        if down.contains(to) {
            down.insert(*from);
        }
    }
    down.remove(&4);
    maker.answer("outage", Value::from(down.into_iter().map(name).collect::<Vec<_>>()));
    Ok(graph.trim_end().to_owned())
}

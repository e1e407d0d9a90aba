// The page in a real browser: live runs, decisions by keyboard, hostile texts, accessibility. `cargo xtask test` runs them.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Browser, Folder, Program, TOOLS, Wire, repl } from "./stage.mjs";

const ADDRESS = /page: (http:\S+)/;
let browser;

before(async () => {
  browser = await Browser.start();
});
after(() => browser?.close());

/** Starts a program that reads lines, and opens its page. */
async function opened(t, ...args) {
  const folder = new Folder();
  const program = repl(folder, ...args);
  t.after(async () => {
    await program.close();
    folder.close();
  });
  const [, address] = await program.prints(ADDRESS);
  return { program, tab: await browser.open(address) };
}

/** Returns the number of bars of a class in the waterfall. */
const bars = (tab, phase) => tab.count(`svg rect.${phase}`);

test("a live run appears, grows, is approved by keyboard, and ends", async (t) => {
  const { program, tab } = await opened(t);
  assert.equal(tab.path(), "/live");
  assert.ok(!tab.page.url().includes("#"), "the token is not in the address any more");
  await tab.sees("has run nothing");
  await tab.check("live-empty");
  program.run("console.log('looking'); await workspace.ls({}); await bank.pay({to: 'Ada'}); return await bank.pay({to: 'Bo'})");
  await tab.sees("waiting");
  await tab.presses("j");
  await tab.leaves(() => tab.presses("Enter"));
  assert.match(tab.path(), /^\/live\/./);
  await tab.sees("waiting for approval");
  await tab.sees("looking");
  assert.deepEqual([await tab.count(".waterfall tbody tr"), await bars(tab, "person")], [2, 1]);

  const deciding = await tab.beside("/approvals");
  await deciding.sees("May call");
  await deciding.check("approvals");
  await deciding.presses("j", "a");
  assert.match(await deciding.focused(), /^Approve call/);
  await deciding.leaves(() => deciding.presses("Enter"));
  // The first window grows, and sees the end, without being loaded again.
  const grown = () => document.querySelectorAll(".waterfall tbody tr").length === 3;
  await tab.until(grown);
  await deciding.sees("Bo");
  await deciding.presses("j", "a");
  await deciding.leaves(() => deciding.presses("Enter"));
  await deciding.sees("No call waits");
  await tab.sees("done");
  await program.prints(/Bo/);
  await tab.page.waitForSelector("meter");
  await tab.page.bringToFront();
  await tab.page.click("#row-2");
  await tab.until(() => document.getElementById("details-2").open);
  await tab.sees("Decided by");
  await tab.check("live-run-done");
  deciding.isWell();
});

test("a denial with its reason reaches the code, and of two people the first counts", async (t) => {
  const { program, tab } = await opened(t);
  program.run("return await bank.pay({to: 'Eve'}).catch((error) => error.message)");
  await tab.sees("waiting");
  const [one, other] = [await tab.beside("/approvals"), await tab.beside("/approvals")];
  await one.sees("Deny call");
  await other.sees("Deny call");
  await one.page.type("input[name=reason]", "not to Eve");
  // Enter in the field decides nothing.
  await one.presses("Enter");
  // To what an approval is for, and to the buttons.
  await one.presses("Tab", "Tab");
  assert.match(await one.focused(), /^Deny call/);
  await one.leaves(() => one.presses("Enter"));
  await program.prints(/bank\.pay was denied: not to Eve/);
  // The other one's form stays as it was, until it is loaded again or sent.
  await other.until(() => !document.getElementById("news").hidden);
  assert.equal(await other.count("[data-approve]"), 1);
  await other.check("approvals-news");
  await other.leaves(() => other.page.click("[data-approve]"));
  await other.sees("Already decided");
  await other.check("decided-before");
  one.isWell();
});

test("an approval is for the rest of the run, chosen by keyboard", async (t) => {
  const { program, tab } = await opened(t);
  program.run("await bank.pay({to: 'Ada'}); await bank.pay({to: 'Bo'}); return 'both ' + 'paid'");
  await tab.sees("waiting");
  const deciding = await tab.beside("/approvals");
  await deciding.sees("May call 1");
  await deciding.page.focus("select[name=scope]");
  await deciding.presses("ArrowDown");
  assert.equal(await deciding.page.$eval("select[name=scope]", (it) => it.value), "execution");
  await deciding.check("approvals-scope");
  await deciding.page.focus("[data-approve]");
  await deciding.leaves(() => deciding.presses("Enter"));
  await program.prints(/both paid/);
  await deciding.sees("No call waits");
  deciding.isWell();
});

test("hostile texts neither run nor hide", async (t) => {
  const { program, tab } = await opened(t);
  const evil = "</code><script>document.title='hacked'</script><img src=x onerror=document.title='hacked'>\\u202egnp\\u200b\\u001b[2J";
  program.run(
    `console.log("${evil}"); return await bank.pay({to: "${evil}" + "w".repeat(900000) + "END"}).catch((e) => "${evil}" + e.message)`,
  );
  await tab.sees("waiting");
  const deciding = await tab.beside("/approvals");
  await deciding.sees("\\u{202e}");
  const text = await deciding.text();
  assert.ok(text.includes("<script>") && text.includes("wwwEND"), "it is whole");
  for (const hidden of ["\u202e", "\u200b", "\u001b"]) assert.ok(!text.includes(hidden));
  assert.ok((await deciding.text()).includes("<b>Bold</b>"));
  await deciding.leaves(() => deciding.page.click("[data-deny]"));
  await tab.sees("done");
  await tab.presses("j");
  await tab.leaves(() => tab.presses("Enter"));
  await tab.sees("\\u{202e}");
  for (const it of [tab, deciding]) {
    assert.notEqual(await it.page.title(), "hacked");
    it.isWell();
  }
  await tab.check("hostile");
});

test("the relay drops and comes back", async (t) => {
  const folder = new Folder();
  folder.file("secret", "s".repeat(40));
  const secret = ["--jwt-secret-file", "secret"];
  const relay = new Program(folder, "sandbox-relay", "serve", "--listen", "127.0.0.1:0", ...secret);
  t.after(async () => {
    await relay.close();
    folder.close();
  });
  const token = await Program.output(folder, "sandbox-relay", "token", ...secret, "--subject", "Ada");
  const [, port] = await relay.prints(/listening on 127\.0\.0\.1:(\d+)/);
  const wire = await Wire.to(Number(port));
  t.after(() => wire.close());
  const { program, tab } = await opened(t, "--relay", `ws://127.0.0.1:${wire.port}/ws`, "--token", token);
  program.run("await bank.pay({to: 'x'}); return 'came ' + 'back'");
  await tab.sees("waiting");
  await tab.leaves(() => tab.page.click("[data-item]"));
  await tab.sees("waiting for approval");
  await tab.check("live-run-waiting");
  wire.cut();
  await tab.sees("without a connection to the relay");
  await tab.check("live-run-away");
  wire.mend();
  const gone = () => !document.body.innerText.includes("without a connection");
  await tab.until(gone);
  const deciding = await tab.beside("/approvals");
  await deciding.leaves(() => deciding.page.click("[data-approve]"));
  await program.prints(/came back/);
  await tab.sees("done");
  deciding.isWell();
});

test("durable runs, the journal and the audit", async (t) => {
  const folder = new Folder();
  folder.file("code.js", "await workspace.ls({}); return await bank.pay({to: '<i>Ada'})");
  const journal = ["--journal", "runs.db", "--audit", "audit.jsonl"];
  const durable = ["--durable", "--passivate-after", "1"];
  const run = () => new Program(folder, "relay-host", "run", "code.js", ...durable, ...journal, ...TOOLS);
  const first = run();
  await first.prints(/waits for an approval/);
  await first.close();
  const second = new Program(folder, "relay-host", "run", "code.js", ...durable, ...journal, ...TOOLS, "--ui", "127.0.0.1:0");
  const sums = [{ measure: "tokens billed", one_by_one: 1129964, together: 452129, programs: 174518 }];
  folder.file("study.json", JSON.stringify({ tasks: [{}, {}], sums }));
  const page = new Program(folder, "relay-host", "ui", "--study", "study.json", ...journal);
  t.after(async () => {
    await Promise.all([second.close(), page.close()]);
    folder.close();
  });
  const [, live] = await second.prints(ADDRESS);
  const [address] = await page.prints(/http:\S+/);
  const [tab, own] = [await browser.open(address), await browser.open(live)];
  await tab.sees("The newest first");
  await tab.until(() => document.querySelectorAll(".state.waiting").length === 2);
  await tab.check("runs");
  // This process' view has the times of its calls, and the code with its lines.
  await own.sees("waiting");
  await own.leaves(() => own.page.click("[data-item]"));
  assert.match(own.path(), /^\/runs\/./);
  await own.sees("Calls over time");
  await own.page.waitForSelector("[data-approve]");
  assert.equal(await own.count(".lines li.called"), 1);
  await own.check("run-waiting");
  // Another process decides, and this window says that there is news.
  const other = await tab.beside(own.path());
  await other.presses("j", "j", "d");
  assert.match(await other.focused(), /^Deny call 2/);
  await other.leaves(() => other.page.focus("[data-approve]").then(() => other.presses("Enter")));
  await second.prints(/Ada/);
  await other.sees("ended");
  await other.check("run-ended");
  await own.until(() => !document.getElementById("news").hidden);
  // The other run is cancelled; nobody goes on with it.
  await tab.page.bringToFront();
  await tab.page.select("#status", "waiting");
  await tab.leaves(() => tab.page.click(".filter button"));
  await tab.until(() => document.querySelectorAll("[data-item]").length === 1);
  await tab.leaves(() => tab.page.click("[data-item]"));
  await tab.leaves(() => tab.page.click("#state button.deny"));
  await tab.sees("Somebody has cancelled");
  await tab.sees("not decided: the run is over");
  await tab.check("run-cancelled");
  await tab.go(new URL("/audit?verify=1", tab.page.url()).href);
  await tab.sees("The log is whole");
  await tab.check("audit");
  await tab.leaves(() => tab.page.click("nav a[href='/study']"));
  await tab.sees("1129964");
  await tab.check("study");
  other.isWell();
});

test("without JavaScript, all of it works by forms", async (t) => {
  const folder = new Folder();
  const program = repl(folder);
  t.after(async () => {
    await program.close();
    folder.close();
  });
  const [, address] = await program.prints(ADDRESS);
  const [front, token] = address.split("#");
  const tab = await browser.open(front, { script: false });
  await tab.page.type("#token", "wrong");
  await tab.leaves(() => tab.presses("Enter"));
  assert.match(await tab.page.content(), /This token is not right/);
  await tab.page.type("#token", token);
  await tab.leaves(() => tab.presses("Enter"));
  program.run("return await bank.pay({to: 'Bo'})");
  for (;;) {
    await tab.go(`${front}approvals`);
    if ((await tab.page.$("[data-approve]")) !== null) break;
  }
  await tab.leaves(() => tab.page.click("[data-approve]"));
  await program.prints(/Bo/);
  tab.isWell();
});

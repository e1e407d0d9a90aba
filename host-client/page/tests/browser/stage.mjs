// What the tests of the page in a browser have in common: programs that serve a page, and a Chromium that opens it.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createRequire } from "node:module";

// The packages are in the target folder, and not beside the tests.
const need = createRequire(join(process.env.PAGE_PACKAGES, "package.json"));
const puppeteer = need("puppeteer-core");
const AXE = readFileSync(need.resolve("axe-core/axe.min.js"), "utf8");
const PROGRAMS = process.env.PAGE_PROGRAMS;
const PICTURES = process.env.PAGE_PICTURES;
/** The time after which a wait has failed, in ms: machines may be slow. */
const WITHIN = Number(process.env.PAGE_WITHIN_MS ?? 90_000);

mkdirSync(PICTURES, { recursive: true });

/** A tool of the tests that needs an approval. Those of the set `workspace` need none. */
const COMMANDS = `
[bank]
program = "/bin/sh"
[bank.tools.pay]
description = "Pays an amount. <b>Bold</b>"
args = ["-c", "cat"]
arguments = { to = { type = "string" } }
stdin = "to"
`;

/** The options of programs that have these tools. */
export const TOOLS = ["--commands", "commands.toml", "--workspace", "."];

/** A folder with the files of a program; it is removed with `close`. */
export class Folder {
  constructor() {
    this.path = mkdtempSync(join(tmpdir(), "page-"));
    this.file("commands.toml", COMMANDS);
  }

  file(name, text) {
    writeFileSync(join(this.path, name), text);
    return this;
  }

  close() {
    rmSync(this.path, { recursive: true, force: true });
  }
}

/** A program of this repository, with what it has printed. */
export class Program {
  constructor(folder, name, ...args) {
    this.child = spawn(join(PROGRAMS, name), args, {
      cwd: folder.path,
      env: { ...process.env, SANDBOX_RELAY_BIN: join(PROGRAMS, "sandbox-relay"), USER: "Ada", RELAY_LOG: "error" },
    });
    this.text = "";
    this.waiting = [];
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => {
        this.text += text;
        for (const look of this.waiting) look();
      });
    }
    this.ended = new Promise((resolve) => this.child.on("close", resolve));
    this.ended.then(() => { for (const look of this.waiting) look(); });
  }

  /** Runs a program of this repository to its end, and returns what it has printed. */
  static async output(folder, name, ...args) {
    const program = new Program(folder, name, ...args);
    await within(() => `the end of ${name}`, program.ended);
    return program.text.trim();
  }

  /** Waits until it has printed something, and returns what the pattern finds. */
  prints(pattern) {
    return within(
      () => `${pattern} in ${this.text}`,
      new Promise((resolve) => {
        const look = () => {
          const found = this.text.match(pattern);
          if (found) resolve(found);
        };
        this.waiting.push(look);
        look();
      }),
    );
  }

  /** Runs a line of code in a program that reads lines. */
  run(line) {
    this.child.stdin.write(`${line}\n`);
  }

  async close() {
    this.child.stdin.end();
    this.child.kill("SIGTERM");
    await within(() => "the end of a program", this.ended);
  }
}

export function repl(folder, ...args) {
  return new Program(folder, "relay-host", "repl", ...TOOLS, "--ui", "127.0.0.1:0", ...args);
}

/** Fails if a promise takes too long. */
export function within(what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited in vain for ${what()}`)), WITHIN);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** A way to a server that can be cut. */
export class Wire {
  static async to(port) {
    const wire = new Wire();
    wire.sockets = new Set();
    wire.isCut = false;
    wire.server = createServer((near) => {
      if (wire.isCut) return near.destroy();
      const far = connect(port, "127.0.0.1");
      for (const [one, other] of [[near, far], [far, near]]) {
        wire.sockets.add(one);
        one.pipe(other);
        one.on("error", () => {}).on("close", () => (other.destroy(), wire.sockets.delete(one)));
      }
    });
    await new Promise((resolve) => wire.server.listen(0, "127.0.0.1", resolve));
    wire.port = wire.server.address().port;
    return wire;
  }

  cut() {
    this.isCut = true;
    for (const socket of this.sockets) socket.destroy();
  }

  mend() {
    this.isCut = false;
  }

  close() {
    this.cut();
    this.server.close();
  }
}

/** A browser without a window. */
export class Browser {
  static async start() {
    const browser = new Browser();
    browser.chromium = await puppeteer.launch({
      executablePath: process.env.PAGE_CHROMIUM,
      headless: true,
      // It runs as root, and in containers with little shared memory. What it loads is this page alone.
      args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-proxy-server"],
      protocolTimeout: 2 * WITHIN,
    });
    return browser;
  }

  close() {
    return this.chromium.close();
  }

  /** Opens an address in a window of its own, with its own cookies. */
  async open(address, { script = true } = {}) {
    const context = await this.chromium.createBrowserContext();
    const tab = new Tab(await context.newPage());
    await tab.page.setJavaScriptEnabled(script);
    await tab.go(address);
    // The script signs in, which loads another page.
    if (script) await tab.until(() => location.pathname !== "/");
    return tab;
  }
}

/** A window of the browser. Whatever goes wrong in it is kept. */
export class Tab {
  constructor(page) {
    this.page = page;
    this.faults = [];
    page.setDefaultTimeout(WITHIN);
    page.on("pageerror", (error) => this.faults.push(String(error)));
    page.on("console", (message) => {
      // The page answers 4xx on purpose.
      if (message.type() === "error" && !/status of (4\d\d|503)/.test(message.text())) this.faults.push(message.text());
    });
    page.on("request", (request) => {
      const { hostname } = new URL(request.url());
      if (!hostname.endsWith(".localhost")) this.faults.push(`it asks for ${request.url()}`);
    });
    page.on("dialog", (dialog) => {
      this.faults.push(`a dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
  }

  async go(address) {
    await this.page.goto(address, { waitUntil: "load" });
  }

  /** Opens another window of the same browser, with the same cookies. */
  async beside(path) {
    const tab = new Tab(await this.page.browserContext().newPage());
    await tab.go(new URL(path, this.page.url()).href);
    return tab;
  }

  path() {
    return new URL(this.page.url()).pathname;
  }

  /** Waits until a function has returned `true` in the page. It asks by time: a window behind others draws no frames. */
  until(has, ...args) {
    return this.page.waitForFunction(has, { polling: 100 }, ...args);
  }

  /** Waits until the page has a text. */
  async sees(text) {
    const has = (text) => document.body.innerText.includes(text);
    await this.until(has, text).catch(async () => {
      assert.fail(`${text} is not on the page: ${await this.text()}`);
    });
  }

  text() {
    return this.page.evaluate(() => document.body.innerText);
  }

  count(selector) {
    return this.page.$$eval(selector, (found) => found.length);
  }

  async presses(...keys) {
    for (const key of keys) await this.page.keyboard.press(key);
  }

  /** Presses a key that leads to another page, and waits for that. */
  async leaves(act) {
    await this.page.bringToFront();
    await Promise.all([this.page.waitForNavigation({ waitUntil: "load" }), act()]);
  }

  /** Returns what has the focus: its name for people. */
  focused() {
    return this.page.evaluate(() => document.activeElement?.innerText ?? "");
  }

  /** Checks a view in light and dark, and keeps its pictures. */
  async check(name) {
    // A window behind others draws nothing.
    await this.page.bringToFront();
    for (const scheme of ["light", "dark"]) {
      await this.page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      await this.page.screenshot({ path: join(PICTURES, `${name}-${scheme}.png`), fullPage: true });
      // Not as an element: the page lets no other script in.
      await this.page.evaluate(AXE);
      const found = await this.page.evaluate(async () => {
        const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
        const { violations } = await window.axe.run(document, { runOnly: { type: "tag", values: tags } });
        return violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((it) => `${it.html} ${it.failureSummary}`).join("; ")}`);
      });
      assert.deepEqual(found, [], `${name}, ${scheme}`);
    }
    this.isWell();
  }

  /** Fails if something went wrong in the window. */
  isWell() {
    assert.deepEqual(this.faults, []);
  }
}

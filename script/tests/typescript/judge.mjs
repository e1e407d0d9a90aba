// Compares texts with their types blanked by us to what TypeScript makes of the originals. Reads an array of
// `{source, stripped, run}` on standard input and writes an array of `{index, why}`: what differs.
import { readFileSync } from "node:fs";
import { createContext, runInContext } from "node:vm";
import ts from "typescript";

const options = { target: ts.ScriptTarget.ESNext, module: ts.ModuleKind.ESNext, verbatimModuleSyntax: false };

// What the original is as JavaScript, or why it is no TypeScript.
function transpiled(source) {
  const out = ts.transpileModule(source, { reportDiagnostics: true, fileName: "a.ts", compilerOptions: options });
  const wrong = (out.diagnostics ?? []).find((diagnostic) => diagnostic.code < 2000 && ![1108, 1378].includes(diagnostic.code));
  return wrong ? { wrong: ts.flattenDiagnosticMessageText(wrong.messageText, " ") } : { text: out.outputText };
}

// The tree of a JavaScript text, without what has no meaning.
function tree(text) {
  const file = ts.createSourceFile("a.mjs", text, ts.ScriptTarget.ESNext, false, ts.ScriptKind.JS);
  if (file.parseDiagnostics.length > 0) {
    return { wrong: ts.flattenDiagnosticMessageText(file.parseDiagnostics[0].messageText, " ") };
  }
  const lines = [];
  const visit = (node, depth) => {
    switch (node.kind) {
      case ts.SyntaxKind.EmptyStatement:
      case ts.SyntaxKind.SemicolonClassElement:
      case ts.SyntaxKind.EndOfFileToken:
        return;
      case ts.SyntaxKind.ParenthesizedExpression:
        return visit(node.expression, depth);
      case ts.SyntaxKind.BinaryExpression:
        // What stands for the parentheses that would not fit.
        if (node.left.text === "0" && node.operatorToken.kind === ts.SyntaxKind.BarBarToken) return visit(node.right, depth);
        break;
      case ts.SyntaxKind.ExportDeclaration:
        // What TypeScript leaves behind to say that a file is a module.
        if (!node.moduleSpecifier && node.exportClause?.elements?.length === 0) return;
    }
    const own = node === file ? "" : node.text ?? node.escapedText ?? (node.operator ?? "");
    lines.push(`${" ".repeat(depth)}${ts.SyntaxKind[node.kind]} ${own} ${node.flags & ts.NodeFlags.BlockScoped}`);
    ts.forEachChild(node, (child) => visit(child, depth + 1));
  };
  visit(file, 0);
  return { lines };
}

function outcome(text) {
  try {
    return JSON.stringify(runInContext(`(() => {${text}\n})()`, createContext({}))) ?? "undefined";
  } catch (error) {
    return String(error);
  }
}

const differences = [];
JSON.parse(readFileSync(0, "utf8")).forEach(({ source, stripped, run }, index) => {
  const expected = transpiled(source);
  if (expected.wrong) {
    if (stripped !== null) differences.push({ index, why: `TypeScript refuses it: ${expected.wrong}` });
    return;
  }
  if (stripped === null) return void differences.push({ index, why: `TypeScript takes it:\n${expected.text}` });
  if (run) {
    const [theirs, ours] = [outcome(expected.text), outcome(stripped)];
    if (theirs !== ours) differences.push({ index, why: `${ours} instead of ${theirs}` });
    return;
  }
  const [theirs, ours] = [tree(expected.text), tree(stripped)];
  if (ours.wrong) return void differences.push({ index, why: `it does not parse: ${ours.wrong}\n${stripped}` });
  // Enums become something else than with TypeScript; what they are worth is compared by running.
  if (/\benum\b/.test(source)) return;
  const at = theirs.lines.findIndex((line, n) => line !== ours.lines[n]);
  if (at >= 0 || theirs.lines.length !== ours.lines.length) {
    const why = `at ${at}: ${ours.lines[at]} instead of ${theirs.lines[at]}\n${stripped}\n--- TypeScript:\n${expected.text}`;
    differences.push({ index, why });
  }
});
process.stdout.write(JSON.stringify(differences));

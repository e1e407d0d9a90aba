// Real agent frameworks with scripted models: one program with three tools and an approval through each.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Agent as MastraAgent } from "@mastra/core/agent";
import { Agent, Runner } from "@openai/agents";
import { assistantMessage, functionCall, ScriptedModel } from "@openai/agents/testing";
import { generateText, stepCountIs } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { generateText as generateText6, stepCountIs as stepCountIs6 } from "ai-6";
import { MockLanguageModelV3 } from "ai-6/test";
import { type ApprovalRequest, Host } from "sandbox-relay";

import { callsThenSays } from "./replies.js";
import { PROGRAM, shop } from "./tools.js";

/** Starts a host with the shop, and checks what one program of a model did there. */
async function served(use: (host: Host) => Promise<string>): Promise<void> {
  const { tools, orders } = shop();
  const questions: string[] = [];
  const approve = (question: ApprovalRequest) => {
    questions.push(question.tool);
    return true;
  };
  await using host = await Host.start({ tools, approve });
  const told = await use(host);
  assert.match(told, /ordered 12 pear/);
  assert.deepEqual(orders, [{ item: "pear", count: 12 }]);
  assert.deepEqual(questions, ["shop.order"]);
}

const replies = () => callsThenSays("execute_code", { code: PROGRAM });

test("the AI SDK", async () => {
  await served(async (host) => {
    const model = new MockLanguageModelV4({ doGenerate: replies() });
    const prompt = "Order what is missing";
    const { steps, text } = await generateText({ model, prompt, tools: host.aiSdk(), stopWhen: stepCountIs(3) });
    assert.equal(text, "Pears were ordered.");
    const names = model.doGenerateCalls[0]?.tools?.map(({ name }) => name);
    assert.deepEqual(names, ["execute_code", "search_tools", "describe_tools", "read_output"]);
    return String(steps[0]?.toolResults[0]?.output);
  });
});

test("the AI SDK 6", async () => {
  await served(async (host) => {
    const model = new MockLanguageModelV3({ doGenerate: replies() });
    const prompt = "Order what is missing";
    const { steps } = await generateText6({ model, prompt, tools: host.aiSdk(), stopWhen: stepCountIs6(3) });
    return String(steps[0]?.toolResults[0]?.output);
  });
});

test("Mastra", async () => {
  await served(async (host) => {
    const model = new MockLanguageModelV4({ doGenerate: replies() });
    const agent = new MastraAgent({
      id: "shopper",
      name: "shopper",
      instructions: "Order what is missing.",
      model: model as never,
      tools: host.mastra(),
    });
    const { toolResults, text } = await agent.generate("Order what is missing");
    assert.equal(text, "Pears were ordered.");
    return JSON.stringify(toolResults);
  });
});

test("the OpenAI Agents SDK", async () => {
  await served(async (host) => {
    const model = new ScriptedModel([
      [functionCall("execute_code", { code: PROGRAM }, { callId: "1" })],
      [assistantMessage("Pears were ordered.")],
    ]);
    const agent = new Agent({
      name: "shopper",
      instructions: "Order what is missing.",
      model,
      tools: host.openaiAgents(),
    });
    const runner = new Runner({ tracingDisabled: true });
    const result = await runner.run(agent, "Order what is missing");
    assert.equal(result.finalOutput, "Pears were ordered.");
    return JSON.stringify(result.newItems.map((item) => item.rawItem));
  });
});

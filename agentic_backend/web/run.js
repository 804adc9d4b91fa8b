/**
 * The run of an exchange: everything between its question and its answer, as a tree of agents and their steps.
 *
 * Pure. A step is an item of the timeline (`tool`, `thought`, `observation`, `activity`), or a node with `children`:
 * `expert`, an agent that another one has asked (with the `item` of that call), or `agent`, one that has taken over.
 * What one line of the tree tells is not told by another: the handoffs around an expert, the call that hands over, an
 * expert's words where they are the result of asking it.
 */

import { isOngoing } from "./client/transcript-exchange.js";
import { textOf } from "./timeline.js";

const ASKS = "ask_";
const HANDS_OVER = /^transfer_(?:back_)?to_/;
const STEPS = new Set(["tool", "thought", "observation", "activity"]);

/**
 * The items of an exchange as `{before, run, after}`; `run`, null where no tool was called, is
 * `{steps, tools, experts, names, running, startedAt, endedAt, waitedMs, media, said}`: the tree, how many tools were
 * called, the agents that were asked, the names of agents by id as far as the run tells them, the call that is running,
 * the times, what tools gave to be looked at, and the words that stand beside it while nothing newer is said.
 */
export function runOf(exchange, items) {
  if (!items.some(({ kind }) => kind === "tool")) return { before: items, run: null, after: [] };
  const first = items.findIndex(isStep);
  const steps = items.filter(isStep);
  const after = items.slice(first).filter((item) => !isStep(item));
  return { before: items.slice(0, first), run: told(exchange, steps, after), after };
}

/** That history was compacted, and what an agent says for good, is no step towards the answer. */
const isStep = ({ kind, activity, streaming }) =>
  STEPS.has(kind) && !streaming && (kind !== "activity" || activity === "handoff" || activity === "agent_switch");

function told(exchange, steps, after) {
  const { tree, asked } = treeOf(exchange, steps);
  const tools = steps.filter(({ kind }) => kind === "tool");
  const called = tools.filter(({ call }) => !handsOver(call) && !asked.has(call.call_id));
  const last = steps.at(-1);
  const speaks = isOngoing(exchange) && last?.kind === "observation" && !after.some(({ streaming }) => streaming);
  return {
    steps: tree,
    tools: called.length,
    experts: [...new Set(asked.values())],
    names: namesIn(steps),
    running: tools.findLast(({ state }) => state === "running") ?? null,
    ...times(exchange, steps),
    media: tools.flatMap(({ parts = [] }) => parts.filter(isMedia)),
    said: speaks ? last : null,
  };
}

/** Whoever may ask a leader is told of experts that are not among the reader's own agents. */
const namesIn = (steps) =>
  new Map(
    steps
      .flatMap(({ data }) => [
        [data?.from, data?.from_name],
        [data?.to, data?.to_name],
      ])
      .filter(([, name]) => name),
  );

const handsOver = ({ name }) => HANDS_OVER.test(name);

const MEDIA = new Set(["image_url", "geo", "custom"]);

/** Images, files and what has a form of its own are what was asked for; sources are listed below the answer. */
export const isMedia = ({ type, kind }) => MEDIA.has(type) || (type === "link" && kind !== "citation");

function treeOf(exchange, steps) {
  const agents = new Set(steps.map(({ agent }) => agent));
  const root = exchange.agentId ?? steps.find(({ agent }) => agent)?.agent;
  const top = { children: [] };
  const asked = new Map();
  const experts = new Map();
  let current = top;
  for (const step of steps) {
    const { kind, agent, call, data, activity } = step;
    const expert = kind === "tool" && call.name.startsWith(ASKS) ? call.name.slice(ASKS.length) : null;
    if (kind === "activity") {
      const known = agents.has(data?.to) || data?.to === root || experts.has(data?.to);
      if (!known && activity === "handoff") current.children.push(step);
    } else if (expert !== null && (agents.has(expert) || wasHandedTo(steps, expert))) {
      const node = { kind: "expert", key: step.key, agent: expert, item: step, children: [] };
      (experts.get(agent) ?? current).children.push(node);
      experts.set(expert, node);
      asked.set(call.call_id, expert);
    } else if (experts.has(agent)) {
      const node = experts.get(agent);
      if (!isItsResult(step, node)) node.children.push(step);
    } else if (kind === "tool" && handsOver(call) && agents.has(call.name.replace(HANDS_OVER, ""))) {
      // The agent that follows tells it.
    } else if (!agent || agent === root) {
      current = top;
      top.children.push(step);
    } else {
      if (current.agent !== agent) {
        current = { kind: "agent", key: `agent:${step.key}`, agent, children: [] };
        top.children.push(current);
      }
      current.children.push(step);
    }
  }
  return { tree: top.children, asked };
}

const wasHandedTo = (steps, agent) =>
  steps.some(({ kind, activity, data }) => kind === "activity" && activity === "handoff" && data?.to === agent);

const isItsResult = ({ kind, parts }, { item }) =>
  kind === "observation" && item.result?.content?.trim() === textOf(parts).trim();

/** From the question to the last step; without the time in which it waited for a person. */
function times({ messages, startedAt = messages[0]?.timestamp }, steps) {
  const ends = steps.flatMap(({ at, endedAt }) => [at, endedAt]).filter(Boolean);
  const waits = steps
    .filter(({ decision, at }) => decision?.at && at)
    .map(({ decision, at }) => [Date.parse(at), Date.parse(decision.at)])
    .sort(([a], [b]) => a - b);
  let [waitedMs, until] = [0, 0];
  for (const [from, to] of waits) {
    waitedMs += Math.max(0, to - Math.max(from, until));
    until = Math.max(until, to);
  }
  return { startedAt, endedAt: ends.reduce((latest, at) => (at > latest ? at : latest), ""), waitedMs };
}

/** What people are shown for a call's tool: its title, or its name in words. */
export const titleOf = ({ name, title }) => title || friendly(name);

/** A tool's name in words: `get_weather_forecast` as "Get weather forecast". */
function friendly(name) {
  const words = name
    .replace(/([a-z\d])([A-Z])/g, "$1 $2")
    .split(/[\s_\-.:/]+/)
    .filter(Boolean)
    .map((word) => (/^[A-Z][a-z]+$/.test(word) ? word.toLowerCase() : word))
    .join(" ");
  return words ? words[0].toUpperCase() + words.slice(1) : name;
}

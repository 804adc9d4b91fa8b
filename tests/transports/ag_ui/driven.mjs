// Drives a server with AG-UI's client, which verifies the order of events, and prints what it gets as JSON.

import { createRequire } from "node:module";

const [modules, url, token] = process.argv.slice(2);
const { HttpAgent } = createRequire(`${modules}/`)("@ag-ui/client");
const headers = { Authorization: `Bearer ${token}` };
const got = {};

/** A thread with this agent, in which `say` asks, and `go` also resumes. */
function thread(agent, threadId) {
  const client = new HttpAgent({ url: `${url}/${agent}`, threadId, headers });
  const events = [];
  let ended = null;
  const subscriber = {
    onEvent: ({ event }) => void events.push(event.type),
    onRunFinishedEvent: (finished) => void (ended = finished.outcome),
    onRunErrorEvent: ({ event }) => void (ended = { message: event.message, code: event.code }),
  };
  const go = async (parameters) => {
    await client.runAgent(parameters, subscriber);
    return client.messages.map(({ role, content, toolCalls }) => ({ role, content, toolCalls }));
  };
  const say = (content) => {
    client.addMessage({ id: crypto.randomUUID(), role: "user", content });
    return go();
  };
  return { client, events, say, go, ended: () => ended, subscriber };
}

const sums = thread("assistant", "sums");
got.sum = await sums.say("What is 12*34?");
got.sumEvents = sums.events;
got.sumEnded = sums.ended();

const names = thread("assistant", "names");
await names.say("My name is Ann.");
got.name = (await names.say("What is my name?")).at(-1).content;

const thoughts = thread("thinking", "thoughts");
got.thoughts = await thoughts.say("go");

async function asked(agent, threadId, message, answer) {
  const talk = thread(agent, threadId);
  await talk.say(message);
  const interrupts = talk.client.pendingInterrupts;
  const resume = interrupts.map(({ id }) => ({ interruptId: id, ...answer }));
  const messages = await talk.go({ resume });
  return { interrupts, ended: talk.ended(), messages, pending: talk.client.pendingInterrupts.length };
}

const email = 'send_email {"to": "ann@example.org"}';
const edited = { approved: true, editedArgs: { to: "bob@example.org" } };
got.approved = await asked("approving", "approved", email, { status: "resolved", payload: { approved: true } });
got.edited = await asked("approving", "edited", email, { status: "resolved", payload: edited });
got.rejected = await asked("approving", "rejected", email, { status: "cancelled" });
got.answered = await asked("name", "answered", "go", { status: "resolved", payload: "Ann" });
got.abandoned = await asked("name", "abandoned", "go", { status: "cancelled" });

// A front end that is opened anew, with nothing of the thread.
const again = thread("assistant", "names");
got.again = await again.go();
await thread("approving", "reopened").say(email);
const reopened = thread("approving", "reopened");
await reopened.go();
got.reopened = { ended: reopened.ended(), roles: reopened.client.messages.map(({ role }) => role) };
const [{ id }] = reopened.client.pendingInterrupts;
const approval = { interruptId: id, status: "resolved", payload: { approved: true } };
got.reopenedApproved = (await reopened.go({ resume: [approval] })).at(-1).content;
got.nothing = await thread("assistant", "nothing").go();

const hanging = thread("assistant", "hanging");
hanging.subscriber.onTextMessageContentEvent = () => hanging.client.abortRun();
await hanging.say("hang after 5 tokens").catch(() => null);
got.aborted = hanging.ended();

const failing = thread("raising", "failing");
await failing.say("go").catch(() => null);
got.failed = failing.ended();

const unknown = thread("nobody", "unknown");
got.refused = await unknown.say("go").catch(({ status, payload }) => ({ status, code: payload.error.code }));

console.log(JSON.stringify(got));

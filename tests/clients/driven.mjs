/**
 * A program that uses the TypeScript client as a test tells it to.
 *
 * Commands come as lines of JSON, `{do, …}`; what it hears goes out as lines too, `{from, event}` for each event of a
 * reader. Its transcript is made of all events, as they come.
 */

import { createInterface } from "node:readline";
import { applyEvent, connect, fork, newTranscript, upload } from "@agentic-backend/client";
import { exported, rate, revokeShare, share, shared, shares } from "@agentic-backend/client";
import WebSocket from "ws";

const tell = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

const { patience, token, speed = 1, native = false } = JSON.parse(process.env.DRIVEN ?? "{}");
if (speed !== 1) runFaster(speed);
const tokens = process.argv.slice(3);
let transcript = newTranscript();
const events = new Map();

/** All of the program's clocks and timers. */
function runFaster(times) {
  const { setTimeout, setInterval, Date } = globalThis;
  const [began, now] = [Date.now(), Date.now];
  globalThis.setTimeout = (call, ms, ...more) => setTimeout(call, ms / times, ...more);
  globalThis.setInterval = (call, ms, ...more) => setInterval(call, ms / times, ...more);
  Date.now = () => began + (now() - began) * times;
}

const began = Date.now();
let asked = 0;
/** What a token function may do, at first or always. */
const TROUBLES = {
  raises() {
    throw new RangeError("secret");
  },
  fails() {
    throw new TypeError("secret", { cause: Object.assign(new Error("secret"), { code: "ECONNREFUSED" }) });
  },
  hangs: () => new Promise(() => {}),
};

const chat = connect(process.argv[2], {
  ...(native ? {} : { WebSocket }),
  ...(patience === undefined ? {} : { patience }),
  tokens({ renew }) {
    asked += 1;
    if (token && (token.always || asked === 1)) return TROUBLES[token.trouble]();
    if (renew) tokens.shift();
    return tokens.length ? { access_token: tokens[0] } : null;
  },
  onEvent: (event) => (transcript = applyEvent(transcript, event)),
  onState: ({ phase, code, why }) => tell({ phase, code, why }),
});

async function read(from) {
  try {
    for await (const event of events.get(from)) tell({ from, event });
    tell({ from, ended: true, after_s: afterS() });
  } catch (error) {
    tell({ from, ...failure(error) });
  }
}

const afterS = () => (Date.now() - began) / 1_000;
const failure = ({ name, code, phase, message }) => ({ failed: name, code, of: phase, message, after_s: afterS() });

/** Tells when a call has been taken, or how it has failed. */
async function called(from, call) {
  tell({ from, ...(await call.then(() => ({ taken: true, after_s: afterS() }), failure)) });
}

const commands = {
  ask({ as, message, fields, unread = false }) {
    events.set(as, chat.ask(message, fields));
    if (!unread) read(as);
  },
  read: ({ as }) => read(as),
  /** Rates the answer at rank 1, exports the session, shares it, and closes the link. */
  async keep({ as, session_id: sessionId }) {
    const server = process.argv[2];
    const options = { tokens: tokens.length ? { access_token: tokens[0] } : null };
    await rate(server, sessionId, 1, { rating: "up", comment: "good" }, options);
    await rate(server, sessionId, 1, null, options);
    const text = await (await exported(server, sessionId, "md", options)).text();
    const { id, secret } = await share(server, sessionId, { ...options, days: 2 });
    const open = await shares(server, sessionId, options);
    const { messages } = await shared(server, secret, options);
    await revokeShare(server, sessionId, id, options);
    const closed = await shared(server, secret, options).catch((error) => error.code);
    tell({ from: as, text, open: open.map((each) => each.id === id), ranks: messages.map(({ rank }) => rank), closed });
  },
  async upload({ as, name, text }) {
    const given = { name, tokens: tokens.length ? { access_token: tokens[0] } : null };
    const attachment = await upload(process.argv[2], new Blob([text]), given).catch((error) => ({ failed: error.code }));
    tell({ from: as, ...attachment });
  },
  async fork({ as, session_id, rank }) {
    const options = { tokens: tokens.length ? { access_token: tokens[0] } : null };
    const refused = ({ name, code }) => ({ failed: code ?? name });
    const branch = await fork(process.argv[2], session_id, rank, options).catch(refused);
    tell({ from: as, ...branch });
  },
  follow_exchange({ as, session_id, exchange_id, seq }) {
    events.set(as, chat.followExchange(session_id, exchange_id, seq));
    read(as);
  },
  follow_session({ as, session_id, unread = false }) {
    events.set(as, chat.followSession(session_id));
    if (!unread) read(as);
  },
  follow_sessions({ as }) {
    events.set(as, chat.followSessions());
    read(as);
  },
  async leave({ as }) {
    await events.get(as)[Symbol.asyncIterator]().return();
  },
  async decide({ as, event, made }) {
    await called(as, chat.decide(event, made));
  },
  /** Asks and decides with what JSON can't write. */
  async unwritable({ as, event, request }) {
    const failures = [];
    try {
      chat.ask("hello", { runtime_context: { number: 1n } });
    } catch ({ name }) {
      failures.push(name);
    }
    const args = {};
    args.itself = args;
    await chat.decide(event, [{ request, decision: { action: "edit", args } }]).catch(({ name }) => failures.push(name));
    tell({ from: as, failures });
  },
  async stop({ as, session_id }) {
    if (session_id) await called(as, chat.stop(session_id));
    else events.get(as).stop();
  },
  place: ({ as }) => tell({ from: as, id: events.get(as).id, session_id: events.get(as).sessionId, seq: events.get(as).seq }),
  transcript: () => tell({ from: "transcript", transcript }),
  connect: () => chat.connect(),
  close: () => chat.close(),
};

createInterface({ input: process.stdin })
  .on("line", (line) => {
    const command = JSON.parse(line);
    commands[command.do](command);
  })
  .on("close", () => chat.close());

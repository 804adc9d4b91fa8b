// Drives a server with MCP's client for TypeScript, and prints what it gets as JSON.

const [modules, url, token] = process.argv.slice(2);
const sdk = `${modules}/@modelcontextprotocol/sdk/dist/esm`;
const { Client } = await import(`${sdk}/client/index.js`);
const { StreamableHTTPClientTransport } = await import(`${sdk}/client/streamableHttp.js`);
const { ElicitRequestSchema } = await import(`${sdk}/types.js`);

const got = { forms: [], progress: [] };
const requestInit = { headers: { Authorization: `Bearer ${token}` } };

async function connected(capabilities, options = {}) {
  const client = new Client({ name: "driven", version: "1" }, { capabilities });
  const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit, ...options });
  await client.connect(transport);
  return client;
}

const client = await connected({ elicitation: { form: {} } });
client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
  got.forms.push(params.message);
  return { action: "accept", content: { decision: "approve" } };
});
got.version = client.transport.protocolVersion;
got.tools = (await client.listTools()).tools.map(({ name }) => name);

const asked = { name: "assistant", arguments: { message: "What is 12*34?" } };
const onprogress = ({ message }) => got.progress.push(message);
const answer = await client.callTool(asked, undefined, { onprogress });
got.answer = answer.structuredContent.answer;
got.text = answer.content[0].text;

const email = { message: 'send_email {"to": "ann@example.org"}' };
got.approved = (await client.callTool({ name: "approving", arguments: email })).structuredContent.answer;

// The connection breaks in mid-call; the client takes the stream up again by itself.
let isCut = false;
const reconnectionOptions = { initialReconnectionDelay: 50, maxReconnectionDelay: 50, reconnectionDelayGrowFactor: 1, maxRetries: 5 };
const broken = async (input, init) => {
  const response = await fetch(input, init);
  if (isCut || init.method !== "POST" || !String(init.body).includes("tools/call")) return response;
  isCut = true;
  const reader = response.body.getReader();
  const first = await reader.read();
  await reader.cancel();
  const body = new ReadableStream({
    start(controller) {
      controller.enqueue(first.value);
      controller.close();
    },
  });
  return new Response(body, { status: response.status, headers: response.headers });
};
const other = await connected({}, { fetch: broken, reconnectionOptions });
const waited = { name: "assistant", arguments: { message: "wait 1 second" } };
got.afterCut = (await other.callTool(waited)).structuredContent.status;
got.isCut = isCut;

// A cancelled call stops its exchange.
const leaving = new AbortController();
const hanging = { name: "assistant", arguments: { message: "hang after 5 tokens" } };
try {
  await other.callTool(hanging, undefined, { signal: leaving.signal, onprogress: () => leaving.abort("no more") });
} catch (error) {
  got.aborted = String(error);
}

const { resources } = await client.listResources();
got.resources = resources.length;
const { contents } = await client.readResource({ uri: resources[0].uri });
got.resource = contents[0].text;

const unknown = await client.callTool({ name: "nobody", arguments: { message: "hello" } }).catch((error) => error);
got.unknown = { code: unknown.code };
got.refused = await client.callTool({ name: "echo", arguments: { message: "hello", session_id: "nowhere" } });

await client.close();
await other.close();
console.log(JSON.stringify(got));

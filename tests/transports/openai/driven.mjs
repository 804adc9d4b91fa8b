// Drives a server with OpenAI's client, and prints what it gets as JSON.

const [modules, baseURL, apiKey] = process.argv.slice(2);
const { default: OpenAI, APIError } = await import(`${modules}/openai/index.mjs`);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const got = {};

got.models = (await client.models.list()).data.map(({ id }) => id);

const asked = { model: "assistant", messages: [{ role: "user", content: "What is 12*34?" }] };
got.whole = (await client.chat.completions.create(asked)).choices[0].message.content;
const stream = client.chat.completions.stream({ ...asked, stream_options: { include_usage: true } });
let text = "";
stream.on("content", (delta) => (text += delta));
got.streamed = (await stream.finalChatCompletion()).choices[0].message.content;
got.text = text;
got.tokens = (await stream.totalUsage()).total_tokens;

// The client's own loop over tools: it calls the functions, and sends what they return.
const approval = {
  type: "function",
  function: {
    name: "request_approval",
    parameters: { type: "object", properties: {} },
    parse: JSON.parse,
    function: ({ tool }) => ({ action: tool === "send_email" ? "approve" : "reject" }),
  },
};
const runner = client.chat.completions.runTools({
  model: "approving",
  messages: [{ role: "user", content: 'send_email {"to": "ann@example.org"}' }],
  tools: [approval],
  metadata: { conversation_id: "from JavaScript" },
});
got.approved = await runner.finalContent();

const first = await client.responses.create({ model: "echo", input: "hello" });
got.response = first.output_text;
got.events = [];
for await (const event of await client.responses.create({
  model: "echo",
  input: "and?",
  previous_response_id: first.id,
  stream: true,
})) {
  got.events.push(event.type);
}

try {
  await client.chat.completions.create({ ...asked, model: "nobody" });
} catch (error) {
  got.refused = { status: error.status, code: error.code, isTyped: error instanceof APIError };
}

console.log(JSON.stringify(got));

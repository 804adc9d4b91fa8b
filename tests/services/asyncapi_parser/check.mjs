// Prints what AsyncAPI's own parser finds in the document on standard input, as JSON: [{severity, code, path, message}].
import { text } from "node:stream/consumers";
import { Parser } from "@asyncapi/parser";

const { diagnostics } = await new Parser().parse(await text(process.stdin));
const found = diagnostics.map(({ severity, code, path, message }) => ({ severity, code, path: path.join("."), message }));
process.stdout.write(JSON.stringify(found));

export * from "./dist/index.js";
export type * from "./dist/asks.js";
export type * from "./dist/attachments.js";
export type * from "./dist/call.js";
export type * from "./dist/chat.js";
export type * from "./dist/connection.js";
export type * from "./dist/session-calls.js";
export type * from "./dist/transcript-exchange.js";
export type * from "./protocol.js";

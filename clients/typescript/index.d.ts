export * from "./dist/index.js";
export type * from "./protocol.js";

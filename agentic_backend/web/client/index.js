/** What the client offers to other programs; the page imports from the modules themselves. */

export * from "./approvals.js";
export { upload } from "./attachments.js";
export { fork } from "./branches.js";
export { Chat, connect } from "./chat.js";
export { Connection, socketUrl } from "./connection.js";
export { Disconnected, Refused, Unreadable } from "./errors.js";
export { parseExactly } from "./exact-json.js";
export { Exchange } from "./exchange.js";
export { exported, rate, revokeShare, share, shared, shares } from "./session-calls.js";
export { SessionFeed } from "./session-feed.js";
export { SessionList } from "./session-list.js";
export { isOngoing } from "./transcript-exchange.js";
export * from "./transcript.js";

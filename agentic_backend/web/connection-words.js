/** What the page says of the state of its connection. */

import { RESTART } from "./client/connection.js";

const REFUSALS = {
  1002: "The server doesn't understand this page. Reload it.",
  1003: "The server doesn't understand this page. Reload it.",
  1008: "The server refused the connection.",
  1009: "Your message was too large to send. Shorten it, then connect again.",
  4403: "You don't have access to this server.",
  4429: "Too many connections are open. Close other tabs; this one tries again in a minute.",
};

/** What there is to say beside the phase, or null. */
export function noticeOf({ phase, code }, signIn) {
  if (phase === "refused") return REFUSALS[code];
  if (phase !== "signed_out") return code === RESTART ? "The server restarts. Reconnecting…" : null;
  return signIn.renewable
    ? "The server does not accept your sign-in."
    : "Your sign-in has ended. Please sign in again.";
}

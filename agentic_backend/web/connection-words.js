/** What the page says of the state of its connection. */

import { RESTART } from "./client/connection.js";
import { t } from "./i18n.js";

const REFUSALS = {
  1002: t("The server doesn't understand this page. Reload it."),
  1003: t("The server doesn't understand this page. Reload it."),
  1008: t("The server refused the connection."),
  1009: t("Your message was too large to send. Shorten it, then connect again."),
  4403: t("You don't have access to this server."),
  4429: t("Too many connections are open. Close other tabs; this one tries again in a minute."),
};

/** What there is to say beside the phase, or null. */
export function noticeOf({ phase, code }, signIn) {
  if (phase === "refused") return REFUSALS[code];
  if (phase === "signed_out") {
    return signIn.renewable
      ? t("The server does not accept your sign-in.")
      : t("Your sign-in has ended. Please sign in again.");
  }
  if (code === RESTART) return t("The server restarts. Reconnecting…");
  return navigator.onLine ? null : t("You are offline. What you write is sent when you are back.");
}

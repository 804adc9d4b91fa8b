/** What the document of an MCP server declares that it needs, and what it lacks of that. Pure. */

import { visible } from "../format.js";
import { t } from "../i18n.js";
import { isObject } from "./plain-json.js";

/** The query by which its frame allows the hosts that it declares, as far as the server's settings do. */
export function frameQuery({ server, needs }) {
  const hosts = Object.entries(cspOf(needs)).flatMap(([kind, each]) => each.map((host) => [kind, host]));
  return hosts.length ? `?${new URLSearchParams([["server", server], ...hosts])}` : "";
}

/** What it lacks, in words; null for nothing. `allowed` are the hosts that its frame allows, by kind. */
export function lackingWords(needs, allowed) {
  if (!isObject(needs)) return null;
  const hosts = Object.entries(cspOf(needs)).flatMap(([kind, each]) => each.filter((host) => !allowed[kind]?.includes(host)));
  const permissions = Object.entries(PERMISSIONS).filter(([name]) => needs.permissions?.includes?.(name));
  const words = [
    ...new Set(hosts.map(visible)),
    ...permissions.map(([, text]) => text),
    ...(needs.domain ? [t("an address of its own")] : []),
    ...(needs.unreadable ? [t("hosts that can't be read")] : []),
  ];
  return words.length ? t("Not given to it here: {needs}", { needs: words.join(", ") }) : null;
}

const cspOf = ({ csp } = {}) =>
  isObject(csp) ? Object.fromEntries(Object.entries(csp).map(([kind, hosts]) => [kind, [hosts].flat().map(String)])) : {};

const PERMISSIONS = {
  camera: t("camera"),
  microphone: t("microphone"),
  geolocation: t("location"),
  clipboardWrite: t("clipboard"),
};

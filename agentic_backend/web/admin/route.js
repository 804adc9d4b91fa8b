/**
 * The places of the administration, as they stand in the address: `#admin/agents` is the list, `#admin/agents/ID` an
 * agent, `#admin/agents/ID/versions` its versions, and `#admin/new-agent` one that is not saved yet.
 */

import { adminInAddress } from "../location.js";

export const LIST = "#admin/agents";
export const NEW_AGENT = "#admin/new-agent";
export const agentPlace = (id) => `${LIST}/${encodeURIComponent(id)}`;
export const versionsPlace = (id) => `${agentPlace(id)}/versions`;

/** `{view, id?}`: `list`, `new`, `agent` or `versions`; null: the address is no place of the administration. */
export function route() {
  const place = adminInAddress();
  if (place === null) return null;
  if (place === "new-agent") return { view: "new" };
  const [, id, versions] = /^agents\/([^/]+)(\/versions)?$/.exec(place) ?? [];
  if (!id) return { view: "list" };
  return { view: versions ? "versions" : "agent", id: decoded(id) };
}

function decoded(id) {
  try {
    return decodeURIComponent(id);
  } catch {
    return id;
  }
}

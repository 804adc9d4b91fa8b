/** Calls for which the person has to approve of something first. */

import { ApiError } from "../api.js";
import { isExact } from "../client/exact-json.js";
import { formatJson, visible, visibleLines } from "../format.js";
import { t } from "../i18n.js";
import { Refused } from "./frame-host.js";

/** So many things of one call. */
const MOST = 8;
/** How long ago the person may have begun it, in milliseconds: it may take its time before it asks. */
const BEGUN_MS = 30_000;

/**
 * What `call(options)` resolves to; again with what the person has approved of, as often as that is asked for. `begun(ms)`
 * rejects unless they have begun it within this time, and `confirm` asks them.
 */
export async function approved(call, { begun, confirm }) {
  const hashes = [];
  for (;;) {
    try {
      return await call(hashes.length ? { approved: hashes.join(", ") } : {});
    } catch (error) {
      const isAsked = error instanceof ApiError && error.approval && hashes.length < MOST;
      if (!isAsked || hashes.includes(error.approval.sha256)) throw error;
      if (!isExact(error.approval.data)) throw new Refused("This browser can't show the numbers to approve of.");
      if (!hashes.length) await begun(BEGUN_MS);
      if (!(await isApproved(error.approval, confirm))) throw new Refused("The person does not approve of it.");
      hashes.push(error.approval.sha256);
    }
  }
}

function isApproved({ asked_by: by, title, data }, confirm) {
  const text = [`${visible(by)}: ${visible(title)}`, visibleLines(formatJson(data))].join("\n");
  return confirm({ title: t("Approve of this?"), text, confirm: t("Approve") });
}

/** Calls for which the person has to approve of something first. */

import { ApiError } from "../api.js";
import { formatJson, visible, visibleLines } from "../format.js";
import { t } from "../i18n.js";
import { Refused } from "./frame-host.js";

/**
 * What `call(options)` resolves to; once more with what the person has approved of, where that is needed. `begun()`
 * rejects unless they have begun it, and `confirm` asks them.
 */
export async function approved(call, { begun, confirm }) {
  try {
    return await call({});
  } catch (error) {
    if (!(error instanceof ApiError) || !error.approval) throw error;
    const { title, data, sha256 } = error.approval;
    await begun();
    const text = [visible(title), visibleLines(formatJson(data))].join("\n");
    if (!(await confirm({ title: t("Approve of this?"), text, confirm: t("Approve") })))
      throw new Refused("The person does not approve of it.");
    return call({ approved: sha256 });
  }
}

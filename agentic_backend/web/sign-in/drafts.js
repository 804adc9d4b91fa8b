/** Unsent texts on their way through Keycloak's pages, for this tab and for the user who wrote them. */

const KEY = "agentic.drafts";

export const keepDrafts = (userId, drafts) => sessionStorage.setItem(KEY, JSON.stringify({ userId, drafts }));

/** The drafts that were kept, if they are this user's; nobody gets them twice. */
export function takeDrafts(userId) {
  const kept = JSON.parse(sessionStorage.getItem(KEY));
  sessionStorage.removeItem(KEY);
  return kept?.userId === userId ? kept.drafts : {};
}

/** Where the server's calls are. */

/**
 * The address of a call of the server whose page is at `server`.
 *
 * @param {string | URL} server
 * @param {string} path  what comes behind `agentic/v1/`
 */
export function serverUrl(server, path) {
  const url = new URL(server);
  if (!url.pathname.endsWith("/")) url.pathname += "/";
  return new URL(`agentic/v1/${path}`, url);
}

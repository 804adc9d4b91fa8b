const RETRY_MS = 2_000;

/** What `load` resolves to; a failure, as while the network is away, is tried again. */
export async function persistently(load) {
  for (;;) {
    try {
      return await load();
    } catch {
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

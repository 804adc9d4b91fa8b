/** Components that are loaded when they are first shown, so that a visit that never needs them doesn't wait for them. */

import { html, useEffect, useState } from "./html.js";

const RETRY_MS = 2_000;

/** The component that `load` resolves to. Until it is there nothing is shown; a failure is tried again. */
export function lazy(load) {
  let View = null;
  let loading = null;
  return (properties) => {
    const [, setLoaded] = useState(View !== null);
    useEffect(() => {
      if (View) return undefined;
      let isShown = true;
      loading ??= persistently(load).then((loaded) => (View = loaded));
      loading.then(() => isShown && setLoaded(true));
      return () => (isShown = false);
    }, []);
    return View && html`<${View} ...${properties} />`;
  };
}

async function persistently(load) {
  for (;;) {
    try {
      return await load();
    } catch {
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

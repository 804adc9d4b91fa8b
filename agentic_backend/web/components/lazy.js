/** Components that are loaded when they are first shown, so that a visit that never needs them doesn't wait for them. */

import { persistently } from "../persistently.js";
import { html, useEffect, useState } from "./html.js";

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

/** What components are written with: htm templates over preact, its hooks, and `memo`. */

import htm from "../vendor/htm.js";
import { useState } from "../vendor/hooks.js";
import { Component, createContext, h, render } from "../vendor/preact.js";

export { createContext, render };
export { useCallback, useContext, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/hooks.js";

export const html = htm.bind(h);

let ids = 0;

/** An id for an element of this component. Preact's own begin anew at each rendering of the root: two would be equal. */
export const useId = () => useState(() => `id-${(ids += 1)}`)[0];

/** Renders `View` again only when one of its properties is another value. */
export function memo(View) {
  return class extends Component {
    shouldComponentUpdate(next) {
      for (const name in next) if (next[name] !== this.props[name]) return true;
      for (const name in this.props) if (!(name in next)) return true;
      return false;
    }

    render(properties) {
      return h(View, properties);
    }
  };
}

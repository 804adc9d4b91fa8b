/** What components are written with: htm templates over preact, its hooks, and `memo`. */

import htm from "../vendor/htm.js";
import { Component, h, render } from "../vendor/preact.js";

export { render };
export { useCallback, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "../vendor/hooks.js";

export const html = htm.bind(h);

/** Renders `View` again only when one of its properties is another value. */
export function memo(View) {
  return class extends Component {
    shouldComponentUpdate(next) {
      const names = new Set([...Object.keys(next), ...Object.keys(this.props)]);
      return [...names].some((name) => next[name] !== this.props[name]);
    }

    render(properties) {
      return h(View, properties);
    }
  };
}

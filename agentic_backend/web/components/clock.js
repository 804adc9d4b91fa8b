/** The time of day for what is shown relative to it. */

import { useEffect, useState } from "./html.js";

/** The time in milliseconds, anew every `everyMs`. */
export function useNow(everyMs) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

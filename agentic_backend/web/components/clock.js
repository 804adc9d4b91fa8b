/** The time of day for what is shown relative to it. */

import { serverNow } from "../server-time.js";
import { useEffect, useState } from "./html.js";

/** The server's time in milliseconds, anew every `everyMs`. */
export function useNow(everyMs) {
  const [now, setNow] = useState(serverNow);
  useEffect(() => {
    const timer = setInterval(() => setNow(serverNow()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

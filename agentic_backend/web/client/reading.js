/**
 * Which events this version knows, and whether one has what the client reads of it.
 *
 * Fields that are not read here are not checked; types that are not known are ignored.
 */

/** @import { ServerEvent } from "@agentic-backend/client/protocol" */

/** @typedef {(value: any) => boolean} Check */

/** @type {Check} */
const isText = (value) => typeof value === "string";
/** @type {Check} */
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
/** @type {(isElement: Check) => Check} */
const isListOf = (isElement) => (value) => Array.isArray(value) && value.every(isElement);
/** @type {(fields: Readonly<Record<string, Check>>) => Check} */
const has = (fields) => (value) => isObject(value) && Object.entries(fields).every(([name, fits]) => fits(value[name]));

const isMessage = has({ rank: Number.isInteger, role: isText, parts: isListOf(has({ type: isText })) });
const isWritten = has({ block: Number.isInteger, text: isText });
const place = { exchange_id: isText, seq: Number.isInteger };
const isExchangeError = has({ ...place, code: isText, content: isText });
const isRefusal = has({ code: isText, content: isText });

/** @satisfies {Record<ServerEvent["type"], Check>} */
const CHECKS = {
  started: has(place),
  stream: has({ ...place, message: isMessage }),
  delta: has({ ...place, block: Number.isInteger, text: isText }),
  activity: has({ ...place, kind: isText, data: isObject }),
  awaiting_human: has({ ...place, payload: has({ requests: isListOf(has({ interrupt_id: isText })) }) }),
  error: (event) => ("seq" in event ? isExchangeError(event) : isRefusal(event)),
  reset: has({ ...place, messages: isListOf(isMessage), partial: isListOf(isWritten) }),
  final: has({ ...place, status: isText, messages: isListOf(isMessage) }),
  session: has({ session: has({ id: isText }) }),
  session_deleted: has({ session_id: isText }),
  following_sessions: isObject,
  idle: isObject,
  pong: isObject,
};

/** @param {ServerEvent} event */
export const isKnown = (event) => Object.hasOwn(CHECKS, event.type);

/**
 * Whether the fields of an event are of their types, as far as they are read; true of a type that is not known.
 *
 * @param {ServerEvent} event
 */
export const isReadable = (event) => !isKnown(event) || CHECKS[event.type](event);

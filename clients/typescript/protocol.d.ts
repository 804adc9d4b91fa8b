/**
 * The protocol of the server, as TypeScript types.
 *
 * Generated from its JSON Schemas by `make clients`. A server of the same protocol may send fields and types of events
 * that are not here; a client ignores them.
 */

/** What the agent is doing. */
export interface Activity {
  readonly type: "activity";
  /** Null in query mode only. */
  readonly session_id: string | null;
  /** The exchange that the event tells of. */
  readonly exchange_id: string;
  /** The event's place in its exchange. It rises, perhaps with gaps; `started` and `reset` may set it lower again. */
  readonly seq: number;
  /** What `data` tells of. */
  readonly kind: "agent_switch" | "handoff" | "progress" | "compacted";
  /** The facts, by name; a client ignores those it doesn't know. */
  readonly data: Readonly<Record<string, unknown>>;
}

/** What the person has to approve of, before the request is sent again with `sha256` in its header `Approval`. */
export interface ApprovalAsked {
  /** Who asks: the id of an application, or `mcp:` and that of an MCP server. */
  readonly asked_by: string;
  /** What is to be done, in words. */
  readonly title: string;
  /** With what, for the person to read whole. */
  readonly data: Readonly<Record<string, unknown>>;
  /** Names all of it, in hexadecimal digits. */
  readonly sha256: string;
}

/** One ask; it begins an exchange. */
export interface Ask {
  readonly type: "ask";
  /** What the user says. */
  readonly message: string;
  /** The session to ask in; absent: a new one is opened. */
  readonly session_id?: string | null;
  /** The agent to ask; absent: the session's, or the server's default. */
  readonly agent_id?: string | null;
  /** The client's own id for the exchange: an ask that is sent again with it begins nothing more. */
  readonly client_exchange_id?: string | null;
  /** The ids of files that the user has uploaded, and that belong to the message. A query has none. */
  readonly attachments?: readonly string[] | null;
  /** `query` asks without a session: nothing is kept, and nothing remembered but the `history` beside it. */
  readonly mode?: "chat" | "query" | null;
  /** What was said before a query, the oldest first. A session has its own. */
  readonly history?: readonly PastMessage[] | null;
  /** The chat profile of a new session, or of this one exchange in an earlier one. */
  readonly chat_profile?: string | null;
  /** Whose settings apply to a new session, or to a query: an id by the kind of scope. */
  readonly scope?: Readonly<Record<string, string>> | null;
  /** The client's data for the agent; it never identifies the user, and may hold no credential. */
  readonly runtime_context?: Readonly<Record<string, unknown>> | null;
  /** Renews the socket's token. */
  readonly access_token?: string | null;
  /** Goes with `access_token`. */
  readonly refresh_token?: string | null;
  /** The older name of `agent_id`. */
  readonly agent_name?: string | null;
}

/** Names the user, or renews the socket's token. No answer, unless the token is refused. */
export interface Authenticate {
  readonly type: "authenticate";
  /** A JWT of the server's realm. */
  readonly access_token: string;
  /** Lets exchanges go on for longer than the access token lasts. */
  readonly refresh_token?: string | null;
}

/** The graph has paused and waits for a person. */
export interface AwaitingHuman {
  readonly type: "awaiting_human";
  /** Null in query mode only. */
  readonly session_id: string | null;
  /** The exchange that the event tells of. */
  readonly exchange_id: string;
  /** The event's place in its exchange. It rises, perhaps with gaps; `started` and `reset` may set it lower again. */
  readonly seq: number;
  /** What is asked. */
  readonly payload: HumanRequests;
}

/** What a message is for. */
export type Channel =
  "final" | "plan" | "thought" | "observation" | "tool_call" | "tool_result" | "error" | "system_note";

/** One message of an exchange; it never changes once it is stored. */
export interface ChatMessage {
  /** Who says it. */
  readonly role: Role;
  /** What the message is for: the answer (`final`), a step towards it, a tool's call or result, an error. */
  readonly channel: Channel;
  /** Its content, in order. */
  readonly parts: readonly Part[];
  /** What is known of the message beside its content. */
  readonly metadata: MessageMetadata;
  /** Null in query mode only. */
  readonly session_id: string | null;
  /** The exchange that it belongs to. */
  readonly exchange_id: string;
  /** Its place in its session, from 0, without gap or repeat. */
  readonly rank: number;
  /** When it was stored (RFC 3339, UTC). */
  readonly timestamp: string;
}

/** One of the answers to choose from. */
export interface Choice {
  /** The answer. */
  readonly id: string;
  /** The words to show. */
  readonly label: string;
  /** More words to show. */
  readonly description?: string;
}

/** Every frame that a client may send. One without `type` is an ask. */
export type ClientFrame =
  Authenticate | Ask | HumanResume | Stop | Follow | Unfollow | FollowSessions | UnfollowSessions | Ping;

/** A piece of code, to be shown as it is. */
export interface CodePart {
  readonly type: "code";
  /** The programming language, for highlighting. */
  readonly language?: string;
  /** The source text. */
  readonly code: string;
}

/** Something in a form of an application's own. */
export interface CustomPart {
  readonly type: "custom";
  /** The application's id and the name of the form, as in `team-notes:note`. */
  readonly kind: string;
  /** What is shown, by the schema that `/apps/{id}/openapi.json` has for this form. */
  readonly data: Readonly<Record<string, unknown>>;
  /** The same in words, in Markdown, for who does not know the form. */
  readonly text: string;
}

/** A person's decision about one tool call. */
export interface Decision {
  /** The call, as the request names it. */
  readonly call_id: string;
  /** The hash of the arguments that the person saw, as the request has it. */
  readonly args_sha256: string;
  /** One of the request's `allowed` actions. */
  readonly action: "approve" | "reject" | "edit";
  /** What the model is told of a rejection. */
  readonly message?: string | null;
  /** The arguments of an edit. */
  readonly args?: Readonly<Record<string, unknown>> | null;
}

/** New text of a message that is being written. */
export interface Delta {
  readonly type: "delta";
  /** Null in query mode only. */
  readonly session_id: string | null;
  /** The exchange that the event tells of. */
  readonly exchange_id: string;
  /** The event's place in its exchange. It rises, perhaps with gaps; `started` and `reset` may set it lower again. */
  readonly seq: number;
  /** The number of the message within its exchange; several may be written at once. */
  readonly block: number;
  /** Provisional until the message's `stream`. */
  readonly channel: Channel;
  /** What to add to the block's text. */
  readonly text: string;
}

/** The exception behind an error, for the agent's author. */
export interface ErrorDetail {
  /** The exception's class. */
  readonly type: string;
  /** Its text, without secrets. */
  readonly text: string;
  /**
   * The author's own line as `file:line in function`, the file relative to the working directory or to a directory
   * of modules.
   */
  readonly where: string;
}

/** An error in words for the client. */
export interface ErrorInfo {
  /** What went wrong: one of the error codes. */
  readonly code: string;
  /** What went wrong, in words for the user. */
  readonly content: string;
  /** Who can mend it: the client, the operator of a dependency, or the operator of the server. */
  readonly whose: "client" | "external" | "internal";
  /** Whether the same may be sent again. */
  readonly retryable: boolean;
  /** Finds the error in the server's log. */
  readonly request_id: string;
  /** How long to wait before, in seconds. */
  readonly retry_after_s?: number;
  /** For developers and admins only. */
  readonly detail?: ErrorDetail;
  /** Of a refused agent's entry: each at its place. */
  readonly problems?: readonly Problem[];
  /** Of `approval_required`. */
  readonly approval?: ApprovalAsked;
}

/** The exchange failed; its `final` follows. */
export interface ExchangeError {
  readonly type: "error";
  /** Null in query mode only. */
  readonly session_id: string | null;
  /** The exchange that the event tells of. */
  readonly exchange_id: string;
  /** The event's place in its exchange. It rises, perhaps with gaps; `started` and `reset` may set it lower again. */
  readonly seq: number;
  /** What went wrong: one of the error codes. */
  readonly code: string;
  /** What went wrong, in words for the user. */
  readonly content: string;
  /** Who can mend it: the client, the operator of a dependency, or the operator of the server. */
  readonly whose: "client" | "external" | "internal";
  /** Whether the same may be sent again. */
  readonly retryable: boolean;
  /** Finds the error in the server's log. */
  readonly request_id: string;
  /** For developers and admins only. */
  readonly detail?: ErrorDetail;
}

/** An event of an exchange. Its `seq` is its place there. */
export type ExchangeEvent = Started | Stream | Delta | Activity | AwaitingHuman | ExchangeError | Final | Reset;

/** `RUNNING` and `AWAITING_HUMAN` are the states of an open exchange; the others are its ends. */
export type ExchangeStatus = "running" | "awaiting_human" | "ok" | "error" | "stopped" | "blocked" | "interrupted";

/** An attachment. */
export interface FilePart {
  readonly type: "file";
  /** Names the attachment. */
  readonly attachment_id: string;
  /** The file's name. */
  readonly name: string;
  /** The media type. */
  readonly mime: string;
  /** In bytes. */
  readonly size: number;
}

/** The end of an exchange: always its last event, exactly once. */
export interface Final {
  readonly type: "final";
  /** Null in query mode only. */
  readonly session_id: string | null;
  /** The exchange that the event tells of. */
  readonly exchange_id: string;
  /** The event's place in its exchange. It rises, perhaps with gaps; `started` and `reset` may set it lower again. */
  readonly seq: number;
  /** How it ended; never `running` or `awaiting_human`. */
  readonly status: ExchangeStatus;
  /** All messages of the exchange, by rank; only the first and the last ones where they exceed a MiB. */
  readonly messages: readonly ChatMessage[];
  /** The session after the exchange; null in query mode. */
  readonly session: Session | null;
  /** The tokens of all model calls of the exchange. */
  readonly usage: TokenUsage;
  /** Why it ended so, where an error did it. */
  readonly error?: ErrorInfo;
  /** Of an interrupted exchange: whether it can be resumed; absent where that is not known. */
  readonly resumable?: boolean;
}

/** Why a model ended its message. */
export type FinishReason = "stop" | "length" | "content_filter" | "tool_calls" | "cancelled" | "other";

/** Follows one exchange, or a session's running exchange and all later ones. */
export interface Follow {
  /** The session; absent where a query is meant. */
  readonly session_id?: string | null;
  /** One exchange of it; absent: the one that runs. */
  readonly exchange_id?: string | null;
  readonly type: "follow";
  /** The seq of the last event that the client has of the exchange. */
  readonly after_seq?: number | null;
}

/** Follows all sessions of the user: each change of one is told. `following_sessions` answers. */
export interface FollowSessions {
  readonly type: "follow_sessions";
}

/**
 * From here on each change of the user's sessions is told: read their list now.
 *
 * It comes again where changes may have been missed.
 */
export interface FollowingSessions {
  readonly type: "following_sessions";
}

/** Refuses a client frame, and repeats its ids. */
export interface FrameRefused {
  readonly type: "error";
  /** What went wrong: one of the error codes. */
  readonly code: string;
  /** What went wrong, in words for the user. */
  readonly content: string;
  /** Who can mend it: the client, the operator of a dependency, or the operator of the server. */
  readonly whose: "client" | "external" | "internal";
  /** Whether the same may be sent again. */
  readonly retryable: boolean;
  /** Finds the error in the server's log. */
  readonly request_id: string;
  /** How long to wait before, in seconds. */
  readonly retry_after_s?: number;
  /** For developers and admins only. */
  readonly detail?: ErrorDetail;
  /** The frame's type, as it was given; `ask` where it had none. */
  readonly refused?: string;
  /** That of the frame. */
  readonly client_exchange_id?: string;
  /** That of the frame. */
  readonly session_id?: string;
  /** That of the frame. */
  readonly exchange_id?: string;
}

/** Features for a map. */
export interface GeoPart {
  readonly type: "geo";
  /** GeoJSON (RFC 7946). */
  readonly geojson: Readonly<Record<string, unknown>>;
  /** The property of a feature to show beside it. */
  readonly popup_property?: string;
  /** Whether the map shows just these features. */
  readonly fit_bounds: boolean;
  /** How to draw the features; the agent and its page agree on the keys. */
  readonly style?: Readonly<Record<string, unknown>>;
}

/** What a statement rests on. */
export interface Ground {
  /** The `id` of a tool call or of a source of the same summary. */
  readonly id: string;
  /**
   * `citation` where the statement itself names the source, `match` where its figures, names or words occur in the
   * source or in the tool's result.
   */
  readonly by: "citation" | "match";
}

/** Decisions about some or all of what an exchange waits for. */
export interface HumanDecisions {
  /** Those about tool calls. */
  readonly decisions?: readonly Decision[] | null;
  /** The answers to questions, by interrupt id. */
  readonly answers?: Readonly<Record<string, unknown>> | null;
}

/** One request to a person: a tool call to approve, or a question to answer. */
export interface HumanRequest {
  /** Names the request in `answers`. */
  readonly interrupt_id: string;
  /** The tool call to decide on; names it in a decision. */
  readonly call_id?: string;
  /** The tool. */
  readonly name?: string;
  /** The arguments that the tool would get. */
  readonly args?: Readonly<Record<string, unknown>>;
  /** SHA-256 in hexadecimal digits of the arguments' canonical JSON (RFC 8785); a decision repeats it. */
  readonly args_sha256?: string;
  /** What is asked, in words. */
  readonly question?: string;
  /** The answers to choose from. */
  readonly choices?: readonly Choice[];
  /** The JSON Schema of the answer or, for a call, of edited arguments. */
  readonly response_schema?: Readonly<Record<string, unknown>>;
  /** What the graph gave to `interrupt()`; beyond 64 KiB a text, the beginning of its JSON. */
  readonly value?: unknown;
  /** The actions that a decision may take: `approve`, `reject`, `edit`. */
  readonly allowed: readonly string[];
}

/** All that an exchange waits for; it takes the place of what was asked before. */
export interface HumanRequests {
  /** The words above the requests. */
  readonly title?: string;
  /** What waits for an answer; any of them may be answered first. */
  readonly requests: readonly HumanRequest[];
  /** When what is open counts as rejected (RFC 3339, UTC). */
  readonly expires_at?: string;
}

/** A person's decisions. Its tokens replace those of the connection, as an ask's do. */
export interface HumanResume {
  readonly type: "human_resume";
  /** The session of the exchange. */
  readonly session_id: string;
  /** The exchange that waits. */
  readonly exchange_id: string;
  /** What the person has decided. */
  readonly payload: HumanDecisions;
  /** Renews the socket's token. */
  readonly access_token?: string | null;
  /** Goes with `access_token`. */
  readonly refresh_token?: string | null;
}

/** Answers a `follow` or a `stop` if nothing runs. */
export interface Idle {
  readonly type: "idle";
  /** Null for a query. */
  readonly session_id: string | null;
  /** The rank of the session's next message: a client that lacks earlier ones reads them. */
  readonly next_rank: number;
}

/** An image. */
export interface ImageUrlPart {
  readonly type: "image_url";
  /** An `https:` or a `data:` URL, or the path of an attachment. */
  readonly url: string;
  /** What the image shows, in words. */
  readonly alt?: string;
}

/** A link, or a source without an address. */
export interface LinkPart {
  readonly type: "link";
  /** The address. */
  readonly href?: string;
  /** The words to show. */
  readonly title?: string;
  /** What the link is for. */
  readonly kind: "citation" | "download" | "external" | "dashboard" | "related" | "view";
  /** The relation, as in HTML. */
  readonly rel?: string;
  /** The media type of what it leads to. */
  readonly mime?: string;
  /** The id of the source in the agent's index. */
  readonly source_id?: string;
  /** The id of the document. */
  readonly document_uid?: string;
  /** The document's file name. */
  readonly file_name?: string;
  /** The panel that shows what it leads to: the application's id and the panel's name, as in `notes/board`. */
  readonly panel?: string;
  /** What that panel is told, to show just this. */
  readonly panel_data?: Readonly<Record<string, unknown>>;
}

/** What is known of a message beside its content. */
export interface MessageMetadata {
  /** The model that wrote it. */
  readonly model?: string;
  /** The tokens of the model call that made it. */
  readonly token_usage?: TokenUsage;
  /** What the message cites: `{number, title?, url?, file_name?, cited_text?}`, numbered from 1. */
  readonly sources: readonly Readonly<Record<string, unknown>>[];
  /** The agent that wrote it. */
  readonly agent_id?: string;
  /** The time of the model call, in milliseconds. */
  readonly latency_ms?: number;
  /** Why the model ended. */
  readonly finish_reason?: FinishReason;
  /** More facts by name; a client ignores those it doesn't know. */
  readonly extras: Readonly<Record<string, unknown>>;
}

/** What a guardrail changed or blocked, or could not check. It says nothing of the text itself. */
export interface Objection {
  /** The guardrail: a module, or the filter of the model's provider. */
  readonly by: "module" | "provider";
  /** The module's name. */
  readonly module?: string;
  /** Where: the user's message, a tool's result, or the agent's answer. */
  readonly stage: "input" | "tool_result" | "output";
  /** What it did; `failed` where it could not check. */
  readonly action: "modified" | "blocked" | "failed";
}

/** The session that a branch comes from: they share its rows below `rank`. */
export interface Parent {
  /** Names the session. */
  readonly session_id: string;
  /** The rank of the branch's first own message. */
  readonly rank: number;
}

/** A piece of a message's content. Later versions may have other parts, which a client ignores. */
export type Part =
  TextPart | CodePart | ImageUrlPart | ToolCallPart | ToolResultPart | LinkPart | GeoPart | FilePart | CustomPart;

/** The text so far of a message that is being written. */
export interface PartialText {
  /** The number of the message within its exchange. */
  readonly block: number;
  /** Provisional until the message's `stream`. */
  readonly channel: Channel;
  /** All of its text so far. */
  readonly text: string;
}

/** A message before a query: the user's, or the agent's answer. */
export interface PastMessage {
  /** Who has said it. */
  readonly role: "user" | "assistant";
  /** What was said. */
  readonly content: string;
}

/** Asks for a `pong`. */
export interface Ping {
  readonly type: "ping";
}

/** Answers a `ping`. */
export interface Pong {
  readonly type: "pong";
}

/** What is wrong at one place of a text; lines and columns count from 1. */
export interface Problem {
  /** What is wrong, in words. */
  readonly message: string;
  /** The line, if it is known. */
  readonly line?: number;
  /** The column, if it is known. */
  readonly column?: number;
}

/** The log lacks the client's place: the client drops all that it shows of the exchange. */
export interface Reset {
  readonly type: "reset";
  /** Null in query mode only. */
  readonly session_id: string | null;
  /** The exchange that the event tells of. */
  readonly exchange_id: string;
  /** The event's place in its exchange. It rises, perhaps with gaps; `started` and `reset` may set it lower again. */
  readonly seq: number;
  /** The messages of the exchange so far, by rank. */
  readonly messages: readonly ChatMessage[];
  /** The messages that are being written. */
  readonly partial: readonly PartialText[];
}

/** Who speaks. */
export type Role = "user" | "assistant" | "tool" | "system";

/**
 * Every event that a client may receive. An `error` with `seq` tells of an exchange, one without refuses a frame. Later
 * versions may have other events, which a client ignores.
 */
export type ServerEvent =
  ExchangeEvent | SessionChanged | SessionDeleted | FollowingSessions | Idle | FrameRefused | Pong;

/** One user's conversation with an agent. */
export interface Session {
  /** Names the session. */
  readonly id: string;
  /** Whose it is. */
  readonly user_id: string;
  /** The agent that answers where an ask names none. */
  readonly agent_id: string;
  /** Named after its first question, or by its user. */
  readonly title: string;
  /** Whether it takes more asks. */
  readonly state: SessionState;
  /** The session that it is a branch of. */
  readonly parent?: Parent;
  /** The session that all its ancestors come from, where it is a branch. */
  readonly root_id?: string;
  /** Whether its user wants it listed first. */
  readonly pinned: boolean;
  /** Whether its user has put it away. */
  readonly archived: boolean;
  /** RFC 3339, UTC. */
  readonly created_at: string;
  /** The last ask or change (RFC 3339, UTC). */
  readonly updated_at: string;
  /** When it was completed (RFC 3339, UTC). */
  readonly ended_at?: string;
  /** The rank of the next message. */
  readonly next_rank: number;
  /** The number of stored messages. */
  readonly message_count: number;
  /** Its chat profile. */
  readonly chat_profile: string;
  /** The exchange that runs, or waits for a person. */
  readonly active_exchange_id?: string;
}

/** A session has changed, or begun. */
export interface SessionChanged {
  readonly type: "session";
  /** The session as it is. */
  readonly session: Session;
  /** Of its active exchange or, where that has just ended, how; only to those who follow all sessions. */
  readonly status?: ExchangeStatus;
}

/** A session is gone, with all that was in it. */
export interface SessionDeleted {
  readonly type: "session_deleted";
  /** The session. */
  readonly session_id: string;
}

/** A completed session takes no more asks, and is never active again. */
export type SessionState = "active" | "completed";

/** The first event of every exchange: the exchange is shown anew from here. */
export interface Started {
  readonly type: "started";
  /** Null in query mode only. */
  readonly session_id: string | null;
  /** The exchange that the event tells of. */
  readonly exchange_id: string;
  /** The event's place in its exchange. It rises, perhaps with gaps; `started` and `reset` may set it lower again. */
  readonly seq: number;
  /** The client's own id for the exchange, where its ask had one. */
  readonly client_exchange_id?: string;
  /** The agent that answers. */
  readonly agent_id: string;
  /** The session, which the ask may have opened; null in query mode. */
  readonly session: Session | null;
  /** The interrupted exchange that this one goes on with. */
  readonly resumes?: string;
}

/** A sentence, a list item or a table row of the answer. */
export interface Statement {
  /** Its words. */
  readonly text: string;
  /**
   * Where it begins in the texts of the answer's message, joined by line feeds, in Unicode characters (code points).
   *
   */
  readonly start: number;
  /** Where it ends, counted likewise. */
  readonly end: number;
  /** Empty where nothing was found: these are the model's own words. */
  readonly rests_on: readonly Ground[];
}

/** Stops what runs. The exchange's `final` follows; where nothing runs, `idle` answers. */
export interface Stop {
  /** The session; absent where a query is meant. */
  readonly session_id?: string | null;
  /** One exchange of it; absent: the one that runs. */
  readonly exchange_id?: string | null;
  readonly type: "stop";
}

/** A complete and stored message; it replaces the deltas of its block. */
export interface Stream {
  readonly type: "stream";
  /** Null in query mode only. */
  readonly session_id: string | null;
  /** The exchange that the event tells of. */
  readonly exchange_id: string;
  /** The event's place in its exchange. It rises, perhaps with gaps; `started` and `reset` may set it lower again. */
  readonly seq: number;
  /** The message. */
  readonly message: ChatMessage;
  /** The block whose deltas it replaces, where it had some. */
  readonly block?: number;
}

/** A text. */
export interface TextPart {
  readonly type: "text";
  /** Markdown in a model's messages, plain text in a person's. */
  readonly text: string;
}

/** A count that no model has told is absent; a sum has the counts that are known. */
export interface TokenUsage {
  /** Tokens that the models have read. */
  readonly input_tokens?: number;
  /** Tokens that the models have written. */
  readonly output_tokens?: number;
  /** Both, as the provider counts them. */
  readonly total_tokens?: number;
}

/** A model's call of a tool. */
export interface ToolCallPart {
  readonly type: "tool_call";
  /** Unique in its exchange; the result has the same. */
  readonly call_id: string;
  /** The tool's name. */
  readonly name: string;
  /** What the tool is called for people, in one line, where it declares that. */
  readonly title?: string;
  /** The tool's arguments, as the model gave them. */
  readonly args: Readonly<Record<string, unknown>>;
}

/** The result of a tool call. */
export interface ToolResultPart {
  readonly type: "tool_result";
  /** That of the call. */
  readonly call_id: string;
  /** Whether the tool succeeded; false where it failed or was cancelled. */
  readonly ok?: boolean;
  /** The time from the call to its result, in milliseconds. */
  readonly latency_ms?: number;
  /** The result as text, or the error. */
  readonly content: string;
}

/** How one call of a tool ended, and on whose word it ran. */
export interface ToolTrust {
  /** Unique in its summary. */
  readonly id: string;
  /** The model's own id, which may come again. */
  readonly call_id: string;
  /** The tool. */
  readonly name: string;
  /** The agent that called it. */
  readonly agent_id: string;
  /** How it ended. */
  readonly outcome: "ok" | "failed" | "rejected" | "forbidden" | "cancelled" | "pending";
  /** What a person has decided, where one had to. */
  readonly approval: "approved" | "edited" | "rejected" | "expired" | "awaited" | "not_required" | "not_recorded";
  /** The person who decided. */
  readonly decided_by?: string;
  /** The permissions that the tool needed when it was called. */
  readonly needs: readonly string[];
  /** Why the call ran, or why it did not, in words; it has no text of the conversation. */
  readonly allowed_because: string;
  /** Whether it went on after its call was answered. */
  readonly in_background: boolean;
  /** The time from the call to its result, in milliseconds. */
  readonly latency_ms?: number;
}

/** What an answer rests on. */
export interface TrustSummary {
  /** The exchange that was answered. */
  readonly exchange_id: string;
  /** The exchange's. */
  readonly status: ExchangeStatus;
  /** The rank of the message whose statements these are; absent as long as there is no answer. */
  readonly answer_rank?: number;
  /** The answer's, in order. */
  readonly statements: readonly Statement[];
  /** The calls of tools, in order. */
  readonly tools: readonly ToolTrust[];
  /** What the agent found and cited. */
  readonly sources: readonly TrustedSource[];
  /** The objections of guardrails, in order. */
  readonly objections: readonly Objection[];
  /** Whether parts are missing, because the exchange is too large. */
  readonly cut: boolean;
}

/** A source of the answer. */
export interface TrustedSource {
  /** Unique in its summary. */
  readonly id: string;
  /** The one by which the answer cites it, such as `[1]`. */
  readonly number?: number;
  /** Its title. */
  readonly title?: string;
  /** Its address. */
  readonly href?: string;
  /** The `id` of the tool call that found it, if one did. */
  readonly found_by?: string;
}

/** Ends the following of a session. No answer. */
export interface Unfollow {
  readonly type: "unfollow";
  /** The session. */
  readonly session_id: string;
}

/** Ends that. No answer. */
export interface UnfollowSessions {
  readonly type: "unfollow_sessions";
}

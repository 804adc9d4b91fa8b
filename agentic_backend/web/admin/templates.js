/** What a new agent begins with. */

import { t } from "../i18n.js";

const ASSISTANT = `id: new-agent
name: New agent
icon: ✎
description: Keeps notes and todos, and tells the time.
class_path: agentic_backend.experts.assistant.assistant:Assistant
tools: [current_time, create_note, list_notes, create_todo, list_todos]
tuning:
  fields:
    system_prompt: You keep the user's notes and todos. Answer briefly, in the language of the question.
chat:
  starters:
    - What time is it in Tokyo?
    - What can you do?
`;

const APPROVAL = `id: new-agent
name: New agent
description: Keeps todos, and asks before each new one.
class_path: agentic_backend.experts.assistant.assistant:Assistant
tools: [create_todo, list_todos]
# Tools that a person has to approve of at each call, by name or by a pattern such as "create_*"; or the word "all".
require_approval: [create_todo]
`;

const MCP = `id: new-agent
name: New agent
description: Uses the tools of an MCP server.
class_path: agentic_backend.experts.assistant.assistant:Assistant
tuning:
  mcp_servers:
    # The server's id under mcp_servers in the settings.
    - id: new-server
`;

const LEADER = `id: new-agent
name: New agent
description: Hands questions to the agents of its crew, and puts their answers together.
type: leader
class_path: agentic_backend.experts.team.team_leader:TeamLeader
# Their descriptions tell it what each is good for.
crew: [assistant]
`;

export const TEMPLATES = [
  { name: t("Assistant with tools"), yaml: ASSISTANT },
  { name: t("Asks before it acts"), yaml: APPROVAL },
  { name: t("Tools of an MCP server"), yaml: MCP },
  { name: t("Leader of other agents"), yaml: LEADER },
];

/** The REST calls of the catalog's agents, for admins. All raise ApiError. */

const AGENTS = "admin/agents";
const agent = (id) => `${AGENTS}/${encodeURIComponent(id)}`;

export class CatalogApi {
  constructor(api) {
    this.api = api;
  }

  /** `{agents, wins}`. */
  list() {
    return this.api.call("GET", AGENTS);
  }

  /** An agent with its `yaml`. */
  read(id) {
    return this.api.call("GET", agent(id));
  }

  create(yaml) {
    return this.api.call("POST", AGENTS, { body: { yaml } });
  }

  /** `version` is what the text began with. Another one meanwhile: status 409. */
  replace(id, yaml, version) {
    return this.api.call("PUT", agent(id), { body: { yaml, version } });
  }

  remove(id) {
    return this.api.call("DELETE", agent(id));
  }

  switch(id, isOn) {
    return this.api.call("POST", `${agent(id)}/${isOn ? "enable" : "disable"}`);
  }

  /** One page of `{versions, next_cursor?}`, the newest first. */
  versions(id, cursor) {
    return this.api.call("GET", `${agent(id)}/versions`, { query: { cursor } });
  }

  /** A version with its `yaml`. */
  version(id, number) {
    return this.api.call("GET", `${agent(id)}/versions/${number}`);
  }

  rollBack(id, version) {
    return this.api.call("POST", `${agent(id)}/rollback`, { body: { version } });
  }

  /** What is wrong with an entry: `{problems[{message, line, column}]}`. */
  check(yaml) {
    return this.api.call("POST", `${AGENTS}/check`, { body: { yaml } });
  }

  schema() {
    return this.api.call("GET", `${AGENTS}/schema`);
  }

  /** All agents of the database as a catalog, as a Blob. */
  exported() {
    return this.api.file(`${AGENTS}/export`);
  }

  imported(yaml) {
    return this.api.call("POST", `${AGENTS}/import`, { body: { yaml } });
  }
}

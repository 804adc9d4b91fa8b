/**
 * Where the branches of a conversation differ.
 *
 * Pure. A family is a list of sessions with one root. A variant is one way on from a rank: the session that has the
 * rows there, or a branch that begins there; everything that descends from either belongs to it. Those that ask the same
 * are variants of its answer, the others of the question.
 */

/**
 * By rank, at the ranks where the session's transcript could go on in another way: `{index, ids, ways}`, the place of its
 * own way, for each way the session that shows it, which is the last used one, and the session that it is named by.
 */
export function variantsOf(family, sessionId) {
  const byId = new Map(family.map((session) => [session.id, session]));
  const branches = Map.groupBy(
    family.filter(({ parent }) => parent),
    ({ parent }) => parent.session_id,
  );
  const found = new Map();
  let taken = null;
  for (let owner = byId.get(sessionId); owner; owner = taken && byId.get(taken.parent.session_id)) {
    const until = taken?.parent.rank ?? Infinity;
    const forks = Map.groupBy(branches.get(owner.id) ?? [], ({ parent }) => parent.rank);
    for (const [rank, forked] of forks) {
      if (rank > until) continue;
      const own = rank === until ? taken : owner;
      const ways = [owner, ...forked.toSorted(byAge)].filter((way) => way === own || way.next_rank > rank);
      const shown = ways.map((way) => lastUsed(way, branches, way === owner ? rank : -1).id);
      if (ways.length > 1) found.set(rank, { index: ways.indexOf(own), ids: shown, ways: ways.map(({ id }) => id) });
    }
    taken = owner.parent ? owner : null;
  }
  return found;
}

/** Names what a way asks that goes on from `rank`. */
export const questionAt = (id, rank) => `${id}/${rank}`;

/**
 * The variants at `rank` as `{ofQuestion, ofAnswer}`, each `{index, ids}` or undefined where there is but one; both are
 * until it is known what they ask. `asked` has that by its name; see Branches.
 */
export function apart({ index, ids, ways }, rank, asked) {
  const questions = ways.map((id) => asked[questionAt(id, rank)]);
  if (questions.includes(undefined)) return {};
  const places = Map.groupBy(ways.keys(), (place) => questions[place]);
  const same = places.get(questions[index]);
  // Another question is shown with its last answer.
  const shown = [...places.values()].map((group) => ids[group === same ? index : group.at(-1)]);
  return {
    ofQuestion: places.size > 1 ? { index: [...places.values()].indexOf(same), ids: shown } : undefined,
    ofAnswer: same.length > 1 ? { index: same.indexOf(index), ids: same.map((place) => ids[place]) } : undefined,
  };
}

/** Whether a session says something itself: a branch may have nothing but what it shares. */
export const hasOwn = ({ parent, next_rank: nextRank }) => !parent || nextRank > parent.rank;

/**
 * Where to go back to from a branch that has nothing of its own: of the other ways on from where it begins, the last
 * used one. Null where there is none, and for other sessions.
 */
export function besideEmpty(family, session) {
  if (!session || hasOwn(session)) return null;
  const ids = variantsOf(family, session.id).get(session.parent.rank)?.ids ?? [];
  const others = family.filter(({ id }) => id !== session.id && ids.includes(id));
  return others.toSorted((one, other) => (one.updated_at < other.updated_at ? 1 : -1))[0] ?? null;
}

const byAge = (one, other) => (one.created_at < other.created_at ? -1 : 1);

/** Of a session and what descends from it behind `rank`: the last used one that says something itself. */
function lastUsed(session, branches, rank) {
  const later = (branches.get(session.id) ?? []).filter(({ parent }) => parent.rank > rank);
  const found = later.map((branch) => lastUsed(branch, branches, -1)).filter(hasOwn);
  return [session, ...found].reduce((last, one) => (one.updated_at > last.updated_at ? one : last));
}

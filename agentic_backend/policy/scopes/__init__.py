"""Which settings apply where a user asks: organisation, agent, class, task, assignment."""

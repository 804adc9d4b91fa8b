"""The team leader: hands questions to the agents of its crew, and combines their answers."""

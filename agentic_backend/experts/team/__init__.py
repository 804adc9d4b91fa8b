"""The team leader: hands questions to the agents of its crew, and puts their answers together."""

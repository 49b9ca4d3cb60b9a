"""Find the change of the author's own code that makes every gradient right."""

"""Search for the change to the author's code that makes every gradient right."""

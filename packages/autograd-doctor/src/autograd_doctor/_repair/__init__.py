"""Search for a change to the author's code that corrects every gradient."""

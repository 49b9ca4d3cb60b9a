"""The caller's world: what the user's code reaches, lent for a while and put back as it was."""

"""The classroom: many submissions that nobody vouches for, run apart and judged outside."""

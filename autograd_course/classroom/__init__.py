"""Grade many submissions that nobody vouches for: run them apart, judge them outside."""

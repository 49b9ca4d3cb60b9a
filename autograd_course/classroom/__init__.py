"""The classroom: many untrusted submissions, graded apart from each other."""

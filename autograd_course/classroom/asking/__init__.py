"""In the child: run a learner's cells, and answer the judge's questions about them."""

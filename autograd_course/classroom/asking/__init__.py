"""In the child: run a learner's cells, and answer what the judge asks about them."""

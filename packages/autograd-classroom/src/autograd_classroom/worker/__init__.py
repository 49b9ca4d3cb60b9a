"""Code that runs in the child: it runs a learner's cells and answers the judge's questions."""

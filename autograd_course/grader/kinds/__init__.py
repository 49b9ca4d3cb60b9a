"""Grade answers, with one module for each kind of exercise."""

"""How answers are graded, one module for each kind of exercise."""

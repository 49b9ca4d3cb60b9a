"""How an answer is judged, one module for each kind of exercise."""

"""A stand-in for the package that every kernel on Colab has imported before the first cell."""

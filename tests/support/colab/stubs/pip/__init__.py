"""A stand-in that comes before the real pip on the path of the simulated Colab."""

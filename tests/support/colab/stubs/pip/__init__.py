"""Stands before pip on the path of the simulated Colab."""

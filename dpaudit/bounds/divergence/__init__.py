"""Kullback-Leibler divergence: a closed form and estimates."""

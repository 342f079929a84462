"""Kullback-Leibler divergence: closed forms and estimates."""

"""Execution of tasks: on which workers, with a store of the results, and in shards."""

"""Certified bounds that hold with a stated frequency, whatever the mechanism."""

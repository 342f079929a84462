"""The parts of a report: the tables, notes and charts of each topic."""

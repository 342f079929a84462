"""The parts of a report: table, note and chart of each topic."""

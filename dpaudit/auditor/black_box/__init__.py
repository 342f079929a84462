"""Audits of mechanisms of which outputs alone are seen."""

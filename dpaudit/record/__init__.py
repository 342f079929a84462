"""The record of an audit: its schema, its consistency, its file."""

"""The privacy card: what a deployment guarantees, to whom, and what an audit of it found."""

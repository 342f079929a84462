"""What standards and authorities ask of a model, and which numbers of an audit answer."""

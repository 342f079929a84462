"""What an audit measures, one file a measure."""

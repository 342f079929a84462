"""The measures of an audit, one file per measure."""

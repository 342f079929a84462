"""Black-box audits: audits of mechanisms from their outputs alone."""

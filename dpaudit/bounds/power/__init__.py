"""What a budget of trials can find."""

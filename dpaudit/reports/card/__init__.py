"""What is deployed: its privacy card, and what an audit answers to what standards require."""

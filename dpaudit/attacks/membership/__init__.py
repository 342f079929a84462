"""Tell whether a rating or a user was trained on."""

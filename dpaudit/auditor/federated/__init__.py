"""What the server of a federated training sees, scored."""

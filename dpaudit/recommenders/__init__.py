"""Other people's recommenders: one adapter for each library, and the protocol of users' own."""

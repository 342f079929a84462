"""Search settings that pass the gates of a config, and judge at most three by new trainings."""

"""The vocabulary: claims, releases, random streams, estimates, plug-ins, files and messages."""

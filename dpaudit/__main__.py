"""`python -m dpaudit`."""

from dpaudit.cli import main

main()

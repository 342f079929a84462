"""The membership game: coins decide which interactions and users each training has."""

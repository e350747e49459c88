"""Small systems of real code, in every order of events: nothing is left to chance, unlike in `tests/simulation`."""

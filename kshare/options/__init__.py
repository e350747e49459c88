"""What all options have in common: checks of values, names that are refused or unknown, and mistakes told at once."""

"""Terminal output of all commands: lines, tables, colours, keys, wording."""

"""What all commands show things with: lines, tables, colours, keys, wording."""

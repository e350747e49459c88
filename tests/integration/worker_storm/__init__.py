"""A storm of bad records over three worker processes, and the judgement of what has become of each record."""

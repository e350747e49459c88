"""Dead letters: what they tell, where they are, and how their records are written to their topics again."""

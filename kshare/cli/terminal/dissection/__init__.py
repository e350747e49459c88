"""Dissected messages on the screen."""

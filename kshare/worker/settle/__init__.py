"""Carries out what was decided: holds, moves, gives up or hands back records. Copies are confirmed first."""

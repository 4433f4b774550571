"""Indexes of vectors and words: derived from SQL, blind to what they hold, and rebuilt when lost."""

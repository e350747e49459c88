"""Which worker processes there are, and what each is doing now.

Their status pages are configured, or announced in a topic. Neither those who may write to that topic are trusted, nor
what responds at such a page.
"""

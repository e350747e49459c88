"""`python -m tools.cookbook`: writes the output of `kshare trace` for each scenario into the documents that show it."""

from __future__ import annotations

from tools.cookbook.pages import DOCUMENTS, refreshed

for document in DOCUMENTS:
    document.write_text(refreshed(document.read_text(encoding="utf-8")), encoding="utf-8")

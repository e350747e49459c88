"""The web console, `kshare web`: pages over what `kshare.monitor`, `kshare.doctor`, `kshare.dead_letters` and
`kshare.admin` know. No decisions about Kafka are made here.

A page is a module in `pages` with its routes, and a template of the same name. `watcher` takes readings in a thread of
its own, so that a page never waits for the cluster to show what is known.
"""

"""Real Kafka brokers for tests, benchmarks and the shell, installed from package registries only.

Doesn't use kshare, so that a broker's behaviour is checked independently of the code under test.
"""

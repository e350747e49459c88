"""Real Kafka brokers for tests, benchmarks and the shell, out of the package registries alone.

Knows nothing of kshare: what a broker does is judged without the code under test.
"""

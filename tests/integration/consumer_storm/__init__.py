"""A storm of consumers, blocking and async ones in one group: see `behaviour/test_consumer_storm.py`."""

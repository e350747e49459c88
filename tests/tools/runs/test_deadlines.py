"""Whatever a test hangs in, its deadline ends it, the run names it, continues if possible, and fails."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.tools.runs.small_run import small_run

pytestmark = pytest.mark.lengthy

_HANGING = {
    "a trio test that awaits forever": """
        @pytest.mark.anyio
        @pytest.mark.parametrize("anyio_backend", ["trio"])
        async def test_hangs(anyio_backend):
            await anyio.sleep_forever()
        """,
    "an asyncio test that awaits forever": """
        @pytest.mark.anyio
        @pytest.mark.parametrize("anyio_backend", ["asyncio"])
        async def test_hangs(anyio_backend):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.sleep_forever)
        """,
    "a trio test that can't be cancelled": """
        @pytest.mark.anyio
        @pytest.mark.parametrize("anyio_backend", ["trio"])
        async def test_hangs(anyio_backend):
            with anyio.CancelScope(shield=True):
                await anyio.sleep_forever()
        """,
    "a trio test that blocks its thread": """
        @pytest.mark.anyio
        @pytest.mark.parametrize("anyio_backend", ["trio"])
        async def test_hangs(anyio_backend):
            lock = threading.Lock()
            lock.acquire()
            lock.acquire()
        """,
    "a trio fixture that hangs": """
        @pytest.fixture
        async def never(anyio_backend):
            await anyio.sleep_forever()

        @pytest.mark.anyio
        @pytest.mark.parametrize("anyio_backend", ["trio"])
        async def test_hangs(never, anyio_backend):
            pass
        """,
    "a fixture that hangs": """
        @pytest.fixture
        def blocked():
            time.sleep(3600)

        def test_hangs(blocked):
            pass
        """,
    "a fixture that hangs in its teardown, after a failure": """
        @pytest.fixture
        def endless():
            yield
            time.sleep(3600)

        def test_hangs(endless):
            assert 0
        """,
    "a test that waits for a socket": """
        def test_hangs():
            with socket.create_server(("127.0.0.1", 0)) as listener:
                listener.accept()
        """,
    "a test that blocks signals": """
        def test_hangs():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
            time.sleep(3600)
        """,
    "a test in a C function that holds the GIL": """
        def test_hangs():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
            ctypes.PyDLL(None).sleep(3600)
        """,
}


_ENDED_WITH_THE_PROCESS = ["a trio test that can't be cancelled", "a test that blocks signals"]


@pytest.mark.parametrize("kind", ["a trio test that awaits forever", *_ENDED_WITH_THE_PROCESS])
def test_hanging_test_in_one_process_is_ended_and_named(tmp_path: Path, kind: str) -> None:
    done = small_run(tmp_path, _HANGING[kind], "--timeout", "1")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "test_it.py::test_hangs" in done.stdout + done.stderr


def test_hanging_tests_in_a_worker_are_ended_and_named_and_the_run_continues(tmp_path: Path) -> None:
    """All kinds in a run with one worker, followed by a test that passes."""
    names = {kind: f"test_{number}_hangs" for number, kind in enumerate(_HANGING)}
    bodies = [textwrap.dedent(body).replace("test_hangs", names[kind]) for kind, body in _HANGING.items()]
    body = "\n".join([*bodies, "def test_comes_last(): pass"])
    done = small_run(tmp_path, body, "-n", "1", "--max-worker-restart", "99", "-v", "--timeout", "1")
    assert done.returncode == 1
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    for kind, name in names.items():
        assert any(f"::{name}" in line for line in failed), kind
    assert "PASSED test_it.py::test_comes_last" in done.stdout


def test_report_shows_where_a_cancelled_test_waited(tmp_path: Path) -> None:
    body = """
        async def wait_for_what_never_comes():
            await anyio.Event().wait()

        @pytest.mark.anyio
        @pytest.mark.parametrize("anyio_backend", ["trio", "asyncio"])
        async def test_hangs(anyio_backend):
            await wait_for_what_never_comes()
        """
    # A busy machine needs time to cancel before the signal.
    done = small_run(tmp_path, body, "--timeout", "10")
    assert done.stdout.count("didn't end within its deadline and was cancelled") >= 2
    assert "in wait_for_what_never_comes" in done.stdout


def test_fast_tests_are_not_affected(tmp_path: Path) -> None:
    body = """
        @pytest.mark.anyio
        @pytest.mark.parametrize("anyio_backend", ["trio", "asyncio"])
        async def test_is_quick(anyio_backend):
            await anyio.sleep(0)

        @given(number=strategies.integers())
        @pytest.mark.anyio
        @pytest.mark.parametrize("anyio_backend", ["trio", "asyncio"])
        async def test_of_examples(anyio_backend, number):
            await anyio.sleep(0)

        class TestThings:
            @pytest.mark.anyio
            @pytest.mark.parametrize("anyio_backend", ["trio"])
            async def test_method(self, anyio_backend):
                assert isinstance(self, TestThings)
        """
    done = small_run(tmp_path, body, "--timeout", "60")
    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout

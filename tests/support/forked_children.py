"""What is refused in a forked child of a process."""

import os
import signal

import lgb_dp


def refused_in_a_child(attempt):
    """Whether `attempt` raises a ForkedProcessError in a forked process."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            attempt()
        except lgb_dp.ForkedProcessError:
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0

"""A ReFrame test that measures with busbw, and passes where busbw finds the bandwidth as it should be.

    reframe --checkpath examples/ci/reframe_busbw.py --run

Under a scheduler, set num_tasks and num_tasks_per_node, and the launcher of the partition starts the ranks.
"""

import reframe as rfm
import reframe.utility.sanity as sn


@rfm.simple_test
class AllReduce(rfm.RunOnlyRegressionTest):
    """all_reduce at 1 MiB, and the verdict of ``busbw expect``."""

    least = variable(str, value="1M=0.01")
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "busbw"
    executable_opts = ["run", "all_reduce", "-b", "1M", "-e", "1M", "--name", "reframe", "--format", "csv"]

    @run_before("run")
    def judge(self):
        """The exit code of ``expect`` is that of the job's script."""
        self.postrun_cmds = [f"busbw expect reframe --least {self.least} --junit junit.xml"]
        self.keep_files = ["junit.xml"]

    @sanity_function
    def is_as_expected(self):
        """The row was measured, and ``expect`` says that it is as it should be."""
        return sn.all(
            [sn.assert_found(r"out-of-place,\d+,good,", self.stdout), sn.assert_eq(self.job.exitcode, 0)]
        )

    @performance_function("GB/s")
    def busbw(self):
        """Bus bandwidth out of place."""
        row = r"out-of-place,\d+,good,(?:[^,]*,){5}(?P<busbw>[^,]+),"
        return sn.extractsingle(row, self.stdout, "busbw", float)

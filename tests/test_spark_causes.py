"""Who is to blame for an error of Spark's: decided by classes and conditions alone. No Spark in here."""

import errno

import pytest
from py4j.protocol import Py4JNetworkError

from seamark.spark.causes import OWN_TROUBLE, Cause, Fault, fault_of, final_line, judged, mark

ABORTED = Cause("org.apache.spark.SparkException", None, "Job aborted due to stage failure: cancelled, FetchFailed")
WAITED = Cause("org.apache.spark.SparkException", None, "Exception thrown in awaitResult: ")
HELD = Cause("java.util.concurrent.ExecutionException", None, "No space left on device")


@pytest.mark.scenario("X96")
@pytest.mark.scenario("X97")
@pytest.mark.parametrize(
    ("causes", "fault"),
    [
        ([Cause("SparkNumberFormatException", "CAST_INVALID_INPUT", "cancelled")], Fault.ROWS),
        ([Cause("SparkRuntimeException", "USER_RAISED_EXCEPTION", "OutOfMemoryError")], Fault.ROWS),
        ([WAITED, HELD, Cause("SparkNumberFormatException", "CAST_INVALID_INPUT", "FetchFailed")], Fault.ROWS),
        ([ABORTED, Cause("java.lang.RuntimeException", None, "No space left on device")], Fault.ROWS),
        ([Cause("java.security.ProviderException", None, "ExecutorLostFailure")], Fault.ROWS),
        ([Cause("org.apache.spark.SparkException", "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION"),
          Cause("com.fasterxml.jackson.core.JsonParseException")], Fault.ROWS),
        ([Cause("org.apache.spark.SparkException", "FAILED_EXECUTE_UDF"), Cause("java.io.IOException")], Fault.ROWS),
        ([WAITED, Cause("org.apache.spark.api.python.PythonException", "PYTHON_EXCEPTION", "cancelled")], Fault.ROWS),
        ([Cause("org.apache.spark.SparkException", "STAGE_MATERIALIZATION_MULTIPLE_FAILURES"),
          Cause("org.apache.spark.SparkRuntimeException", "USER_RAISED_EXCEPTION")], Fault.ROWS),
        ([ABORTED, Cause("org.apache.spark.SparkException", None, "Python worker exited unexpectedly (crashed)"),
          Cause("java.io.EOFException")], Fault.SURROUNDINGS),
        ([ABORTED], Fault.SURROUNDINGS),  # an executor was lost: there is no cause to look at
        ([ABORTED, Cause("java.net.SocketException", None, "Connection reset")], Fault.SURROUNDINGS),
        ([Cause("java.lang.OutOfMemoryError", None, "Java heap space")], Fault.SURROUNDINGS),
        ([Cause("org.apache.spark.SparkException", "FAILED_READ_FILE.FILE_NOT_EXIST"),
          Cause("java.io.FileNotFoundException")], Fault.SURROUNDINGS),
        ([Cause("org.apache.spark.memory.SparkOutOfMemoryError", "UNABLE_TO_ACQUIRE_MEMORY")], Fault.SURROUNDINGS),
        ([Cause("org.apache.spark.SparkException", "_LEGACY_ERROR_TEMP_3033")], Fault.SURROUNDINGS),
        ([WAITED, Cause("org.apache.spark.api.python.PythonException", "PYTHON_EXCEPTION",
                        f"RuntimeError: {OWN_TROUBLE.marked}OSError: disk full")], Fault.SURROUNDINGS),
        ([], Fault.SURROUNDINGS),  # nobody is left to ask
        ([Cause("org.apache.spark.SparkException", "SPARK_JOB_CANCELLED", "Job 3 cancelled")], Fault.CANCELLED),
    ],
)  # fmt: skip
def test_classes_and_conditions_decide_and_words_do_not(causes, fault):
    assert judged(causes) is fault


@pytest.mark.scenario("X97")
@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (ValueError("cancelled: No space left on device, OutOfMemoryError"), Fault.ROWS),
        (OSError("cannot open b\udcffname"), Fault.ROWS),
        (FileNotFoundError(errno.ENOENT, "gone"), Fault.ROWS),
        (OSError(errno.ENOSPC, "full"), Fault.SURROUNDINGS),
        (MemoryError(), Fault.SURROUNDINGS),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Spark is gone"), Fault.SURROUNDINGS),
        (Py4JNetworkError("Answer from Java side is empty"), Fault.SURROUNDINGS),
    ],
)
def test_errors_of_python_are_judged_by_class_and_number(error, fault):
    assert fault_of(error) is fault


@pytest.mark.scenario("X96")
def test_a_mark_is_no_text_that_anybody_could_have_written():
    assert mark("doubled key").startswith("seamark ")
    assert len(mark("doubled key").split()[1]) >= 12
    told = r"^seamark \w{12}: trouble of its own: OSError: \[Errno 28\] full$"
    with pytest.raises(RuntimeError, match=told), OWN_TROUBLE.marking():
        raise OSError(28, "full")
    with pytest.raises(ValueError, match="a row"), OWN_TROUBLE.marking():
        raise ValueError("a row")


TRACE = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "pipeline.py", line 3, in parse
    return float(text)
           ^^^^^^^^^^^
{error}
"""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("ValueError: could not convert", "ValueError: could not convert"),
        ("pyarrow.lib.ArrowInvalid: no\nand more of it", "pyarrow.lib.ArrowInvalid: no"),
        ("SystemExit: 3", "SystemExit: 3"),
        (f"RuntimeError: {OWN_TROUBLE.marked}OSError: full", "OSError: full"),
    ],
    ids=["plain", "more lines", "exit", "marked"],  # the mark is another one in every process
)
def test_the_end_of_a_stack_trace_says_what_went_wrong(error, told):
    assert final_line(TRACE.format(error=error)) == told

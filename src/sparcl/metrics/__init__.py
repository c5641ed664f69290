"""What is measured: accuracy over tasks, and the memory of the process."""

from sparcl.metrics.accuracy import AccuracyMatrix, AccuracyRow, class_il_and_task_il, mean_row
from sparcl.metrics.memory import peak_memory_mb

__all__ = ["AccuracyMatrix", "AccuracyRow", "class_il_and_task_il", "mean_row", "peak_memory_mb"]

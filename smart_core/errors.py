"""The errors a user can meet, each carrying one plain sentence: what is wrong, where, and the cure."""

from __future__ import annotations


class SmartError(Exception):
    """Base class of every error that is meant for the user's eyes."""


class LogitFileError(SmartError):
    """A file cannot be used as logits; the only error that loading raises."""


class CalibrationError(SmartError):
    """A calibrator cannot be fitted to, or applied to, the arrays it was given."""


class CalibratorFileError(SmartError):
    """A saved calibrator cannot be read."""


class ExportError(SmartError):
    """A result or a calibrator cannot be written in the form asked for."""


class WorkspaceError(SmartError):
    """A workspace cannot be saved or restored."""


class Cancelled(SmartError):
    """The caller's cancel token was set; whatever had finished before is kept by the caller."""

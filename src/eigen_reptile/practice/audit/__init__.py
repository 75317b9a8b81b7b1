"""Audit: every label's trust, a page on which people decide about suspects, and moves that can be undone."""

from eigen_reptile.practice.audit.audit import FIRST, Audit, AuditRow, audit_labels

__all__ = ["FIRST", "Audit", "AuditRow", "audit_labels"]

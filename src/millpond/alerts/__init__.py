"""Alerts: one file of definitions, and everything that is made from it. `alerts.json` alone holds thresholds.

Prometheus' rules, the states a running process shows, the table of the runbook and Cloud Monitoring's policies
(`infra/terraform/monitoring.tf` reads the same file) all come from it. Called by `live`.
"""

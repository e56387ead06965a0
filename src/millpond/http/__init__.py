"""The HTTP server: connections and their limits, the push path, the API, OpenAPI and the dashboard.

Owns uvicorn, starlette, access rules and everything under `static/`. Never decides an outcome: `service` does.
Started by the CLI.
"""

"""The OpenAPI description of every path, served at /openapi.json and held against real answers by tests."""

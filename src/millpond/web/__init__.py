"""The HTTP service: a bounded server, the push path, and the API people use."""

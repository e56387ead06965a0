"""What people and programs ask over HTTP, one module for each group of paths. Listed in `http.app`.

A module reads its parameters, calls `service`, and answers with JSON. It never touches a store's insides.
"""

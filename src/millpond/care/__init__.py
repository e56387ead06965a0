"""Looking after a pond: copying its embedded store while it serves, and examining what it stands on."""

# One push instance always warm, two pull workers so that one may fail, and nothing deleted by a slip.
project            = "millpond-prod"
environment        = "prod"
region             = "europe-west1"
firestore_location = "eur3"
min_instances      = 1
max_instances      = 3
pull_instances     = 2
protected          = true

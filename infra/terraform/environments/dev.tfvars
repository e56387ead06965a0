# Cheap: nothing runs while nothing arrives, except the pull worker. Everything may be torn down.
project            = "millpond-dev"
environment        = "dev"
region             = "europe-west1"
firestore_location = "europe-west1"
min_instances      = 0
max_instances      = 1
pull_instances     = 1
protected          = false

# Developers use the API from where they are; IAM still asks who they are.
ingress = "INGRESS_TRAFFIC_ALL"

# As prod, smaller: what is tried here behaves as it will there.
project            = "millpond-staging"
environment        = "staging"
region             = "europe-west1"
firestore_location = "eur3"
min_instances      = 1
max_instances      = 2
pull_instances     = 1
protected          = false

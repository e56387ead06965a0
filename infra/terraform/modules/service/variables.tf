# The same in all services of an environment.

variable "region" {
  description = "Where the service runs."
  type        = string
}

variable "image" {
  description = "The container image, by digest."
  type        = string
}

variable "protected" {
  description = "Refuse to delete the service."
  type        = bool
}

variable "cpu" {
  description = "CPUs of an instance."
  type        = string
}

# What makes a service the one it is.

variable "name" {
  description = "Name of the service."
  type        = string
}

variable "args" {
  description = "Arguments of `millpond`: the command first."
  type        = list(string)
}

variable "service_account" {
  description = "Email of the account the instances run as."
  type        = string
}

variable "env" {
  description = "Settings of Millpond, apart from ADMIN_TOKEN."
  type        = map(string)
}

variable "ingress" {
  description = "Networks that reach the service. IAM decides who may call it."
  type        = string
}

variable "memory" {
  description = "Memory of an instance."
  type        = string
}

variable "min_instances" {
  description = "Instances kept running."
  type        = number
}

variable "max_instances" {
  description = "Most instances."
  type        = number
}

variable "cpu_idle" {
  description = "Give an instance CPU during requests only."
  type        = bool
}

# Null: not set, so that Cloud Run's own default holds.

variable "concurrency" {
  description = "Requests at once per instance."
  type        = number
  default     = null
}

variable "timeout" {
  description = "Longest request, such as 60s."
  type        = string
  default     = null
}

variable "audiences" {
  description = "Audiences of tokens that Cloud Run accepts, beside the service's URL."
  type        = list(string)
  default     = null
}

variable "admin_token_secret" {
  description = "Secret Manager secret that holds ADMIN_TOKEN; null: the service gets none."
  type        = string
  default     = null
}

variable "artifacts" {
  description = "The bucket to mount, and the path to mount it at; null: none."
  type        = object({ bucket = string, path = string })
  default     = null
}

// Package ecs is the pocket cloud's Elastic Container Service: task definitions
// and one-off tasks, which really run in an executor. Services, container
// instances and exec aren't there.
//
// It is as strict as the real one where a rule is documented (see Rules), and
// goes through the real states in the real order. See
// https://docs.aws.amazon.com/AmazonECS/latest/APIReference/Welcome.html.
package ecs

// Package batch is the part of AWS Batch that one-off container jobs need: job
// definitions, jobs, their queues and tags, over REST JSON. Jobs really run.
//
// Jobs go through the states of AWS Batch in their order and are forgotten a day
// after their end. SubmitJob has no token there, and has none here. What AWS
// Batch has beyond that (arrays, several nodes, dependencies, EKS, fair shares,
// GPUs, volumes) is refused, never overlooked.
package batch

// Package logs is the pocket cloud's CloudWatch Logs: groups, streams and their
// events, as far as a reader of container logs and the awslogs log driver use
// them. See https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/.
package logs

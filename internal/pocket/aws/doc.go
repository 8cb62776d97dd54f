// Package aws is the pocket AWS: ECS, Batch, CloudWatch Logs, Secrets Manager,
// parameters of Systems Manager and STS on one port, for one account and region,
// over the real wire protocols. Tasks really run.
//
// A test starts it so:
//
//	cloud, err := aws.New(aws.Options{})
//	defer cloud.Close()
//	web := httptest.NewServer(cloud)
//	defer web.Close()
//	// clients take web.URL as their endpoint, region aws.Region and any key
//
// What it does wrong on purpose is set by Faults (calls), ECS().SetKnobs and
// Strike (tasks), Batch() likewise (jobs), and Logs().SetKnobs (events). Calls tells what was asked.
package aws

// Package gcp is the pocket Google Cloud: Cloud Run jobs and services, Cloud
// Logging, Cloud Monitoring and Secret Manager on one port, for one project and
// location, by gRPC and by REST. Tasks and instances really run.
//
// A test starts it so:
//
//	cloud, err := gcp.New(gcp.Options{})
//	defer cloud.Close()
//	address, err := cloud.Listen("127.0.0.1:0")
//	// clients take address as their endpoint, gRPC without TLS or http://
//
// What it does wrong on purpose is set by Faults (calls), Run().SetKnobs and
// Strike (executions), and Logging().SetKnobs (entries). Calls tells what was
// asked.
package gcp

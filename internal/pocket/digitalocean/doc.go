// Package digitalocean is the pocket DigitalOcean: App Platform's part of API v2
// for one account, over the real wire protocol. Jobs really run.
//
// A test starts it so:
//
//	cloud, err := digitalocean.New(digitalocean.Options{})
//	defer cloud.Close()
//	web := httptest.NewServer(cloud)
//	defer web.Close()
//	// clients take web.URL as their base URL, and any token
//
// What it does wrong on purpose is set by Faults (calls), SetKnobs and Strike
// (deployments and jobs). Calls tells what was asked.
package digitalocean

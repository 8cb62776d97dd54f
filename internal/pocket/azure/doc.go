// Package azure is the pocket Azure: Container Instances of one subscription by
// Azure Resource Manager, secrets of Key Vault, and the tokens that both ask
// for, over the real wire protocol. Containers really run.
//
// A test starts it so:
//
//	cloud, err := azure.New(azure.Options{})
//	defer cloud.Close()
//	address, err := cloud.Listen("127.0.0.1:0")
//	// clients take "https://"+address as Resource Manager's endpoint and as
//	// the authority's host, and trust cloud.CA()
//
// What it does wrong on purpose is set by Faults (calls), SetKnobs and Strike
// (groups and containers). Calls tells what was asked.
package azure

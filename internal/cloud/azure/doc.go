// Package azure is what drivers of Azure share: credentials and the way to Azure
// Resource Manager, the classes of errors, budgets of calls, tags, and secrets of
// Key Vault.
//
// Nothing here repeats a call: the vendor's retries are off.
package azure

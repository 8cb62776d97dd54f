// Package client is the host's side of a provider that is a plugin: a connection
// becomes an sdk.Provider, whose capabilities are those that the plugin named when it
// was opened.
package client

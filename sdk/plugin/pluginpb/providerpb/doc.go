// Package providerpb is the wire between Windlass and a provider that is a plugin:
// one service for each capability of sdk.Capabilities, generated from
// proto/windlass/provider/v1.
package providerpb

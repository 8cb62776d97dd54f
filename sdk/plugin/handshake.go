package plugin

import goplugin "github.com/hashicorp/go-plugin"

// The handshake of the ecosystem's plugins: a host that doesn't set the cookie isn't
// one, and a plugin that speaks another version is refused by name.
const (
	// ProtocolVersion is the version of the handshake.
	ProtocolVersion = 1
	// CookieKey is the variable by which a process knows that a host has started it.
	CookieKey = "WORKFLOW_PLUGIN"
	// CookieValue is the variable's value.
	CookieValue = "workflow-external-plugin-v1"
	// SetKey is the name of the only plugin in a process's set.
	SetKey = "plugin"
)

// Handshake returns the handshake for go-plugin's own client and server.
func Handshake() goplugin.HandshakeConfig {
	return goplugin.HandshakeConfig{ProtocolVersion: ProtocolVersion, MagicCookieKey: CookieKey, MagicCookieValue: CookieValue}
}

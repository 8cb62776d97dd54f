// Package cookie looks for the variable by which a plugin's process knows that a host
// has started it: nothing else of the handshake can tell before the handshake.
package cookie

import "os"

// Is reports whether the variable key has the value.
func Is(key, value string) bool { return os.Getenv(key) == value }

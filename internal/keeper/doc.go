// Package keeper is the background holder of a state directory: the process
// that polls, captures output, enforces deadlines and cleans up after the
// command that submitted a run has gone.
//
// One keeper serves a state directory. It is elected by a lock, started on
// demand by re-executing this program, reached over a socket of mode 0600, and
// leaves after it has been idle for a while. Commands hand their runs over on
// the socket together with their surroundings (folder, configuration file and
// environment), which the keeper keeps in memory only.
package keeper

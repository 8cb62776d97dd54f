// Package keeper is the background holder of a state directory: the process
// that polls, captures output, enforces deadlines and cleans up after the
// command that submitted a run has gone.
//
// One keeper serves a state directory. A lock elects it and a lease rules over
// the lock, so that one that is stopped can be replaced. It is started on
// demand by re-executing this program, reached over a socket of mode 0600, and
// leaves after it has been idle for a while. Commands hand their runs over on
// the socket together with their surroundings (folder, configuration file and
// environment), which the keeper keeps in memory only; a run's launches and
// secrets come from those of its own command, whatever else it is asked from
// any in which its provider has the same identity.
package keeper

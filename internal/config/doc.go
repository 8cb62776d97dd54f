// Package config reads what Windlass is told by flags, the environment and
// windlass.yaml, and says of each value where it comes from.
//
// Every setting has one row in one table, [Settings]. Look-ups, the strict
// shape of the file, the JSON schema, `config show --origin` and
// docs/configuration.md are all made from it.
//
// A setting comes from the first of these that has it: its flag, its variable,
// the nearest windlass.yaml from the working folder upwards, the user's own
// file in the XDG folder, the default. A file that is named (by --config or
// WINDLASS_CONFIG) stands in for both files. A provider is one value: the
// nearer file's entry replaces the whole entry of that name.
//
// Together with package credential this is the only place that reads the
// process's environment. Nothing here reaches a network.
package config

package pluginhost

// Given is the schema of providers of a plugin whose entry has a config.
var Given = given

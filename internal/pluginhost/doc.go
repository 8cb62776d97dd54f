// Package pluginhost finds, verifies, starts and supervises plugins: providers that
// run as processes of their own. The driver of a plugin is an sdk.Driver like that of
// any other kind; its providers outlive the process that serves them, which is started
// again when it has ended.
//
// A Host starts processes itself. Others that ask one over a socket are a Source, too:
// so one keeper hosts the plugins of all commands.
package pluginhost

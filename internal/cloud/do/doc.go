// Package do is what the drivers of DigitalOcean share: the client with its
// token, whose team that is, the budget of calls, and the classes of errors.
//
// It uses godo with its retries off: whoever makes a call knows whether it may be
// made again.
package do

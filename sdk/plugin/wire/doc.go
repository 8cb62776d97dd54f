// Package wire turns the contract's Go values into the messages of
// windlass.provider.v1 and back. Both ends of a plugin use it, so each conversion
// stands in one place.
//
// Whoever sends a request is told InvalidArgument of what can't be carried, before
// anything is sent. What is wrong with a reply is Internal, at either end: it proves
// nothing of the call, which may have made something. A request, and what outlives a
// process (spec, launch, handle, cursor), may have no field that the receiver doesn't
// know. A word that the host doesn't know is read as the one that promises least.
// Unset and empty stay apart where the contract tells them apart: argument lists,
// raw JSON, data of input files, pointers; elsewhere an empty list or map is nil.
// Times come out in UTC.
package wire

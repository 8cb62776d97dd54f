// Package sdk is the public contract between Windlass and the backends that
// run its jobs.
//
// A backend is a [Driver]. Opening it gives a [Provider], and what the
// provider can do is a set of capabilities: small optional interfaces such as
// [JobRunner] or [JobCanceler]. [Of] is the only way to ask for one.
//
// The package imports the standard library alone, so that an author of a
// provider takes on no dependencies of ours. Every method has the form
//
//	Method(ctx, XRequest) (XResult, error)
//
// so that it can grow without breaking anyone; streams return
// iter.Seq2[Item, error], where the error comes last and at most once, and
// breaking out of the loop frees everything that the stream held.
//
// Nothing is invented: a zero time is "not known", a nil exit code is "none
// was given", and a driver fills in neither without evidence.
package sdk

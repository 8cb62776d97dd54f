// Package step runs step files: a list of steps, each a sandboxed execution,
// one after the other. A later step may use what an earlier one gave out, in
// templates.
//
// A file is read strictly, and checked as a whole before its first step starts:
// every problem has its file, line and column, templates and what they refer
// to included. What only a template's text decides is checked when that step's
// turn comes, still before anything of it is started.
package step

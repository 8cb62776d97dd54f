// Package gapi holds what the services of the pocket Google Cloud have in
// common on the wire: refusals with Google's error model, pages of lists, and
// names of resources.
package gapi

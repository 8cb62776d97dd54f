//go:build race

package ledgertest

// raceDetector says that everything takes ten times as long.
const raceDetector = true

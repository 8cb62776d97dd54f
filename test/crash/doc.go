// Package crash kills the real program at every boundary of its state machine,
// on every driver, and asserts what is left: exactly one job ran, its outcome
// and every byte of its output are recorded, nothing stays behind, and the
// ledger is sound.
//
// The program is built with the tag failpoint. WINDLASS_CRASH_ROUNDS sets how
// often each boundary is hit; the default is 5, and 3 on clouds.
package crash

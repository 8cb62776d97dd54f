// Package joblog stores captured job output: one log per attempt of a run,
// written by the run's holder while the job runs, read and followed by any
// number of other processes at the same time.
//
// # Places
//
// A place in a log is logical: for each stream of each launch the number of
// units before it, where a unit is a byte of data, or the newline that a
// backend took off the end of a line. Files, frames and chunks don't show in
// it, so a place stays right when another holder captures the same output
// again in other chunks and in another order between the streams. Readers
// filter by place: what they have shown they skip, what they haven't they show.
//
// # Files
//
// An attempt is a folder of segments and checkpoints. A segment starts with a
// header that says at which place it starts and how long its predecessor is,
// and goes on with frames, each with its length, a CRC-32C and the holder's
// epoch. A checkpoint joins the driver's cursor with the place that belongs to
// it; it is written after the data before it is on the disk.
//
// # Holders
//
// Every writer has a term of its own: the ledger's epoch, and a generation for
// writers of one epoch. A writer never touches a file of another term but to
// remove it, so a stale holder that wakes up writes only where nobody looks
// any more: the newest header's lineage says which segments count. What lies
// behind the last checkpoint is captured again by the next holder; until it
// starts to, and also if the backend has nothing more to give, the old bytes
// stay as they are, for they may be the only copy.
//
// # Limits
//
// A log that outgrows its cap keeps head and tail and loses whole segments in
// between; readers get a gap with the exact number of bytes. When the disk is
// full the job goes on: bytes that don't fit are counted, and become a gap.
package joblog

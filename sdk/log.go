package sdk

import "time"

// Stream says where bytes of a log come from.
type Stream string

// The streams. Combined is for backends that don't keep stdout and stderr
// apart. System carries the platform's own lines, never the job's.
const (
	StreamStdout   Stream = "stdout"
	StreamStderr   Stream = "stderr"
	StreamCombined Stream = "combined"
	StreamSystem   Stream = "system"
)

// LineEnd says what became of the newline at the end of a chunk.
type LineEnd string

// LineEndKept: Data is as written, newlines included, and is shown as it is.
// LineEndStripped: the backend stores lines and took one newline off the end
// of Data; showing it adds one.
const (
	LineEndKept     LineEnd = "kept"
	LineEndStripped LineEnd = "stripped"
)

// LogChunk is bytes of a job's output, as the backend stores them. Order is
// promised within a stream, not between streams.
type LogChunk struct {
	// Time is the backend's stamp, or ours where it has none; zero is unknown.
	Time   time.Time
	Stream Stream
	// Data is any bytes; the receiver may keep it until the next item of the
	// stream is asked for, not longer.
	Data    []byte
	LineEnd LineEnd
	// Launch tells the outputs of several launches of one attempt apart: 0 is
	// the first.
	Launch int
}

// LogGap says that bytes are missing at this place.
type LogGap struct {
	From, To time.Time
	// Bytes is how many are missing, -1 when that is not known.
	Bytes int64
	// Why is one sentence.
	Why string
}

// Verdict says how much of a run's output was captured.
type Verdict string

// The verdicts, from best to worst.
const (
	// VerdictComplete: the end of the log is proven.
	VerdictComplete Verdict = "complete"
	// VerdictQuiet: the log was silent for the declared window.
	VerdictQuiet Verdict = "quiet"
	// VerdictTruncatedByProvider: the backend dropped a part.
	VerdictTruncatedByProvider Verdict = "truncated_by_provider"
	// VerdictTruncatedByUs: the size cap kept head and tail only.
	VerdictTruncatedByUs Verdict = "truncated_by_us"
	// VerdictGap: a part is missing in between.
	VerdictGap Verdict = "gap"
	// VerdictUnavailable: the log could not be read.
	VerdictUnavailable Verdict = "unavailable"
)

// Verdicts returns every verdict, best first.
func Verdicts() []Verdict {
	return []Verdict{VerdictComplete, VerdictQuiet, VerdictTruncatedByProvider, VerdictTruncatedByUs, VerdictGap, VerdictUnavailable}
}

// Worse returns the worse of two verdicts; an empty one counts as best.
func (v Verdict) Worse(w Verdict) Verdict {
	rank := func(x Verdict) int {
		for i, y := range Verdicts() {
			if x == y {
				return i
			}
		}
		return -1
	}
	if rank(w) > rank(v) {
		return w
	}
	return v
}

// LogEnd is the last item of a log stream that came to its end.
type LogEnd struct {
	// Verdict is complete only when the end is proven; a stream that returns
	// because it was not asked to follow says quiet.
	Verdict Verdict
}

// LogItem is one item of a log stream: exactly one of Entry, Gap and End is
// set, or none when the item only brings a cursor. An item without anything
// tells of a look that found nothing new (LogGuarantee.Looks).
type LogItem struct {
	Entry *LogChunk
	Gap   *LogGap
	End   *LogEnd
	// Cursor, when not nil, is the place right behind this item: reading
	// from it gives every later byte once. A driver sets it at least once a
	// page or second, and on End.
	Cursor *LogCursor
}

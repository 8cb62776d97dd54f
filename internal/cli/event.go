package cli

import (
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// The events of a stream of JSON lines.
const (
	eventSubmitted = "submitted"
	eventOutput    = "output"
	eventGap       = "gap"
	eventLogEnd    = "log_end"
	eventProgress  = "progress"
	eventWarning   = "warning"
	eventEnd       = "end"
	eventError     = "error"
	eventStepBegin = "step_begin"
	eventStepEnd   = "step_end"
)

// EventName is what a line of a stream is about.
type EventName string

func eventNames() []EventName {
	return []EventName{eventSubmitted, eventOutput, eventGap, eventLogEnd, eventProgress, eventWarning, eventEnd, eventError, eventStepBegin, eventStepEnd}
}

// Event is one line of a stream of JSON lines.
type Event struct {
	Event    EventName  `json:"event" doc:"submitted, output, gap, log_end, progress, warning, end or error; step_begin and step_end of windlass step run."`
	Run      string     `json:"run,omitzero" doc:"ID of the run concerned."`
	Instance string     `json:"instance,omitzero" doc:"Instance of a live workload that wrote it, in windlass svc logs."`
	Attempt  int        `json:"attempt,omitzero" doc:"Number of the attempt concerned."`
	Time     *time.Time `json:"time,omitzero" doc:"When it was written, as the backend stamps it."`
	Stream   sdk.Stream `json:"stream,omitzero" doc:"stdout, stderr, combined or system."`
	// Data is base64, since output is any bytes.
	Data    []byte      `json:"data,omitzero" doc:"The job's bytes in base64."`
	LineEnd sdk.LineEnd `json:"line_end,omitzero" doc:"kept, or stripped where the backend took the newline off."`
	Launch  int         `json:"launch,omitzero" doc:"Tells several starts of one attempt apart; 0 is the first."`
	Bytes   int64       `json:"bytes,omitzero" doc:"How many bytes are missing in a gap; -1 when that is not known."`
	Message string      `json:"message,omitzero" doc:"One sentence for people."`
	Verdict sdk.Verdict `json:"log_verdict,omitzero" doc:"How much of an attempt's output was captured."`
	Cursor  string      `json:"cursor,omitzero" doc:"Place behind this event, for windlass logs --cursor."`
	State   *RunView    `json:"state,omitzero" doc:"The run, in submitted and end."`
	Step    *StepView   `json:"step,omitzero" doc:"The step of a file, in step_begin, submitted and step_end of windlass step run."`
	Error   *ErrorBody  `json:"error,omitzero" doc:"What went wrong."`
}

package pluginhost

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	// maxLine is how many bytes of one line of a plugin's go into our log.
	maxLine = 4 << 10
	// linesASecond is how many lines go there over time, lineBurst how many at once.
	linesASecond = 50
	lineBurst    = 200
	// tellTime is how long lines are left out until that is told, with their number.
	tellTime = 10 * time.Second
	// maxLast is how many bytes of the last words an error has.
	maxLast = 512
)

// words writes what a plugin says into a log: by lines, each bounded, and no more of
// them than the log can bear. What is left out is counted, and told once in a while.
type words struct {
	log    *slog.Logger
	redact func(string) string
	now    func() time.Time

	mu      sync.Mutex
	line    []byte
	cut     int
	tokens  float64
	at      time.Time
	dropped int
	telling *time.Timer // runs while some are left out
	last    []string
}

func newWords(log *slog.Logger, redact func(string) string, now func() time.Time) *words {
	return &words{log: log, redact: redact, now: now, tokens: lineBurst, at: now()}
}

// Write takes any part of what a plugin says. It never fails, so that no plugin waits
// for its log.
func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		part := p
		if i >= 0 {
			part = p[:i]
		}
		room := min(maxLine-len(w.line), len(part))
		w.line = append(w.line, part[:room]...)
		w.cut += len(part) - room
		if i < 0 {
			break
		}
		w.flush()
		p = p[i+1:]
	}
	return n, nil
}

// end writes what has no newline, and how much was left out.
func (w *words) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
	w.tell()
}

func (w *words) flush() {
	text, cut := strings.TrimRight(strings.ToValidUTF8(string(w.line), "\uFFFD"), "\r"), w.cut
	w.line, w.cut = w.line[:0], 0
	if text == "" {
		return
	}
	now := w.now()
	w.tokens = min(lineBurst, w.tokens+now.Sub(w.at).Seconds()*linesASecond)
	w.at = now
	if w.tokens < 1 {
		if w.dropped++; w.telling == nil {
			w.telling = time.AfterFunc(tellTime, func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.tell()
			})
		}
		return
	}
	w.tokens--
	level, message := levelOf(text)
	message = w.redact(message)
	if level >= slog.LevelInfo {
		w.keep(message)
	}
	attrs := []slog.Attr{slog.String("says", message)}
	if cut > 0 {
		attrs = append(attrs, slog.Int("bytes_left_out", cut))
	}
	w.log.LogAttrs(context.Background(), level, "plugin", attrs...)
}

// tell says what was left out since the last time.
func (w *words) tell() {
	if w.dropped > 0 {
		w.log.Warn("a plugin said more than is logged", "lines_left_out", w.dropped)
	}
	w.dropped = 0
	if w.telling != nil {
		w.telling.Stop()
		w.telling = nil
	}
}

// keep remembers the last lines.
func (w *words) keep(line string) {
	w.last = append(w.last, line)
	if len(w.last) > 5 {
		w.last = w.last[1:]
	}
}

// lastWords are the end of what was said, in one line.
func (w *words) lastWords() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.Join(w.last, " | ")
	if len(text) > maxLast {
		text = "…" + strings.ToValidUTF8(text[len(text)-maxLast:], "")
	}
	return text
}

// levelOf reads a line as go-plugin's log writes it, in JSON; any other is for
// information.
func levelOf(line string) (slog.Level, string) {
	var m struct {
		Level   string `json:"@level"`
		Message string `json:"@message"`
	}
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &m) != nil || m.Message == "" {
		return slog.LevelInfo, line
	}
	switch m.Level {
	case "trace", "debug":
		return slog.LevelDebug, m.Message
	case "warn":
		return slog.LevelWarn, m.Message
	case "error":
		return slog.LevelError, m.Message
	}
	return slog.LevelInfo, m.Message
}

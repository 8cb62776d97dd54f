package digitalocean

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// cron is a schedule: for each field the values that it matches.
type cron struct {
	minute, hour, day, month, weekday uint64
	// Where both are restricted, a day need match only one of day and weekday.
	anyDay, anyWeekday bool
}

// parseCron reads the five fields minute, hour, day of the month, month and day
// of the week: numbers, *, ranges, steps and lists. The last two take names.
func parseCron(text string) (cron, error) {
	fields := strings.Fields(text)
	if len(fields) != 5 {
		return cron{}, fmt.Errorf("cron expression %q has %d fields, not 5", text, len(fields))
	}
	var c cron
	for i, f := range []struct {
		name     string
		into     *uint64
		min, max int
		names    string
	}{
		{"minute", &c.minute, 0, 59, ""}, {"hour", &c.hour, 0, 23, ""}, {"day", &c.day, 1, 31, ""},
		{"month", &c.month, 1, 12, "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC"}, {"weekday", &c.weekday, 0, 7, "SUNMONTUEWEDTHUFRISAT"},
	} {
		set, err := cronField(fields[i], f.min, f.max, f.names)
		if err != nil {
			return cron{}, fmt.Errorf("cron expression %q: %s: %w", text, f.name, err)
		}
		*f.into = set
	}
	if c.weekday&(1<<7) != 0 { // Sunday is both 0 and 7
		c.weekday |= 1
	}
	c.anyDay, c.anyWeekday = strings.HasPrefix(fields[2], "*"), strings.HasPrefix(fields[4], "*")
	return c, nil
}

// cronField returns the set of values as bits.
func cronField(text string, low, high int, names string) (uint64, error) {
	var set uint64
	for part := range strings.SplitSeq(text, ",") {
		span, stepText, stepped := strings.Cut(part, "/")
		step := 1
		if stepped {
			n, err := strconv.Atoi(stepText)
			if err != nil || n < 1 || n > high {
				return 0, fmt.Errorf("%q is no step", part)
			}
			step = n
		}
		from, to := low, high
		if span != "*" {
			first, last, ranged := strings.Cut(span, "-")
			var ok bool
			if from, ok = cronValue(first, low, names); !ok {
				return 0, fmt.Errorf("%q is no value", part)
			}
			to = from
			if ranged {
				if to, ok = cronValue(last, low, names); !ok {
					return 0, fmt.Errorf("%q is no range", part)
				}
			} else if stepped {
				to = high
			}
		}
		if from < low || to > high || from > to {
			return 0, fmt.Errorf("%q is not within %d-%d", part, low, high)
		}
		for v := from; v <= to; v += step {
			set |= 1 << v
		}
	}
	return set, nil
}

func cronValue(text string, low int, names string) (int, bool) {
	if len(text) == 3 && names != "" {
		if i := strings.Index(names, strings.ToUpper(text)); i >= 0 && i%3 == 0 {
			return i/3 + low, true
		}
	}
	if len(text) == 0 || len(text) > 2 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// horizon is how far ahead next looks: 29 February is at most eight years away.
const horizon = 8 * 366

// next returns the first minute after a time that the schedule matches, in that
// time's zone; false if there is none.
func (c cron) next(after time.Time) (time.Time, bool) {
	t := after.Truncate(time.Minute).Add(time.Minute)
	last := t.AddDate(0, 0, horizon)
	for t.Before(last) {
		switch {
		case c.month&(1<<int(t.Month())) == 0 || !c.dayMatches(t):
			midnight := time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, t.Location())
			if !midnight.After(t) { // where clocks are changed there may be none
				midnight = t.Add(time.Hour)
			}
			t = midnight
		case c.hour&(1<<t.Hour()) == 0:
			t = t.Truncate(time.Minute).Add(time.Duration(60-t.Minute()) * time.Minute)
		case c.minute&(1<<t.Minute()) == 0:
			t = t.Add(time.Minute)
		default:
			return t, true
		}
	}
	return time.Time{}, false
}

func (c cron) dayMatches(t time.Time) bool {
	day, weekday := c.day&(1<<t.Day()) != 0, c.weekday&(1<<int(t.Weekday())) != 0
	if c.anyDay || c.anyWeekday {
		return day && weekday
	}
	return day || weekday
}

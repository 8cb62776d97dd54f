package docker

import "strconv"

// cores writes thousandths of a core as people do, such as 0.5.
func cores(milli int64) string { return strconv.FormatFloat(float64(milli)/1000, 'f', -1, 64) }

// size writes bytes for people, such as 256 MiB: flags and step files have units of
// their own.
func size(bytes int64) string {
	for _, u := range []struct {
		unit string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if bytes != 0 && bytes%u.size == 0 {
			return strconv.FormatInt(bytes/u.size, 10) + " " + u.unit
		}
	}
	return strconv.FormatInt(bytes, 10) + " bytes"
}

func whole(n int64) string { return strconv.FormatInt(n, 10) }

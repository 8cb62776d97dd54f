// Package price estimates what an object on a backend costs.
//
// The table has on-demand list prices of one region for each service, as the
// vendors' pages had them on [Date]: no discounts, no free tiers, no taxes, no
// network and no logs. So an estimate says "about". What has no row costs an
// unknown sum, which is never shown as nothing.
package price

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// Estimate is about what an object costs. All sums are in US dollars.
type Estimate struct {
	// Hourly is what it costs an hour at present. 0 is nothing: it doesn't run,
	// or is free.
	Hourly float64
	// Total is what it has cost so far; nil is unknown.
	Total *float64
	// Row has the prices.
	Row Row
}

// Of returns about what an object of a kind costs at a time, and false where
// nothing is known of that.
func Of(kind string, o sdk.OwnedObject, now time.Time) (Estimate, bool) {
	for _, r := range Table() {
		if r.Kind == kind && r.Type == o.Type && r.Class == o.Size.Class {
			return r.estimate(o, now)
		}
	}
	return Estimate{}, false
}

const gib = 1 << 30

// hourly is what an hour of running costs. What is priced by size needs one.
func (r Row) hourly(s sdk.OwnedSize) (float64, bool) {
	if r.Core > 0 && s.CPU == 0 || r.GiB > 0 && s.Memory == 0 {
		return 0, false
	}
	disk := math.Max(float64(s.Disk)/gib-r.DiskFree, 0)
	return r.Flat + r.Core*float64(s.CPU)/1000 + r.GiB*float64(s.Memory)/gib + r.DiskGiB*disk, true
}

func (r Row) estimate(o sdk.OwnedObject, now time.Time) (Estimate, bool) {
	rate, ok := r.hourly(o.Size)
	if !ok {
		return Estimate{}, false
	}
	e := Estimate{Row: r}
	if o.Live {
		e.Hourly = rate
	}
	end := o.Ended
	if o.Live {
		end = now
	}
	switch {
	case rate == 0:
		e.Total = new(0.0)
	case !o.Started.IsZero() && !end.IsZero():
		ran := max(end.Sub(o.Started), r.Least)
		e.Total = new(rate * ran.Hours())
	}
	return e, true
}

// String says an estimate in a few words: "about $0.04/h, $1.20 so far".
func (e Estimate) String() string {
	switch {
	case e.Hourly > 0 && e.Total != nil:
		return fmt.Sprintf("%s/h, %s so far", About(e.Hourly), Dollars(*e.Total))
	case e.Hourly > 0:
		return fmt.Sprintf("%s/h", About(e.Hourly))
	case e.Total != nil && *e.Total > 0:
		return fmt.Sprintf("%s in all", About(*e.Total))
	case e.Total != nil:
		return "nothing"
	}
	return "nothing more"
}

// About writes an estimated sum: "about $0.04", "under $0.0001".
func About(sum float64) string {
	if text := Dollars(sum); !strings.HasPrefix(text, under) {
		return "about " + text
	}
	return Dollars(sum)
}

// under begins what is too little to tell.
const under = "under "

// Dollars writes a sum with as many digits as tell something: "$0.04", "$1.20",
// "$0.0037", "under $0.0001".
func Dollars(sum float64) string {
	switch {
	case sum == 0:
		return "$0"
	case sum < 0.0001:
		return under + "$0.0001"
	case sum < 0.01:
		return fmt.Sprintf("$%.4f", sum)
	}
	return fmt.Sprintf("$%.2f", sum)
}
